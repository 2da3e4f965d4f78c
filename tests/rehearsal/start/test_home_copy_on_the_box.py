"""Results that come home to the box itself are no second copy: no launch leads there, no box is deleted for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.front import NO_SMOKE, Done, Front, front

_TRAIN = "import os\nprint('step 1', flush=True)\nopen(os.environ['LEASE_OUT'] + '/result.json', 'w').write('{}')\n"
_RUN = ("run", "--rehearse", *NO_SMOKE)


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Front]:
    """Somebody with a job for a simulated rental."""
    with front(tmp_path / "me") as person:
        person.write("train.py", _TRAIN)
        person.job()
        yield person


def _root(me: Front) -> Path:
    return me.home / "boxes" / "rehearsal"


@pytest.mark.parametrize("inside", ["results", "active/deep/results", "."])
def test_a_launch_whose_results_would_lie_in_the_boxs_folder_is_refused(me: Front, inside: str) -> None:
    done = me.lease(*_RUN, "--results", str(_root(me) / inside))
    assert done.code == 3, done.said
    assert "results.on_box" in done.said and "nothing was started" in done.said
    assert not list(_root(me).glob("active/*/plan.json"))


def test_a_link_into_the_boxs_folder_is_seen_through(me: Front) -> None:
    _root(me).mkdir(parents=True)
    (me.project / "lease-results").symlink_to(_root(me) / "elsewhere")
    (_root(me) / "elsewhere").mkdir()
    done = me.lease(*_RUN)
    assert done.code == 3, done.said
    assert "results.on_box" in done.said


def _home_then_moved_onto_the_box(me: Front) -> None:
    """The results came home rightly, and a person then moved them onto the box, with a link where they were."""
    done = me.lease(*_RUN)
    assert done.code == 0, done.said
    moved = _root(me) / "work" / "kept"
    moved.parent.mkdir(parents=True, exist_ok=True)
    (me.project / "lease-results").rename(moved)
    (me.project / "lease-results").symlink_to(moved)


def test_the_gate_keeps_the_box_on_which_both_copies_lie(me: Front) -> None:
    _home_then_moved_onto_the_box(me)
    refused = me.lease("down", "toy", "--rehearsal")
    assert refused.code == 3, refused.said
    assert "lies on the box itself: a note left there is seen in the box's folder" in refused.said
    assert list(_root(me).glob("work/kept/export/*/cells/main/result.json")), "nothing was deleted"
    warned = me.lease("pull", "toy")
    assert "lease down will refuse" in warned.said, warned.said

    kept = _root(me) / "work" / "kept"
    (me.project / "lease-results").unlink()
    kept.rename(me.project / "lease-results")
    down = me.lease("down", "toy", "--rehearsal")
    assert down.code == 0, down.said
    assert not _root(me).exists()
    assert list(me.project.glob("lease-results/export/*/cells/main/result.json"))


@pytest.mark.parametrize("part", ["export/toy-*", "export/toy-*/cells"])
def test_a_part_of_the_home_copy_that_lies_on_the_box_is_seen(me: Front, part: str) -> None:
    """To save room at home a person moved one run, or its files, and left a link: its folder above is at home."""
    assert me.lease(*_RUN).code == 0
    (here,) = (me.project / "lease-results").glob(part)
    kept = _root(me) / "kept"
    here.rename(kept)
    here.symlink_to(kept)
    refused = me.lease("down", "toy", "--rehearsal")
    assert refused.code == 3, refused.said
    assert "lies on the box itself" in refused.said, refused.said
    assert list(kept.rglob("result.json")), "nothing was deleted"

    here.unlink()
    kept.rename(here)
    down = me.lease("down", "toy", "--rehearsal")
    assert down.code == 0, down.said


def test_the_notes_are_taken_away_again(me: Front) -> None:
    assert me.lease(*_RUN).code == 0
    assert me.lease("down", "toy", "--plan").code == 0
    assert not list(me.folder.rglob(".leasehold-witness-*"))


@pytest.mark.namespaces
def test_a_results_folder_in_which_no_note_can_be_left_is_unknown(me: Front) -> None:
    """A disk that takes no file proves nothing: read-only for everybody, root too."""
    assert me.lease(*_RUN).code == 0
    plan = _plan(me.lease("down", "toy", "--plan", "--json", prefix=_read_only(me.project / "lease-results")))
    assert plan["outcome"] == "unknown", plan
    doubtful = [one["what"] for one in plan["findings"] if one["outcome"] == "unknown"]
    assert doubtful and all("no note can be left there" in what for what in doubtful)


@pytest.mark.namespaces
def test_a_mount_of_the_boxs_folder_is_seen_through(me: Front) -> None:
    assert me.lease(*_RUN).code == 0
    inside = _root(me) / "mounted"
    (me.project / "lease-results").rename(inside)
    (me.project / "lease-results").mkdir()
    bound = _bind(inside, me.project / "lease-results")
    plan = _plan(me.lease("down", "toy", "--plan", "--json", prefix=bound))
    assert plan["outcome"] == "refused", plan
    assert any("lies on the box itself" in one["what"] for one in plan["findings"])
    fresh = me.lease(*_RUN, "--again", prefix=bound)
    assert fresh.code == 3, fresh.said
    assert "results.on_box" in fresh.said


@pytest.mark.namespaces
def test_a_mount_inside_the_home_copy_is_seen_through(me: Front) -> None:
    assert me.lease(*_RUN).code == 0
    (cells,) = (me.project / "lease-results").glob("export/toy-*/cells/main")
    inside = _root(me) / "mounted"
    cells.rename(inside)
    cells.mkdir()
    plan = _plan(me.lease("down", "toy", "--plan", "--json", prefix=_bind(inside, cells)))
    assert plan["outcome"] == "refused", plan
    assert any("lies on the box itself" in one["what"] for one in plan["findings"])


def _plan(done: Done) -> dict[str, Any]:
    return dict(json.loads(done.out)["gate"])


def _bind(source: Path, target: Path) -> list[str]:
    script = 'mount --bind "$1" "$2" || exit 97; shift 2; exec "$@"'
    return ["unshare", "--mount", "--", "/bin/sh", "-c", script, "sh", str(source), str(target)]


def _read_only(place: Path) -> list[str]:
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 97; shift; exec "$@"'
    return ["unshare", "--mount", "--", "/bin/sh", "-c", script, "sh", str(place)]
