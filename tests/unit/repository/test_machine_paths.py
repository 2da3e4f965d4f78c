"""No file of the project names an interpreter or environment of one machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.facts import profiles

ROOT = Path(__file__).resolve().parents[3]
SCANNED = ("src", "tests", "bench", "tools", "examples", "Makefile", "pyproject.toml", ".ci")
QUOTED = (  # logs of other people's machines, word for word
    "tests/doctor/corpus/",
    "tests/fuzz/seeds/",
    "src/leasehold/facts/catalogue/",
    "src/leasehold/facts/catalogue.json",
    "src/leasehold/kit/failure/catalogue.json",
)
_PRIVATE = r"/(?:tmp|var/tmp|root|home|Users|work|scratch|mnt|data)"
_PATH = re.compile(rf"(?<![\w.}})/-]){_PRIVATE}(?:/[\w.@+-]+)*/(?:bin|envs|[\w.-]*venv[\w.-]*|site-packages)/[\w./-]+")


def machine_paths(text: str, on_box: frozenset[str] = frozenset()) -> Iterator[str]:
    """Find paths of somebody's interpreters and environments; those that a profile gives for its boxes are facts."""
    for found in _PATH.findall(text):
        if found.rstrip(".") not in on_box:
            yield found


def _texts() -> Iterator[tuple[str, str]]:
    for name in SCANNED:
        place = ROOT / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            shown = path.relative_to(ROOT).as_posix()
            if (
                path.is_file()
                and "__pycache__" not in shown
                and not shown.startswith(QUOTED)
                and path != Path(__file__)
            ):
                yield shown, path.read_bytes().decode("utf-8", "replace")


def test_no_interpreter_of_one_machine_is_named() -> None:
    on_box = frozenset(profiles.load(name).environment.interpreter for name in profiles.names())
    found = [f"{name}: {path}" for name, text in _texts() for path in machine_paths(text, on_box)]
    assert found == [], (
        "take it from an environment variable or from .venv-*, and skip with a reason where it is absent"
    )


@pytest.mark.parametrize(
    "text",
    [
        'Path("/tmp/venv-readers/bin/python")',
        "#!/home/ann/.pyenv/versions/3.11.7/bin/python3.11",
        "PYTHON=/root/.venv/bin/python",
        "sys.path.insert(0, '/work/main/.venv/lib/python3.11/site-packages/x')",
        "/Users/ann/miniconda3/envs/torch/bin/torchrun",
    ],
)
def test_such_a_path_is_found(text: str) -> None:
    assert list(machine_paths(text))


@pytest.mark.parametrize(
    "text",
    [
        '"$HOME/miniconda3/bin/python"',
        "/usr/bin/python3 /opt/conda/bin/python",
        "mount --bind x $box/root/miniconda3/lib",
        "/root/miniconda3/bin/python train.py",
        '"/tmp/evil.so" "/root/x/__main__.py"',
    ],
)
def test_system_programs_and_facts_of_boxes_are_not(text: str) -> None:
    assert list(machine_paths(text, frozenset({"/root/miniconda3/bin/python"}))) == []
