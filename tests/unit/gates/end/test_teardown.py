"""The gate by itself: readings in, a verdict out. One refusal, one row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.gates.end.box_copy import ReadInFull
from leasehold.gates.end.teardown import Moved, RunReadings, TeardownReadings, ask_for, judge_approval, judge_teardown
from leasehold.model.run.receipt import APPROVAL_LIFE_S, Approval, Receipt, Strength
from leasehold.model.run.verdict import Outcome
from tests.support.examples import MANY

NOW = 1_000_000


def entry(path: str = "best.pt", **change: int) -> dict[str, object]:
    return {"path": path, "bytes": 3, "mtime_ns": 5, "inode": 7, **change}


def receipt(*cells: str, run: str = "toy-1") -> Receipt:
    return Receipt(run, "p", "m", cells or ("main",), 1, 3, (), (), (), 9)


SEALED = {"main": [entry(sha256="a" * 64), entry("m.json", sha256="b" * 64)]}
PRESENT = {"main": [entry(), entry("m.json")]}
HOME = RunReadings("toy-1", ("main",), receipt(), sealed=SEALED, present=PRESENT, state="finished")
GIVEN_UP = RunReadings("toy-1", ("main",), waived=("main",), state="failed")


def readings(*runs: RunReadings, **change: object) -> TeardownReadings:
    return replace(TeardownReadings("box-1", "terminate", True, runs), **change)


# ---------------------------------------------------------------- what passes


@pytest.mark.parametrize(
    "run",
    [
        HOME,
        replace(HOME, state="stopped"),
        GIVEN_UP,
        replace(GIVEN_UP, remains={"main": [entry("half.pt")]}, given_up={"main": [entry("half.pt", sha256="c" * 64)]}),
        replace(GIVEN_UP, state="absent", missed=("main",)),
        RunReadings("toy-1", (), state="absent"),
    ],
    ids=[
        "home",
        "home and stopped",
        "given up",
        "given up with remains",
        "missed and then given up",
        "planned and never started",
    ],
)
def test_a_run_that_is_home_or_given_up_may_go(run):
    assert judge_teardown(readings(run)).passed


def test_a_lease_on_which_nothing_ever_ran_may_go():
    verdict = judge_teardown(readings())
    assert verdict.passed
    assert verdict.findings, "passing says why"


def test_some_cells_home_and_the_others_given_up_may_go():
    run = replace(HOME, promised=("main", "other"), waived=("other",), state="failed")
    assert judge_teardown(readings(run)).passed


def test_order_of_entries_does_not_matter():
    assert judge_teardown(readings(replace(HOME, present={"main": PRESENT["main"][::-1]}))).passed


# ---------------------------------------------------------------- what is refused

R, U = Outcome.REFUSED, Outcome.UNKNOWN
REFUSED = {
    "no receipt": (replace(HOME, receipt=None, sealed={}), R, "no receipt and no waiver", "lease pull toy-1"),
    "failed without a result": (
        RunReadings("toy-1", ("main",), state="failed"), R, "failed without a result", "lease waive toy-1 main",
    ),
    "stopped without a result": (
        RunReadings("toy-1", ("main",), state="stopped"), R, "stopped without a result", "lease waive toy-1 main",
    ),
    "one cell without a receipt": (
        replace(HOME, promised=("main", "other")), R, "toy-1/other: no receipt and no waiver", "lease pull toy-1",
    ),
    "waiver of another cell": (
        RunReadings("toy-1", ("main",), waived=("other",), state="failed"), R, "no waiver", "lease waive",
    ),
    "home copy damaged": (replace(HOME, home_damage=("the copy is gone",)), R, "the copy is gone", "lease pull toy-1"),
    "held by another home": (replace(HOME, held_by_other_home=True), R, "another home holds this run", "act"),
    "alive": (replace(HOME, alive=(41, 42)), R, "processes of the run live (pid 41, 42)", "lease stop toy-1"),
    "running": (replace(HOME, state="running"), R, "the run is running", "lease stop toy-1"),
    "stopping": (replace(HOME, state="stopping"), R, "the run is stopping", ""),
    "state unknown": (replace(HOME, state="unknown"), R, "the run is unknown", ""),
    "bytes": (
        replace(HOME, present={"main": [entry(bytes=4), entry("m.json")]}), R,
        "'best.pt' changed on the box since it was sealed (bytes 3 -> 4)", "lease pull toy-1",
    ),
    "mtime": (
        replace(HOME, present={"main": [entry(mtime_ns=6), entry("m.json")]}), R, "(mtime_ns 5 -> 6)", "lease pull",
    ),
    "inode": (replace(HOME, present={"main": [entry(inode=8), entry("m.json")]}), R, "(inode 7 -> 8)", "lease pull"),
    "gone": (replace(HOME, present={"main": [entry()]}), R, "'m.json' is gone from the box", "lease pull"),
    "new": (
        replace(HOME, present={"main": [*PRESENT["main"], entry("new.pt")]}), R,
        "'new.pt' is new on the box", "lease pull",
    ),
    "cell vanished": (replace(HOME, present={}), R, "is gone from the box", "lease pull"),
    "run vanished": (replace(HOME, present={}, state="absent"), R, "is gone from the box", "lease pull"),
    "given up, and promised files are there": (
        replace(GIVEN_UP, present={"main": [entry("half.pt")]}), R, "'half.pt' (not known", "lease waive toy-1 main",
    ),
    "given up, and other files are there": (
        replace(GIVEN_UP, remains={"main": [entry("log.txt")]}), R, "'log.txt' (not known", "--take-back",
    ),
    "given up, and changed": (
        replace(GIVEN_UP, remains={"main": [entry(ctime_ns=2)]}, given_up={"main": [entry(ctime_ns=1)]}), R,
        "'best.pt' (changed since)", "lease waive toy-1 main",
    ),
    "given up, and no longer on the box": (
        replace(GIVEN_UP, state="absent"), U, "no longer on the box: what it left is unknown", "once more",
    ),
    "vanished without a receipt": (RunReadings("toy-1", ("main",), state="absent"), R, "no receipt and no waiver", ""),
    "manifest at home unreadable": (replace(HOME, sealed={}), R, "is new on the box", "lease pull"),
}  # fmt: skip


@pytest.mark.parametrize("run, outcome, says, hint", list(REFUSED.values()), ids=list(REFUSED))
def test_a_run_that_is_not_safely_home_stays(run, outcome, says, hint):
    verdict = judge_teardown(readings(run))
    assert verdict.outcome is outcome
    against = verdict.against()
    assert any(says in finding.what for finding in against), [finding.what for finding in against]
    assert any(hint in finding.hint for finding in against)


def test_a_box_out_of_reach_is_unknown_and_stays():
    verdict = judge_teardown(readings(HOME, reachable=False, unreachable_because="timed out"))
    assert verdict.outcome is U
    assert "timed out" in verdict.against()[0].what


def test_a_box_out_of_reach_stays_even_if_nothing_ran_on_it():
    assert not judge_teardown(readings(reachable=False)).passed


def test_a_strangers_run_stays():
    verdict = judge_teardown(readings(HOME, strangers=("other-9",)))
    assert verdict.outcome is R
    assert "other-9" in verdict.against()[0].what


@pytest.mark.parametrize("spoiled", [value[0] for value in REFUSED.values()], ids=list(REFUSED))
def test_one_bad_run_among_good_ones_stays(spoiled):
    good = replace(HOME, run="good-1")
    for runs in ((good, spoiled), (spoiled, good), (GIVEN_UP, spoiled)):
        assert not judge_teardown(readings(*runs)).passed


# ---------------------------------------------------------------- approvals


def yes(
    seen: TeardownReadings, strength: Strength = Strength.TYPED, expires: float = NOW + 60, **change: str
) -> Approval:
    request = replace(ask_for(seen, "nonce", expires), **change)
    return Approval(request, strength, "me", NOW)


SEEN = readings(HOME)


@pytest.mark.parametrize(
    "strength, simulated, irreversible, covers",
    [
        (Strength.TYPED, False, True, True),
        (Strength.SIGNED, False, True, True),
        (Strength.REHEARSAL, False, True, False),
        (Strength.TYPED, False, False, True),
        (Strength.SIGNED, False, False, True),
        (Strength.REHEARSAL, False, False, False),
        (Strength.TYPED, True, True, True),
        (Strength.SIGNED, True, True, True),
        (Strength.REHEARSAL, True, True, True),
        (Strength.REHEARSAL, True, False, True),
    ],
)
def test_an_approval_must_be_strong_enough(strength, simulated, irreversible, covers):
    assert judge_approval(SEEN, yes(SEEN, strength), NOW, simulated, irreversible).passed is covers


WRONG = {
    "another verb": (yes(SEEN, verb="park"), "approved verb is `park`"),
    "another lease": (yes(SEEN, lease="box-2"), "approved lease is box-2"),
    "other evidence": (yes(SEEN, evidence="0" * 64), "receipts"),
    "evidence of before the waiver": (yes(readings(replace(HOME, waived=("main",)))), "receipts"),
    "evidence of another receipt": (yes(readings(replace(HOME, receipt=receipt("main", "x")))), "receipts"),
    "expired": (yes(SEEN, expires=NOW - 1), "15 minutes"),
    "expires in an hour": (yes(SEEN, expires=NOW + 3600), "15 minutes"),
    "never expires": (yes(SEEN, expires=float("inf")), "15 minutes"),
    "expires at no time": (yes(SEEN, expires=float("nan")), "15 minutes"),
}


@pytest.mark.parametrize("approval, says", list(WRONG.values()), ids=list(WRONG))
@pytest.mark.parametrize("simulated", [False, True])
def test_an_approval_of_something_else_does_not_cover_this(approval, says, simulated):
    verdict = judge_approval(SEEN, approval, NOW, simulated, True)
    assert verdict.outcome is R
    assert any(says in finding.what for finding in verdict.against())


def test_nobody_saying_yes_is_a_no():
    verdict = judge_approval(SEEN, None, NOW, True, False)
    assert verdict.outcome is R
    assert "nobody approved `terminate` on box-1" in verdict.against()[0].what


@pytest.mark.parametrize("age_s, covers", [(0, True), (APPROVAL_LIFE_S, True), (APPROVAL_LIFE_S + 1, False)])
def test_an_approval_lives_for_fifteen_minutes(age_s, covers):
    given = yes(SEEN, expires=NOW + APPROVAL_LIFE_S)
    assert judge_approval(SEEN, given, NOW + age_s, False, True).passed is covers


# ---------------------------------------------------------------- evidence


MOVED = RunReadings("toy-1-b0", (), state="finished", moved=(Moved("c0", "b1", True), Moved("c1", "b1")))


def test_cells_that_moved_away_are_said_with_where_they_are_now():
    verdict = judge_teardown(readings(MOVED))
    assert verdict.passed
    assert [finding.what for finding in verdict.findings] == [
        "toy-1-b0: 2 cells (c0, c1) moved to b1, which answers for them now (1 of 2 home there so far); "
        "nothing of them is left here"
    ]


def test_what_a_moved_cell_left_behind_is_said():
    present = {"c0": [{"path": "m.json", "bytes": 1500, "mtime_ns": 1, "inode": 1}]}
    moved = replace(MOVED, moved=MOVED.moved[:1], present=present)
    (finding,) = judge_teardown(readings(moved)).findings
    assert finding.what.endswith("(home there); what lies here of it (1 file, 1.5 kB) goes with the box")


def test_a_cell_that_left_and_that_no_box_has_yet_is_said():
    (finding,) = judge_teardown(readings(replace(MOVED, moved=(Moved("c0"),)))).findings
    assert "cell c0 left this run, and no box has it yet" in finding.what


def test_a_run_that_promised_nothing_is_not_said_to_be_never_started():
    (finding,) = judge_teardown(readings(RunReadings("fetch-1", (), state="finished"))).findings
    assert finding.what == "fetch-1: it promised no results"


def test_evidence_depends_on_receipts_waivers_and_lease_not_on_order():
    other = replace(HOME, run="toy-2", receipt=receipt("main", run="toy-2"))
    base = readings(HOME, other)
    assert readings(other, HOME).evidence == base.evidence
    changed = [
        readings(HOME),
        readings(HOME, other, lease="box-2"),
        readings(HOME, replace(other, waived=("main",))),
        readings(HOME, replace(other, receipt=None)),
        readings(HOME, replace(other, receipt=replace(other.receipt, verified_unix=10))),
        readings(HOME, replace(other, receipt=replace(other.receipt, manifest_sha256="n"))),
    ]
    assert len({each.evidence for each in [base, *changed]}) == len(changed) + 1


CELLS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple)
ENTRY = st.builds(entry, st.sampled_from(["x", "y"]), inode=st.integers(1, 2))
ENTRIES = st.lists(ENTRY, unique_by=lambda item: item["path"])


READ = st.sampled_from([None, "a" * 64, "b" * 64, "no sum", "later"])
OCCUPANT = st.builds(
    lambda kind, cleared: {"pid": 9, "command": "w", "how": "works", "kind": kind, "cleared": cleared},
    st.sampled_from(["writes", "ours", "stands", "reads", "of a kind that is not known yet"]),
    st.booleans(),
)


def as_sealed(files):
    return [{**one, "sha256": "a" * 64} for one in files]


def as_read(one, answer):
    """What the box said when it was to read a file to its end."""
    if answer == "no sum":
        return {"path": one["path"], "problem": "cannot be read"}
    return {**one, "sha256": "a" * 64, "ctime_ns": 99} if answer == "later" else {**one, "sha256": answer}


@st.composite
def run_readings(draw):
    covered = draw(CELLS)
    present = {cell: draw(ENTRIES) for cell in draw(CELLS)}
    sealed = draw(st.just(present) | st.fixed_dictionaries(dict.fromkeys(covered, ENTRIES)))
    answers = {(cell, one["path"]): (one, draw(READ)) for cell, files in present.items() for one in files}
    waived = draw(CELLS)
    return RunReadings(
        "toy-1",
        draw(CELLS),
        receipt(*covered) if covered else None,
        waived,
        {cell: as_sealed(files) for cell, files in sealed.items()},
        present,
        alive=draw(st.sampled_from([(), (), (7,)])),
        state=draw(st.sampled_from(["finished", "failed", "stopped", "running", "unknown", "absent"])),
        held_by_other_home=draw(st.sampled_from([False, False, True])),
        home_damage=draw(st.sampled_from([(), (), ("damaged",)])),
        given_up={cell: draw(ENTRIES) for cell in waived},
        remains={cell: draw(ENTRIES | st.just(present.get(cell, []))) for cell in waived},
        bare=draw(CELLS),
        missed=draw(CELLS),
        read=ReadInFull({key: as_read(*one) for key, one in answers.items() if one[1]}),
        in_full=draw(st.booleans()),
        unread=draw(st.sampled_from([(), (), (("who holds it is unknown", "look"),)])),
        occupants=draw(st.lists(OCCUPANT, max_size=1).map(tuple)),
    )


@MANY
@given(st.lists(run_readings(), max_size=2), st.booleans(), st.sampled_from([(), ("stranger-1",)]))
def test_whatever_the_readings_nothing_unsafe_passes(runs, reachable, strangers):
    verdict = judge_teardown(readings(*runs, reachable=reachable, strangers=strangers))
    safe = reachable and not strangers and all(map(is_safe, runs))
    assert verdict.passed == safe


@MANY
@given(run_readings())
def test_what_alone_would_be_safe_is_let_go(run):
    """Most readings have something against them: here all but the files is as it should be."""
    quiet = replace(
        run, alive=(), state="finished", held_by_other_home=False, home_damage=(), unread=(), occupants=(),
        promised=tuple({*(run.receipt.cells if run.receipt else ()), *run.waived}),
    )  # fmt: skip
    assert judge_teardown(readings(quiet)).passed == is_safe(quiet)


def is_safe(run: RunReadings) -> bool:
    """Say it again in other words."""
    covered = set(run.receipt.cells) if run.receipt else set()
    ended = run.state in ("finished", "failed", "stopped", "absent")
    quiet = not run.alive and not run.held_by_other_home and not run.home_damage and not run.unread
    nobody = all(one["cleared"] or one["kind"] == "reads" for one in run.occupants)
    nothing_left = set(run.bare) - set(run.waived) if run.state in ("failed", "stopped") else set()
    given_up = set(run.promised) - covered - nothing_left
    return (
        given_up <= set(run.waived)
        and all(given_up_knowingly(run, cell) for cell in given_up)
        and all(as_it_came_home(run, cell) for cell in covered)
        and ended
        and quiet
        and nobody
    )


def given_up_knowingly(run: RunReadings, cell: str) -> bool:
    """Whoever gave it up had seen every file that is there now, or that the run was gone."""
    seen = {str(one): one for one in run.given_up.get(cell, [])}
    there = run.remains.get(cell) or run.present.get(cell, [])
    return (run.state != "absent" or cell in run.missed) and all(str(one) in seen for one in there)


def as_it_came_home(run: RunReadings, cell: str) -> bool:
    """The same files, the same stats, and the same bytes where they were read or had to be."""
    now = as_sealed(run.present.get(cell, []))
    if sorted(run.sealed.get(cell, []), key=str) != sorted(now, key=str):
        return False
    answers = [run.read.entries.get((cell, one["path"])) for one in now]
    return all(one == answer if answer else not run.in_full for one, answer in zip(now, answers, strict=True))
