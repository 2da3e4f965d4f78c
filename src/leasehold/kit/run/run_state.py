"""A run's state from its journal: a fold of events, the same on both ends."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional

from . import continued, refuge_fold
from .run_states import FAILED, FINISHED, RUNNING, STOPPED, TERMINAL

TRAIN, EVALUATE, SEAL = "train", "evaluate", "seal"  # the stages of a cell


class CellState:
    """One cell as the journal describes it."""

    def __init__(self) -> None:
        self.state = "pending"
        self.attempt = 0
        self.tries = 0  # attempts since the last resume by a person
        self.pid = 0
        self.started = ""
        self.started_unix = 0.0
        self.ended_unix = 0.0
        self.code: Optional[int] = None
        self.signal: Optional[int] = None
        self.lost = False
        self.unseen = False  # its exit could not be observed: it was not our child
        self.why = ""  # the caretaker's reason for giving the cell up
        self.recorded = 0  # the attempt whose frameworks were journaled before set-up
        self.judged = 0  # the attempt whose environment was checked after set-up
        self.refused = ""  # why that check ended the attempt
        self.stage = "train"  # the stage that the newest attempt runs
        self.passed: List[str] = []  # stages that truly succeeded
        self.classed = 0  # the attempt whose failure was classed
        self.klass = ""
        self.verdict = ""
        self.because = ""  # why it was classed so
        self.mark = ""  # sign and step of that failure: an equal one is the same failure again
        self.repeats = 0
        self.saved = False  # that attempt left newer work than it began with
        self.largest_bytes = 0  # after a full disk: the largest result so far
        self.remedied = 0  # the attempt whose remedy was chosen
        self.remedy = ""
        self.wait_s = 0.0
        self.remedied_unix = 0.0
        self.pruned = 0  # the attempt after which scratch was pruned
        self.preempted = 0  # the attempt during which the loss of the box was announced
        self.short: Optional[Dict[str, Any]] = None  # what the disk lacked for the next attempt
        self.stalled_unix = 0.0
        self.fast: Optional[Dict[str, Any]] = None  # it ended suspiciously early: took_s, expected_s
        self.sealed = 0  # the attempt whose artifacts were found whole and hashed
        self.cards = ""  # given to its newest attempt, on a box with several
        self.waits = ""  # why the cluster has not started it yet, or how its last task ended
        self.cluster = ""  # the cluster's last state of its task
        self.given = 0  # given to two boxes, the later one has it
        self.alarms: Dict[str, str] = {}  # active findings about its training: what was seen, by alarm
        self.diverged = 0  # the attempt that was ended because its loss was not finite
        self.occupied = ""  # processes that unexpectedly write in its folders; it waits for them
        self.began: List[Dict[str, Any]] = []  # where attempts after the first began, by their own counter
        self.laid = ""  # epoch and name of the state from another box that its next attempt began with
        self.arrived = 0  # the attempt that began with it
        self.came: List[Dict[str, Any]] = []  # the boxes where it was before, with the state that each gave on
        self.refuge: Dict[str, Dict[str, Any]] = {}  # the newest state in each place off the box
        self.refuge_failed: Dict[str, Dict[str, Any]] = {}  # places that the last copy did not reach, and why
        self.leaves = ""  # the box that received it: the attempt here is ended, and then the cell is given back

    def as_dict(self) -> Dict[str, Any]:
        """Return the form for status.json and the wire."""
        return dict(vars(self))


class RunState:
    """A run as the journal describes it."""

    def __init__(self) -> None:
        self.state = "absent"
        self.seq = 0
        self.cells: Dict[str, CellState] = {}
        self.opened_unix = 0.0
        self.changed_unix = 0.0
        self.plan_sha256 = ""
        self.detach = ""
        self.stops: List[str] = []
        self.reason = ""
        self.cause = ""  # durable: training finished, and its results are not where they outlive the box
        self.restarts = 0  # caretakers after the first
        self.left: Dict[str, Dict[str, Any]] = {}  # cells that moved to another box: {to, attempt}
        self.published: Dict[str, Any] = {}  # {to, files, bytes, contents_sha256}, or {to, problem}
        self.refuge: Dict[str, Any] = {}  # where checkpoints are copied: {places, home, every_s, keep}
        self.fenced: Dict[str, Any] = {}  # the run belongs to another box: {epoch, ours, box, home}

    @property
    def terminal(self) -> bool:
        """Return whether nothing will happen without a person."""
        return self.state in TERMINAL

    def as_dict(self) -> Dict[str, Any]:
        """Return the form for status.json and the wire."""
        value = dict(vars(self))
        value["cells"] = {name: cell.as_dict() for name, cell in self.cells.items()}
        return value


def state_from(value: Mapping[str, Any]) -> RunState:
    """Read back the output of `as_dict`, perhaps of an older or newer version; fields of another type are left out."""
    run = RunState()
    _fill(run, {key: item for key, item in value.items() if key != "cells"})
    cells = value.get("cells")
    for name, facts in cells.items() if isinstance(cells, dict) else ():
        run.cells[str(name)] = CellState()
        _fill(run.cells[str(name)], facts if isinstance(facts, dict) else {})
    left = value.get("left")
    items = left.items() if isinstance(left, dict) else ()
    run.left = {str(name): gone for name, gone in items if isinstance(gone, dict)}
    return run


def _fill(into: Any, facts: Mapping[str, Any]) -> None:
    known = vars(into)
    known.update({key: item for key, item in facts.items() if key in known and _fits(item, known[key])})


def _fits(item: Any, usual: Any) -> bool:
    if isinstance(usual, (int, float)) and not isinstance(usual, bool):
        return isinstance(item, (int, float))
    return usual is None or isinstance(item, type(usual))


def fold(events: Iterable[Dict[str, Any]], into: Optional[RunState] = None) -> RunState:
    """Apply events in order; unknown kinds only advance the sequence, so that old readers survive."""
    run = into or RunState()
    for event in events:
        step = _STEPS.get(event.get("k", ""))
        if step is not None:
            step(run, event)
        run.seq = event.get("n", run.seq)
        run.changed_unix = event.get("t", run.changed_unix)
    return run


def _cell(run: RunState, event: Dict[str, Any]) -> CellState:
    return run.cells.setdefault(str(event.get("cell")), CellState())


def _opened(run: RunState, event: Dict[str, Any]) -> None:
    run.state = RUNNING
    run.opened_unix = event.get("t", 0.0)
    run.plan_sha256 = event.get("plan_sha256", "")
    run.detach = event.get("detach", "")
    for name in event.get("cells", []):
        run.cells.setdefault(name, CellState())


def _cells_added(run: RunState, event: Dict[str, Any]) -> None:
    for name in event.get("cells", []):
        cell = run.cells.setdefault(name, CellState())
        cell.leaves = ""
        back = run.left.pop(name, None)
        cell.attempt = back["attempt"] if back else cell.attempt  # its earlier attempts still lie here
    if run.state in (FINISHED, FAILED):
        run.state, run.reason = RUNNING, ""


def _cells_given(run: RunState, event: Dict[str, Any]) -> None:
    for name, stamp in event.get("given", {}).items():
        if name in run.cells:
            run.cells[name].given = stamp


def _cells_withdrawn(run: RunState, event: Dict[str, Any]) -> None:
    for name in event.get("cells", []):
        if name in run.cells:
            run.cells[name].leaves = str(event.get("to") or "elsewhere")


def _cells_released(run: RunState, event: Dict[str, Any]) -> None:
    for name in event.get("cells", []):
        cell = run.cells.pop(name, None)
        if cell is not None:
            run.left[name] = {"to": str(event.get("to", "")), "attempt": cell.attempt}


def _tasks_seen(run: RunState, event: Dict[str, Any]) -> None:
    for name in event.get("tasks", {}):
        if name in run.cells:
            run.cells[name].waits = event.get("why", "")  # a running task has no reason to wait
            run.cells[name].cluster = event.get("state", "")


def _caretaker_started(run: RunState, event: Dict[str, Any]) -> None:
    run.restarts += 1
    run.detach = event.get("detach", run.detach)


def _starting(run: RunState, event: Dict[str, Any]) -> None:
    cell = _cell(run, event)
    cell.state, cell.attempt, cell.tries = "starting", event.get("attempt", 0), cell.tries + 1
    cell.pid, cell.started, cell.code, cell.signal, cell.lost = 0, "", None, None, False
    cell.unseen = False
    cell.why = ""
    cell.refused = ""
    cell.cards = event.get("cards", "")
    cell.stage = str(event.get("stage", "train"))
    cell.short, cell.fast, cell.stalled_unix = None, None, 0.0


def _started(run: RunState, event: Dict[str, Any]) -> None:
    cell = _cell(run, event)
    cell.state, cell.pid, cell.started = "running", event.get("pid", 0), event.get("started", "")
    cell.started_unix = event.get("at", event.get("t", 0.0))


def _ended(run: RunState, event: Dict[str, Any]) -> None:
    cell = _cell(run, event)
    cell.state, cell.ended_unix = "ended", event.get("at", event.get("t", 0.0))
    cell.code, cell.signal, cell.lost = event.get("code"), event.get("signal"), bool(event.get("lost"))
    cell.unseen = bool(event.get("unseen"))


def _env_recorded(run: RunState, event: Dict[str, Any]) -> None:
    _cell(run, event).recorded = event.get("attempt", 0)


def _env_judged(run: RunState, event: Dict[str, Any]) -> None:
    cell = _cell(run, event)
    cell.judged = event.get("attempt", 0)
    found = event.get("findings")
    listed = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    against = [str(one.get("what")) for one in listed if one.get("outcome") == "refused"]
    cell.refused = "; ".join(against) if event.get("outcome") == "refused" and not event.get("skipped") else ""


def _stage_passed(run: RunState, event: Dict[str, Any]) -> None:
    cell = _cell(run, event)
    cell.passed = [*cell.passed, str(event.get("stage"))]
    cell.tries = 0  # the next stage has its own limit


def _classed(run: RunState, event: Dict[str, Any]) -> None:
    cell = _cell(run, event)
    mark = str(event.get("mark", ""))
    cell.repeats = cell.repeats + 1 if mark and mark == cell.mark else 1
    cell.classed, cell.mark = event.get("attempt", 0), mark
    cell.klass, cell.verdict = str(event.get("class", "")), str(event.get("verdict", ""))
    if cell.klass == "preempted" and event.get("stage") == "seal":
        cell.passed = []  # it left early, though with code 0
    cell.largest_bytes = event.get("largest_bytes", 0)
    cell.because, cell.saved = str(event.get("why", "")), bool(event.get("saved"))


def _remedied(run: RunState, event: Dict[str, Any]) -> None:
    cell = _cell(run, event)
    cell.remedied, cell.remedy = event.get("attempt", 0), str(event.get("remedy", ""))
    cell.wait_s, cell.remedied_unix = event.get("wait_s", 0.0), event.get("t", 0.0)
    if event.get("fresh"):
        cell.tries = 0


def _attempt_of(field: str) -> Any:
    def step(run: RunState, event: Dict[str, Any]) -> None:
        setattr(_cell(run, event), field, event.get("attempt", 0))

    return step


def _disk_short(run: RunState, event: Dict[str, Any]) -> None:
    facts = ("path", "what", "free", "need", "hint")
    _cell(run, event).short = {key: event.get(key) for key in facts}


def _stalled(run: RunState, event: Dict[str, Any]) -> None:
    over = event.get("k") == "stall_over"
    _cell(run, event).stalled_unix = 0.0 if over else event.get("since_unix", 0.0)


def _occupied(run: RunState, event: Dict[str, Any]) -> None:
    _cell(run, event).occupied = str(event.get("why", "")) if event.get("k") == "occupied" else ""


def _fast_finished(run: RunState, event: Dict[str, Any]) -> None:
    _cell(run, event).fast = {key: event.get(key) for key in ("took_s", "expected_s")}


def _alarm(run: RunState, event: Dict[str, Any]) -> None:
    if not event.get("cell"):
        return  # of the box
    key = "%s %s" % (event.get("name"), event.get("where", ""))
    alarms = dict(_cell(run, event).alarms)
    alarms.pop(key, None)
    if event.get("k") == "alarm_raised":
        alarms[key] = "%s (%s)" % (event.get("what"), event.get("seen"))
    _cell(run, event).alarms = alarms


def _began(run: RunState, event: Dict[str, Any]) -> None:
    cell = _cell(run, event)
    cell.began = continued.kept(cell.began, event)


def _resumed_from(run: RunState, event: Dict[str, Any]) -> None:
    cell = _cell(run, event)
    cell.laid = "%s-%s" % (event.get("epoch"), event.get("state"))
    cell.arrived = event.get("attempt", 0)
    chain = event.get("chain")
    cell.came = [one for one in chain if isinstance(one, dict)] if isinstance(chain, list) else []


def _cell_state(name: str) -> Any:
    def step(run: RunState, event: Dict[str, Any]) -> None:
        _cell(run, event).state = name

    return step


def _cell_failed(run: RunState, event: Dict[str, Any]) -> None:
    cell = _cell(run, event)
    cell.state, cell.why = FAILED, event.get("why", "")
    cell.occupied = ""  # it no longer waits for any process


def _run_state(name: str) -> Any:
    def step(run: RunState, event: Dict[str, Any]) -> None:
        run.state = name
        run.reason, run.cause = event.get("reason", ""), event.get("cause", "")

    return step


def _stop_requested(run: RunState, event: Dict[str, Any]) -> None:
    run.stops.append(event.get("id", ""))
    run.state = "stopping"


def _stopped(run: RunState, event: Dict[str, Any]) -> None:
    run.state = STOPPED
    run.reason, run.cause = event.get("reason", ""), event.get("cause", "")
    for cell in run.cells.values():
        if cell.state not in (FINISHED, FAILED):
            cell.state, cell.occupied = STOPPED, ""


def _resumed(run: RunState, event: Dict[str, Any]) -> None:
    run.state, run.reason, run.cause = RUNNING, "", ""
    run.detach = event.get("detach", run.detach)
    given_up = set(event.get("given_up", ()))
    for name, cell in run.cells.items():
        if cell.state != FINISHED and name in given_up:
            cell.state, cell.why = FAILED, cell.why or "given up by a person"
        elif cell.state != FINISHED:
            cell.state, cell.tries = "pending", 0
            cell.mark, cell.repeats, cell.wait_s, cell.remedy = "", 0, 0.0, ""
            cell.classed, cell.remedied, cell.short = 0, 0, None


_STEPS = {
    "run_opened": _opened,
    "cells_added": _cells_added,
    "cells_given": _cells_given,
    "cells_withdrawn": _cells_withdrawn,
    "cells_released": _cells_released,
    "tasks_seen": _tasks_seen,
    "caretaker_started": _caretaker_started,
    "attempt_starting": _starting,
    "attempt_started": _started,
    "attempt_ended": _ended,
    "env_recorded": _env_recorded,
    "env_judged": _env_judged,
    "stage_passed": _stage_passed,
    "failure_classed": _classed,
    "remedy_chosen": _remedied,
    "scratch_pruned": _attempt_of("pruned"),
    "preempt_noticed": _attempt_of("preempted"),
    "cell_sealed": _attempt_of("sealed"),
    "disk_short": _disk_short,
    "stalled": _stalled,
    "stall_over": _stalled,
    "occupied": _occupied,
    "occupied_over": _occupied,
    "fast_finished": _fast_finished,
    "alarm_raised": _alarm,
    "alarm_cleared": _alarm,
    "nan_stop": _attempt_of("diverged"),
    "attempt_began": _began,
    "resumed_from": _resumed_from,
    "cell_finished": _cell_state(FINISHED),
    "cell_failed": _cell_failed,
    "cell_pending": _cell_state("pending"),
    "run_finished": _run_state(FINISHED),
    "run_failed": _run_state(FAILED),
    "stop_requested": _stop_requested,
    "run_stopped": _stopped,
    "resumed": _resumed,
    **refuge_fold.FOLDS,
}
