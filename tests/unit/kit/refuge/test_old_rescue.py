"""What older versions rescued stays readable, and is checked as it is read."""

from __future__ import annotations

import json

import pytest

from leasehold.kit.files.canonical_json import sha256
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.old_rescue import old_rescue, read_rescued
from leasehold.kit.refuge.place import PlaceError


def left_behind(tmp_path, **record):
    folder = tmp_path / "leasehold/rescued/toy-1/main"
    (folder / "ckpt").mkdir(parents=True)
    (folder / "ckpt/last.pt").write_bytes(b"weights")
    value = {"files": {"ckpt/last.pt": sha256(b"weights")}, "state_unix": 12.5}
    (folder / "rescued.json").write_text(json.dumps(dict(value, **record)))
    return FolderPlace(str(tmp_path))


def test_a_rescued_checkpoint_is_found_and_read(tmp_path):
    place = left_behind(tmp_path)
    found = old_rescue(place, "toy-1", "main")
    assert (found.made_unix, list(found.files)) == (12.5, ["ckpt/last.pt"])
    assert b"".join(read_rescued(place, found, "ckpt/last.pt")) == b"weights"
    assert old_rescue(place, "toy-2", "main") is None


def test_other_bytes_than_were_rescued_are_refused(tmp_path):
    place = left_behind(tmp_path)
    (tmp_path / "leasehold/rescued/toy-1/main/ckpt/last.pt").write_bytes(b"other")
    with pytest.raises(PlaceError):
        list(read_rescued(place, old_rescue(place, "toy-1", "main"), "ckpt/last.pt"))


@pytest.mark.parametrize("files", [{"../x": "0"}, {}, 3, None, {"/abs": "0"}])
def test_a_damaged_record_is_no_checkpoint(tmp_path, files):
    assert old_rescue(left_behind(tmp_path, files=files), "toy-1", "main") is None
