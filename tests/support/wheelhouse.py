"""Tiny wheels made by hand, and a real venv with a real pip that installs from them alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Dict, Sequence

_TORCH = """
from . import version as _version
__version__ = _version.__version__
class version:
    cuda = _version.cuda
class _Cuda:
    def is_available(self): return {sees}
    def device_count(self): return 1 if {sees} else 0
    def get_arch_list(self): return ["sm_90"]
    def get_device_capability(self, index): return (9, 0)
    def get_device_name(self, index): return "a card"
cuda = _Cuda()
"""


def wheel(folder: Path, name: str, version: str, requires: Sequence[str] = (), files: Dict[str, str] = {}) -> Path:  # noqa: B006
    """Write a wheel that pip accepts."""
    folder.mkdir(parents=True, exist_ok=True)
    spelled = name.replace("-", "_")
    info = f"{spelled}-{version}.dist-info"
    metadata = "".join(f"Requires-Dist: {one}\n" for one in requires)
    body = {
        **(files or {f"{spelled}/__init__.py": f"__version__ = {version!r}\n"}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*body, f"{info}/RECORD"])
    path = folder / f"{spelled}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in {**body, f"{info}/RECORD": record}.items():
            archive.writestr(place, text)
    return path


def torch_wheel(folder: Path, version: str, cuda: str, requires: Sequence[str] = (), sees: bool = True) -> Path:
    """Write a wheel that looks like torch: a version file with its CUDA build, and a view of one card."""
    told = repr(cuda) if cuda else "None"
    files = {
        "torch/__init__.py": _TORCH.format(sees=sees),
        "torch/version.py": f"__version__ = {version!r}\ncuda: str = {told}\nhip: str = None\n",
    }
    return wheel(folder, "torch", version, requires, files)


class Venv:
    """A real virtual environment whose pip sees one folder of wheels and no index."""

    def __init__(self, place: Path, wheels: Path) -> None:
        self.python = place / "bin" / "python"
        self.wheels = wheels
        self._kept = place.with_name(place.name + " kept")
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)

    def keep(self) -> None:
        """Remember what is installed now, for `restore`."""
        shutil.copytree(self._packages(), self._kept, symlinks=True)

    def restore(self) -> None:
        """Go back to what was remembered: a fresh image, for the price of a copy."""
        packages = self._packages()
        shutil.rmtree(packages)
        shutil.copytree(self._kept, packages, symlinks=True)

    def _packages(self) -> Path:
        (found,) = (self.python.parent.parent / "lib").glob("python*/site-packages")
        return found

    def environment(self) -> Dict[str, str]:
        """Spell the variables that put this environment first and keep pip off every index."""
        path = f"{self.python.parent}:{os.environ['PATH']}"
        return {"PATH": path, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PIP_CONFIG_FILE": os.devnull}

    def pip(self, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """Run its pip."""
        environment = {**os.environ, **self.environment(), **more}
        asked = [str(self.python), "-m", "pip", *words]
        return subprocess.run(asked, env=environment, text=True, capture_output=True, check=False)

    def version(self, name: str) -> str:
        """Ask which version is installed; nothing when none is."""
        code = f"import importlib.metadata as m\ntry: print(m.version({name!r}))\nexcept m.PackageNotFoundError: pass"
        return subprocess.run([str(self.python), "-c", code], text=True, capture_output=True, check=True).stdout.strip()
