"""Bring the scanners' own test files here: archives from PyPI, by hash, and repositories where git reaches them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

# The newest archive of picklescan that holds its generator of files is 0.0.32; later ones leave it out.
_ARCHIVES = {
    "picklescan-0.0.32": "0c835af0a099db36a6ef39801fcf15d5e2c157b2af4bf0fea3d9e49b50d18f63",
    "modelaudit-0.2.54": "87ffdef31b0a0f9f0bf65c1fbc920c3217300a8924a87d9b95715dd7ed70a5dc",
}
# Their archives on PyPI have no test files.
_REPOSITORIES = {
    "picklescan": ("mmaitre314/picklescan", "tests"),
    "fickling": ("trailofbits/fickling", "test"),
    "modelscan": ("protectai/modelscan", "tests"),
}
_GIT = os.environ.get("LEASEHOLD_CORPORA_GIT", "https://github.com")  # or a folder of clones: OWNER/NAME
_GIT_S = 120
_HTTP_S = 60


def fetch(place: Path) -> tuple[dict[str, Path], list[str]]:
    """Return the folder of each source that came, and a sentence for each that did not."""
    found: dict[str, Path] = {}
    missing: list[str] = []
    for name, sha256 in _ARCHIVES.items():
        try:
            found[name.partition("-")[0]] = _archive(place, name, sha256)
        except (OSError, ValueError) as error:
            missing.append(f"{name} from PyPI: {error}")
    for name, (repository, part) in _REPOSITORIES.items():
        try:
            found[f"{name} repository"] = _clone(place, repository, part)
        except (OSError, subprocess.TimeoutExpired) as error:
            missing.append(f"{_GIT}/{repository}: {error}")
    return found, missing


def _archive(place: Path, name: str, sha256: str) -> Path:
    folder = place / name
    if folder.exists():
        return folder
    page = _get(f"https://pypi.org/simple/{name.rpartition('-')[0]}/").decode()
    link = re.search(rf'href="([^"#]+/{re.escape(name)}\.tar\.gz)[#"]', page)
    if link is None:
        raise ValueError("the index names no such archive")
    content = _get(link[1])
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"the archive's sha256 is {hashlib.sha256(content).hexdigest()}, not {sha256}")
    packed = place / f"{name}.tar.gz"
    packed.write_bytes(content)
    fresh = place / f".{name}"
    shutil.rmtree(fresh, ignore_errors=True)
    with tarfile.open(packed) as archive:
        archive.extractall(fresh, filter="data")
    (fresh / name).rename(folder)
    shutil.rmtree(fresh)
    return folder


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_HTTP_S) as answer:
        content: bytes = answer.read()
        return content


def _clone(place: Path, repository: str, part: str) -> Path:
    """Clone it; a checkout that lacks some file elsewhere will do."""
    folder = place / repository.replace("/", "+")
    if not (folder / part).exists():
        shutil.rmtree(folder, ignore_errors=True)
        done = subprocess.run(
            ["git", "clone", "-q", "--depth", "1", f"{_GIT}/{repository}", str(folder)],
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"}, capture_output=True, text=True, timeout=_GIT_S, check=False,
        )  # fmt: skip
        if not (folder / part).exists():
            raise OSError((done.stderr.strip() or f"no folder {part}").splitlines()[0][:160])
    return folder / part
