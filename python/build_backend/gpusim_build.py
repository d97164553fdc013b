# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel through CMake (PEP 517), with nothing but the standard library.

    pip install .                                   # needs what docs/dependencies.md lists, pybind11 among it
    pip install . --config-settings jobs=4      # build-dir=DIR, cmake-args='-D...' in the same way
    pip wheel . --config-settings installed-from=build/release    # packs what has been built there for this Python

The wheel links the system's libraries: it is for this machine and machines like it.
"""
from __future__ import annotations

import base64
import hashlib
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["CMakeLists.txt", "CMakePresets.json", "README.md", "pyproject.toml", "cmake", "configs", "models", "python",
           "sim"]


def _version() -> str:
    return re.search(r"project\(gpusim VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def _metadata() -> str:
    return (f"Metadata-Version: 2.1\nName: gpusim\nVersion: {_version()}\n"
            "Summary: Discrete-event simulator of GPU execution for deep-learning performance engineers\n"
            "License: Apache-2.0\nRequires-Python: >=3.8\n"
            "Description-Content-Type: text/markdown\n\n") + (ROOT / "README.md").read_text()


def _tag() -> str:
    version = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return f"{version}-{version}-{platform}"


def _run(*command: str) -> None:
    print("+", shlex.join(command), flush=True)
    subprocess.run(command, check=True)


def _settings(config_settings) -> dict:
    return dict(config_settings or {})


def _words(value) -> list:
    return [word for text in ([value] if isinstance(value, str) else value or []) for word in shlex.split(text)]


def _build(settings: dict) -> Path:
    """The build folder that holds the package."""
    if "installed-from" in settings:
        return ROOT / settings["installed-from"]
    build = ROOT / settings.get("build-dir", f"build/wheel-{_tag()}")
    _run("cmake", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", "-DGPUSIM_PYTHON=ON",
         f"-DPython_EXECUTABLE={sys.executable}", "-DGPUSIM_BUILD_TESTS=OFF", "-DGPUSIM_MPI=OFF",
         *_words(settings.get("cmake-args")))
    jobs = ["--parallel", settings["jobs"]] if "jobs" in settings else ["--parallel"]
    _run("cmake", "--build", str(build), "--target", "gpusim_python", *jobs)
    return build


class _Wheel:
    """A zip with a list of what is in it; the same files give the same bytes."""

    def __init__(self, folder: str) -> None:
        self.name = f"gpusim-{_version()}-{_tag()}.whl"
        self.info = f"gpusim-{_version()}.dist-info"
        self._records = []
        self._zip = zipfile.ZipFile(Path(folder) / self.name, "w", zipfile.ZIP_DEFLATED)

    def _write(self, name: str, content: bytes) -> None:
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(entry, content)

    def add(self, name: str, content: bytes) -> None:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._records.append(f"{name},sha256={digest},{len(content)}")
        self._write(name, content)

    def close(self) -> str:
        self.add(f"{self.info}/METADATA", _metadata().encode())
        self.add(f"{self.info}/WHEEL", (f"Wheel-Version: 1.0\nGenerator: gpusim_build\nRoot-Is-Purelib: false\n"
                                        f"Tag: {_tag()}\n").encode())
        self._records.append(f"{self.info}/RECORD,,")
        self._write(f"{self.info}/RECORD", ("\n".join(self._records) + "\n").encode())
        self._zip.close()
        return self.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    build = _build(_settings(config_settings))
    with tempfile.TemporaryDirectory() as place:
        _run("cmake", "--install", str(build), "--component", "python", "--prefix", place, "--strip")
        wheel = _Wheel(wheel_directory)
        for file in sorted(path for path in Path(place).rglob("*") if path.is_file()):
            wheel.add(file.relative_to(place).as_posix(), file.read_bytes())
        return wheel.close()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    """A wheel that points to the package in the build folder."""
    build = _build(_settings(config_settings))
    wheel = _Wheel(wheel_directory)
    wheel.add("gpusim.pth", f"{build / 'python'}\n".encode())
    return wheel.close()


def build_sdist(sdist_directory, config_settings=None) -> str:
    name = f"gpusim-{_version()}"

    def kept(entry):
        return None if Path(entry.name).name == "__pycache__" else entry

    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for source in SOURCES:
            archive.add(ROOT / source, f"{name}/{source}", filter=kept)
        info = tarfile.TarInfo(f"{name}/PKG-INFO")
        content = _metadata().encode()
        info.size = len(content)
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.seek(0)
            archive.addfile(info, file)
    return f"{name}.tar.gz"


def get_requires_for_build_wheel(config_settings=None) -> list:
    return []


get_requires_for_build_sdist = get_requires_for_build_editable = get_requires_for_build_wheel
