"""Fill `.corpora/files`: a folder for each corpus, every file of it once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .fetch import fetch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCANNERS_PYTHON = ROOT / ".venv-corpora" / "bin" / "python"  # made by tools/corpora_venv.sh
_LARGEST = 64 << 20
_NO_MODELS = (
    (".py", ".pyc", ".rs", ".sh", ".md", ".txt", ".toml", ".lock", ".log") + (".source", ".jinja", ".j2", ".template")
)  # fmt: skip
# Those tests of modelaudit that make files of the formats that we read.
_MODELAUDIT_TESTS = (
    "pickle_scanner", "picklescan_adapter", "pytorch_zip_scanner", "pytorch_binary_scanner", "joblib_scanner",
    "numpy_scanner", "safetensors_scanner", "zip_scanner", "tar_scanner", "compressed_scanner", "skops_scanner",
    "executorch_scanner",
)  # fmt: skip
_SUITE_S = 600


def gather(place: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """Return the files of each corpus, and what could not be had."""
    files = place / "files"
    if files.exists():
        shutil.rmtree(files)
    found, missing = fetch(place)
    corpora: dict[str, list[Path]] = {}
    if "picklescan" in found:
        tests = found["picklescan"] / "tests"
        for name in ("data", "data2"):
            (tests / name).mkdir(exist_ok=True)
        _run([str(HERE / "run_generator.py"), "test_scanner.py"], tests, place)
        corpora["picklescan"] = _distinct(tests.glob("data*/*"), files / "picklescan")
    if "picklescan repository" in found:
        repository = found["picklescan repository"]
        corpora["picklescan repository"] = _distinct(repository.glob("data*/*"), files / "picklescan-repository")
    with ThreadPoolExecutor() as pool:
        made = {name: pool.submit(_suite, *suite, place, name) for name, suite in _suites(found).items()}
    if "modelaudit" in found:
        written = [each for name in ("modelaudit", "modelaudit-picklescan") for each in made[name].result()]
        assets = found["modelaudit"].glob("tests/assets/**/*")
        corpora["modelaudit"] = _distinct([*assets, *written], files / "modelaudit")
    for name in ("fickling", "modelscan"):
        if name in made:
            own = found[f"{name} repository"].glob("data/*")
            corpora[f"{name} tests"] = _distinct([*own, *made[name].result()], files / name)
    for name in [name for name, paths in corpora.items() if not paths]:
        missing.append(f"{name}: its generator wrote no file")
        del corpora[name]
    return corpora, missing


def _suites(found: Mapping[str, Path]) -> dict[str, tuple[Path, list[str]]]:
    """The folder and the tests of each suite that makes files."""
    suites = {}
    for name in ("fickling", "modelscan"):
        if f"{name} repository" in found:
            suites[name] = (found[f"{name} repository"], ["."])
    if "modelaudit" in found:
        package = found["modelaudit"] / "packages" / "modelaudit-picklescan"
        shutil.rmtree(package / "src", ignore_errors=True)  # it would hide the installed one, which is compiled
        suites["modelaudit"] = (found["modelaudit"], [f"tests/scanners/test_{name}.py" for name in _MODELAUDIT_TESTS])
        suites["modelaudit-picklescan"] = (package / "tests", ["."])
    return suites


def _suite(source: Path, tests: Sequence[str], place: Path, name: str) -> list[Path]:
    """Run tests of a scanner without a network, and return what they wrote; whether they pass is not our concern."""
    written, kept = place / "written" / name, place / "kept" / name
    done = kept / ".done"
    if not done.exists():
        for folder in (written, kept):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        options = ["-q", "-n", "2", "--timeout", "20", "--rootdir", ".", f"--basetemp={written}"]
        options += ["-p", "keep_payloads", "-p", "no:cacheprovider"]
        if tests == ["."]:
            options += ["-c", os.devnull]
        _run(["-m", "pytest", *tests, *options], source, place, kept)
        done.touch()
    return [*written.rglob("*"), *kept.glob("*.pkl")]


def _run(words: Sequence[str], folder: Path, place: Path, kept: Path | None = None) -> None:
    """Run a program of a scanner's maker: no network, a home of its own, a bounded time."""
    home = place / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": f"{HERE}:{folder}",
        "LEASEHOLD_CAPTURE": str(kept or home), "PROMPTFOO_DISABLE_TELEMETRY": "1",
    }  # fmt: skip
    log = place / "generators.log"
    with log.open("a") as out:
        try:
            subprocess.run(
                [*alone(), str(SCANNERS_PYTHON), *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, timeout=_SUITE_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            print(f"corpora: {words[-1]} in {folder.name} was ended after {_SUITE_S} s", file=sys.stderr)


def alone() -> list[str]:
    """The command that takes the network away, and gives mounts of its own."""
    return ["unshare", "-n", "-m"] if os.geteuid() == 0 else ["unshare", "-r", "-n", "-m"]


def _distinct(paths: Iterable[Path], into: Path) -> list[Path]:
    """Copy each content once for each suffix, under a name that says where it comes from."""
    into.mkdir(parents=True, exist_ok=True)
    seen: set[tuple[str, str]] = set()
    taken: list[Path] = []
    for path in sorted(paths):
        if path.is_symlink() or not path.is_file() or path.suffix.lower() in _NO_MODELS:
            continue
        if not 0 < path.stat().st_size <= _LARGEST:
            continue
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:10]
        if (digest, path.suffix.lower()) in seen:
            continue
        seen.add((digest, path.suffix.lower()))
        copy = into / f"{digest}-{path.stem[-60:]}{path.suffix.lower()}"
        copy.write_bytes(content)
        taken.append(copy)
    return taken
