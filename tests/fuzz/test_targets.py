"""Every kept input is answered or refused, as are mutations of it; and a reader that strays is caught."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import targets

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(targets.targets())
MUTATIONS = 150
STRAY = """
import sys
from leasehold.kit import readers
from tests.fuzz import targets
def stray(source, limits):
    {act}
readers._READERS["bytes"] = stray
target = targets._file_target("bytes")
targets.watch()
try:
    target(b"x")
except BaseException as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("name", NAMES)
def test_every_seed_and_what_is_near_it_is_answered_or_refused(name: str) -> None:
    target, chance = targets.targets()[name], random.Random(name)
    kept = [path.read_bytes() for path in targets.seeds(name)]
    for data in kept:
        target(data)
    for _ in range(MUTATIONS):
        target(mutated(chance.choice(kept), chance))


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        way = chance.randrange(4)
        if way == 0:
            del changed[at : at + chance.randint(1, 16)]
        elif way == 1:
            changed[at:at] = chance.randbytes(chance.randint(1, 8))
        elif way == 2:
            changed[at : at + 1] = bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF))])
        else:
            other = chance.randrange(len(changed) + 1)
            changed[at:at] = changed[other : other + chance.randint(1, 64)]
    return bytes(changed[:100_000])


@pytest.mark.parametrize(
    ("act", "seen"),
    [
        ("raise ValueError('not a refusal')", "ValueError"),
        ("exec('1')", "Abroad"),
        ("import this", "Abroad"),
        ("__import__('os').system('true')", "Abroad"),
        ("open('/dev/null', 'w')", "Abroad"),
        ("__import__('pickle').loads(b'cos\\nsystem\\n.')", "Abroad"),
        ("__import__('socket').socket()", "Abroad"),
        ("return None", ""),
    ],
)
def test_a_reader_that_strays_is_caught(act: str, seen: str) -> None:
    argv = [sys.executable, "-c", "import socket, pickle\n" + STRAY.format(act=act)]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == seen


def test_every_reader_is_a_target() -> None:
    from leasehold.kit.readers import KINDS

    assert set(KINDS) - {"bytes"} <= set(NAMES)


def test_seeds_are_small() -> None:
    sizes = {str(path): path.stat().st_size for path in targets.SEEDS.rglob("*") if path.is_file()}
    assert max(sizes.values()) < 16_384 and sum(sizes.values()) < 300_000, json.dumps(sizes)
