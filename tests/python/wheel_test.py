# SPDX-License-Identifier: Apache-2.0
"""The wheel has all that the package needs, and installs."""
import hashlib
import base64
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

SOURCE = Path(os.environ["GPUSIM_SOURCE_DIR"])
BUILD = os.environ["GPUSIM_BINARY_DIR"]
sys.path.insert(0, str(SOURCE / "python" / "build_backend"))
import gpusim_build  # noqa: E402


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.wheel = Path(cls.folder.name) / gpusim_build.build_wheel(cls.folder.name, {"installed-from": BUILD})

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_python(self, package, code):
        env = {name: value for name, value in os.environ.items() if name != "GPUSIM_CONFIGS"}
        return subprocess.run([sys.executable, "-c", code], env={**env, "PYTHONPATH": str(package)}, cwd="/",
                              stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout

    def test_each_file_is_in_the_record_with_its_digest(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            record = next(name for name in names if name.endswith("/RECORD"))
            listed = dict(line.split(",", 1) for line in wheel.read(record).decode().splitlines())
            self.assertEqual(sorted(listed), sorted(names))
            for name in names:
                if name == record:
                    continue
                digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
                self.assertEqual(listed[name], f"sha256={digest},{len(wheel.read(name))}")
        for name in ("gpusim/__init__.py", "gpusim/py.typed", "gpusim/_core.pyi", "gpusim/configs/hardware/h200.yaml"):
            self.assertIn(name, names)

    def test_names_are_looked_up_in_the_configs_of_the_package(self):
        package = Path(self.folder.name) / "unpacked"
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(package)
        (package / "gpusim" / "configs" / "hardware" / "only_here.yaml").write_text("base: h200\nname: Mine\n")
        out = self.run_python(package, "import gpusim; print(gpusim.run({'hardware': 'only_here', 'workload': "
                                       "{'kernels': [{'kernel': 'k', 'bytes': '1 GB'}]}}))")
        self.assertIn("device Mine", out)

    @unittest.skipUnless(importlib.util.find_spec("pip"), "pip is not installed")
    def test_pip_installs_it(self):
        place = Path(self.folder.name) / "installed"
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target",
                        str(place), "--root-user-action=ignore", str(self.wheel)], check=True)
        self.assertEqual(self.run_python(place, "import gpusim; print(gpusim.__version__)").strip(),
                         gpusim_build._version())

    def test_a_source_archive_holds_what_a_wheel_is_made_of(self):
        import tarfile
        name = gpusim_build.build_sdist(self.folder.name)
        with tarfile.open(Path(self.folder.name) / name) as archive:
            names = {entry.split("/", 1)[1] for entry in archive.getnames() if "/" in entry}
        for wanted in ("pyproject.toml", "PKG-INFO", "CMakeLists.txt", "python/module.cpp", "python/gpusim/py.typed",
                       "sim/app/main.cpp", "models/CMakeLists.txt", "configs/hardware/h200.yaml"):
            self.assertIn(wanted, names)


if __name__ == "__main__":
    sys.exit(unittest.main())
