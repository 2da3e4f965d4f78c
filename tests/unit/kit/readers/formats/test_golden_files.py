"""Files that the real libraries wrote (make_golden.py): their facts, cut short, damaged."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from leasehold.kit.readers import Reading, Unreadable, read
from leasehold.kit.tables.file_endings import guess_format

GOLDEN = Path(__file__).parents[1] / "golden"
FACTS = json.loads((GOLDEN / "facts.json").read_text("utf-8"))
# Formats in which a cut can look like an end: such a reading says so in a note that holds these words.
DESCRIBED = {
    "yaml": "nothing in YAML tells whether it was cut",
    "tfevents": "records, every checksum right",
    "gguf": "ends inside the padding",
}
SMALLEST = {kind: min((n for n in FACTS if n.startswith(kind + "/")), key=lambda n: (GOLDEN / n).stat().st_size)
            for kind in {name.partition("/")[0] for name in FACTS}}  # fmt: skip
FLIPS = int(os.environ.get("LEASEHOLD_FLIPS", "400"))  # 10,000 before a reader is released


def _outcome(path: Path, kind: str, content: bytes) -> object:
    """Return the reading or the refusal; any other exception fails the test."""
    path.write_bytes(content or b"\0")
    try:
        return read(str(path), kind)
    except Unreadable as problem:
        assert problem.reason
        return problem


@pytest.mark.parametrize("name", sorted(FACTS))
def test_what_a_library_wrote_is_read_as_what_it_is(name):
    reading = read(str(GOLDEN / name), name.partition("/")[0])
    numbers = reading.numbers
    assert {
        "tensors": reading.tensors, "numel": reading.numel, "keys": sorted(reading.keys),
        "nan": numbers and numbers.nan, "inf": numbers and numbers.inf,
    } == {**FACTS[name], "keys": sorted(FACTS[name]["keys"])}  # fmt: skip
    assert reading.opaque == ()


@pytest.mark.parametrize("name", sorted(FACTS))
def test_the_ending_says_the_kind(name):
    assert guess_format(name) == name.partition("/")[0]


@pytest.mark.parametrize("name", sorted(FACTS))
def test_a_file_cut_at_any_tenth_byte_is_refused_or_described(tmp_path, name):
    kind, whole = name.partition("/")[0], (GOLDEN / name).read_bytes()
    for length in range(0, len(whole), 10):
        found = _outcome(tmp_path / "a", kind, whole[:length])
        if isinstance(found, Reading):
            assert any(DESCRIBED[kind] in note for note in found.notes) or _is_whole(kind, whole[:length]), length


@pytest.mark.parametrize("kind", sorted(SMALLEST))
def test_a_flipped_bit_gives_a_reading_or_a_refusal(tmp_path, kind):
    whole, chance = (GOLDEN / SMALLEST[kind]).read_bytes(), random.Random(kind)
    for _ in range(FLIPS):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 3)):
            bit = chance.randrange(8 * len(damaged))
            damaged[bit // 8] ^= 1 << bit % 8
        _outcome(tmp_path / "a", kind, bytes(damaged))


def _is_whole(kind: str, part: bytes) -> bool:
    """Whether a cut falls where the format has an end: behind a whole line of YAML."""
    return kind == "yaml" and part.endswith(b"\n")
