# SPDX-License-Identifier: Apache-2.0
"""The examples run as written, and say what they should."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["GPUSIM_SOURCE_DIR"])


def has(module):
    # Asked of a process of its own: what is installed may still not load.
    return subprocess.run([sys.executable, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode == 0


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        os.symlink(SOURCE / "scenarios", Path(self.folder.name) / "scenarios")

    def tearDown(self):
        self.folder.cleanup()

    def run_example(self, name):
        return subprocess.run([sys.executable, str(SOURCE / "python" / "examples" / name)], cwd=self.folder.name,
                              env={**os.environ, "MPLBACKEND": "Agg", "MPLCONFIGDIR": self.folder.name},
                              stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout

    def test_one_reproduces_the_table_of_the_readme(self):
        readme = (SOURCE / "README.md").read_text().splitlines()
        lines = self.run_example("readme_table.py").splitlines()
        self.assertEqual(len(lines), 8)
        for line in lines:
            label = line[:17].strip()
            in_readme = next(row for row in readme if row.startswith(label))
            self.assertEqual(line[17:].split(), in_readme[len(label):].split(), label)

    @unittest.skipUnless(has("matplotlib"), "Matplotlib is not installed")
    def test_one_plots_step_time_against_launch_cost(self):
        self.run_example("launch_cost.py")
        picture = Path(self.folder.name) / "launch_cost.png"
        self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")
        code = [line for line in (SOURCE / "python" / "examples" / "launch_cost.py").read_text().splitlines()
                if line and not line.startswith("#")]
        self.assertLess(len(code), 10)

    def test_one_finds_the_batch_from_which_decoding_is_not_launch_bound(self):
        rows = [line.split() for line in self.run_example("batch_sizes.py").splitlines()]
        eager = [row for row in rows if "eager" in row]
        self.assertEqual(len(eager), 4)
        self.assertIn("overhead", eager[0])
        self.assertNotIn("overhead", eager[-1])


if __name__ == "__main__":
    sys.exit(unittest.main())
