"""Files cut at every byte, files with random damage: a reading or Unreadable, and never a torn file accepted."""

from __future__ import annotations

import os
import pickle
import random

import pytest

from leasehold.kit.readers import Reading, Unreadable, read
from tests.unit.kit.readers.forge import (
    TAR_END,
    Member,
    Tensor,
    called,
    checkpoint,
    finished,
    mapping,
    npy,
    safetensors,
    span,
    tar_member,
    text,
    torch_legacy,
    torch_zip,
    zip_bytes,
)

FLIPS = int(os.environ.get("LEASEHOLD_FLIPS", "200"))  # 10,000 before a reader is released
JSON = b'{"loss": [0.5, -1e3, true], "name": "\\u00e9 \xe8\xae\xad"}'
JSONL = b'{"step": 1}\n{"step": 22, "loss": 0.5}\n'
CSV = b'epoch,loss\n1,0.5\n2,"0,4"\n'
WHOLE = {
    "json": JSON,
    "jsonl": JSONL,
    "csv": CSV,
    "npy": npy(),
    "npz": zip_bytes([Member("a.npy", npy()), Member("b.npy", npy(), deflate=True, descriptor=True)]),
    "safetensors": safetensors({"a": span("F32", [2], 0, 8), "b": span("U8", [3], 8, 11)}, bytes(range(11))),
    "torch": checkpoint(),
    "checkpoint": torch_legacy(),
    "tar": tar_member(b"0001.json", b"{}") + tar_member(b"0001.jpg", b"x" * 600) + TAR_END,
}
# Nothing in these formats tells these cuts from a file that was meant to end there. The readers note the
# missing line end where there is one; equality of hashes is what catches the cut.
WHOLE_AFTER_CUT = {
    # after the first record with and without its line end, and without the last line end
    "jsonl": {b'{"step": 1}', b'{"step": 1}\n', JSONL[:-1]},
    # the same, inside the last unquoted value, and where the quoted value has not begun
    "csv": {b"epoch,loss\n1,", b"epoch,loss\n1,0", b"epoch,loss\n1,0.", b"epoch,loss\n1,0.5", b"epoch,loss\n1,0.5\n"}
    | {b"epoch,loss\n", b"epoch,loss\n1,0.5\n2,", CSV[:-1]},  # a table without rows is one, and is said
}


def _outcome(path, kind, content):
    """Return the reading or the refusal; any other exception fails the test."""
    path.write_bytes(content)
    try:
        return read(str(path), kind)
    except Unreadable as error:
        assert error.reason
        return error


@pytest.mark.parametrize("kind", list(WHOLE))
def test_the_whole_file_is_read(tmp_path, kind):
    assert isinstance(_outcome(tmp_path / "a", kind, WHOLE[kind]), Reading)


@pytest.mark.parametrize("kind", list(WHOLE))
def test_a_file_cut_at_any_byte_is_refused(tmp_path, kind):
    accepted = set()
    for length in range(len(WHOLE[kind])):
        part = WHOLE[kind][:length]
        if isinstance(_outcome(tmp_path / "a", kind, part), Reading):
            accepted.add(part)
    assert accepted == WHOLE_AFTER_CUT.get(kind, set())


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "torch"])
def test_a_file_with_a_byte_added_is_refused(tmp_path, kind):
    assert isinstance(_outcome(tmp_path / "a", kind, WHOLE[kind] + b"\0"), Unreadable)


@pytest.mark.parametrize("kind", ["npz", "torch"])
def test_a_file_whose_tail_was_never_written_is_refused(tmp_path, kind):
    """After a power cut the length can be right and the last blocks zero."""
    for length in range(0, len(WHOLE[kind]), 7):
        zeroed = WHOLE[kind][:length] + b"\0" * (len(WHOLE[kind]) - length)
        if zeroed != WHOLE[kind]:  # the last bytes of a zip are zeros anyhow
            assert isinstance(_outcome(tmp_path / "a", kind, zeroed), Unreadable)


@pytest.mark.parametrize("kind", ["npz", "torch"])
def test_every_flipped_byte_of_an_archive_is_noticed_or_harmless(tmp_path, kind):
    """What may change unseen: version and time fields of the zip, which no reader of ours uses."""
    whole = _outcome(tmp_path / "a", kind, WHOLE[kind])
    for at in range(len(WHOLE[kind])):
        damaged = bytearray(WHOLE[kind])
        damaged[at] ^= 0xFF
        outcome = _outcome(tmp_path / "a", kind, bytes(damaged))
        assert isinstance(outcome, Unreadable) or outcome == whole


@pytest.mark.parametrize("kind", list(WHOLE))
@pytest.mark.parametrize("seed", range(4))
def test_random_damage_gives_a_reading_or_a_refusal(tmp_path, kind, seed):
    chance = random.Random(f"{kind}{seed}")
    for _ in range(150):
        _outcome(tmp_path / "a", kind, _damaged(WHOLE[kind], chance))


@pytest.mark.parametrize("kind", list(WHOLE))
def test_flipped_bits_give_a_reading_or_a_refusal(tmp_path, kind):
    chance = random.Random(kind)
    for _ in range(FLIPS):
        damaged = bytearray(WHOLE[kind])
        for _ in range(chance.randrange(1, 3)):
            bit = chance.randrange(8 * len(damaged))
            damaged[bit // 8] ^= 1 << bit % 8
        _outcome(tmp_path / "a", kind, bytes(damaged))


PICKLES = [
    finished(mapping({"w": Tensor().pickle(), "n": called("numpy.dtype", text("f8"))})),
    *(pickle.dumps({"a": [1, 2.5, None, True, b"x" * 300, "é", {1}, frozenset([2]), 1 << 80]}, p) for p in range(6)),
]


@pytest.mark.parametrize("at", range(len(PICKLES)))
def test_random_damage_to_the_pickle_itself_gives_a_reading_or_a_refusal(tmp_path, at):
    """The archive is rebuilt around the damage, so its CRCs are right."""
    chance = random.Random(at)
    for _ in range(300):
        _outcome(tmp_path / "a", "torch", torch_zip(_damaged(PICKLES[at], chance)))


@pytest.mark.parametrize("seed", range(4))
def test_random_opcodes_give_a_reading_or_a_refusal(tmp_path, seed):
    chance = random.Random(seed)
    codes = b"(.012NRabdeloqtsu)]}QKMJGUCXcihjp\x80\x81\x85\x86\x87\x88\x89\x8a\x8c\x8f\x90\x91\x92\x93\x94\x95"
    for _ in range(400):
        body = bytes(chance.choice(codes) for _ in range(chance.randrange(1, 60)))
        _outcome(tmp_path / "a", "torch", torch_zip(finished(body)))


def _damaged(content: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(damaged))
        kind = chance.randrange(4)
        if kind == 0:
            damaged[at] = chance.randrange(256)
        elif kind == 1:
            damaged[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
        elif kind == 2:
            del damaged[at : at + chance.randrange(1, 9)]
        else:
            other = chance.randrange(len(damaged))
            damaged[at : at + 4] = damaged[other : other + 4]
        if not damaged:
            return b"\0"
    return bytes(damaged)
