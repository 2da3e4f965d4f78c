"""The outcome of a run: what came home, how far it is verified, and the next command."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from leasehold.api import opening, orders, running
from leasehold.model.run.at_home import lines
from leasehold.model.run.nonfinite import summary
from leasehold.model.run.unread_files import summary as summary_unread
from leasehold.model.run.unread_files import unread
from leasehold.model.values.units import ago
from leasehold.shells.cli import output

if TYPE_CHECKING:
    from leasehold.model.run.receipt import Receipt

_HOME_NEXT = "{what}. Next, when you need the box no more: lease down {run}"


def show_outcome(outcome: orders.RunOutcome, json_wanted: bool) -> None:
    """Print a run's outcome and the next command."""
    if json_wanted:
        receipt = outcome.receipt.as_dict() if outcome.receipt else None
        output.as_json({**vars(outcome), "receipt": receipt})
    elif outcome.receipt is None:
        output.say(f"detached; the run continues on the box. Next: lease watch {outcome.run}")
        output.data(outcome.run)
    else:
        output.say(home_next(outcome.run, outcome.receipt))
        output.data(outcome.export)


def home_next(run: str, receipt: Receipt) -> str:
    """Format how results came home, and the next command where the box still costs money."""
    what = say_home(receipt)
    return _HOME_NEXT.format(what=what, run=run) if has_meter(run) else what


def say_home(receipt: Receipt) -> str:
    """Format how results came home; those with NaN or infinity, or unread, are never just called verified."""
    held, passed_over = summary(receipt.nonfinite), summary_unread(unread(receipt.loads))
    if held:
        return f"home, hash-equal, loads, but holds {held}{passed_over and '; '}{passed_over}: look before you use it"
    return f"results are home and hash-equal; {passed_over}" if passed_over else "results are home and verified"


def has_meter(run: str) -> bool:
    return running.meter_of_run(opening.open_home(), run).metered


def pulled_json(done: orders.PullOutcome, export: str) -> dict[str, Any]:
    """Return the fields for --json of a pull; without a receipt it says so, and what came."""
    value: dict[str, Any] = {"run": done.run, "receipt": done.receipt.as_dict() if done.receipt else None}
    if done.receipt is not None:
        value["export"] = export
    if done.evacuated is not None:
        value["evacuated"] = done.evacuated.as_dict()
        value["no_receipt"] = _why_no_receipt(done.evacuated)
    return value


def say_evacuated(done: orders.Evacuation) -> None:
    """Print what came of each promise, the newest state, and how much copies without a receipt can be trusted."""
    for line in lines(done.artifacts, done.states, done.at_unix):
        output.say(f"  {line}")
    output.say(_why_no_receipt(done))


def say_states(done: orders.StatesBrought) -> None:
    """Print the newest state of each cell that is home, what was passed over, and how much of a refuge home is."""
    for state in done.states:
        output.say(f"  {state.words(time.time())}" + ("" if state.cell in done.new else " (was home already)"))
        output.data(state.place)
    for cell in done.lacking:
        output.say(f"  {cell}: no whole state yet")
    for left in done.left:
        output.say(f"  passed over: {left.cell}/{left.path}: {left.why}")
    if done.states and done.state not in ("stopped", "failed", "finished"):
        output.say(orders.HOME_WORDS)


def show_out_of_reach(done: orders.OutOfReach, json_wanted: bool) -> int:
    """Print what is home of a run whose box does not answer, and what its refuges hold; return the exit code."""
    if json_wanted:
        output.as_json({"run": done.run, "receipt": None, "unreachable": done.as_dict(), "error": done.error.as_dict()})
        return done.error.exit_code
    output.error(done.error, False)
    output.say(f"Home has of {done.run}, last seen {done.state or 'never'}:")
    for line in lines(done.artifacts, done.states, time.time()):
        output.say(f"  {line}")
    if not done.states:
        output.say("  no state of it")
    for refuge in done.refuges:
        output.say(f"  refuge {refuge.where}: {_say_refuge(refuge, done)}")
    if not done.refuges:
        output.say("  it has no refuge but its box: what was saved there since is unknown")
    for place in (*((done.place,) if done.place else ()), *(state.place for state in done.states)):
        output.data(place)
    return done.error.exit_code


def _say_refuge(refuge: Any, done: orders.OutOfReach) -> str:
    if refuge.problem:
        return f"cannot be read from here: {refuge.problem}"
    held = [
        f"{kept.state.cell}: {'step unknown' if kept.state.step is None else f'step {kept.state.step:,}'}, saved "
        f"{ago(max(0.0, time.time() - kept.state.made_unix))} ago"
        + (" (fetched now)" if kept.state.cell in done.came else "")
        for kept in refuge.kept
    ]
    return "; ".join(held) or "holds no state of it"


def _why_no_receipt(done: orders.Evacuation) -> str:
    """Say in one sentence that there is no receipt, and what goes on from here."""
    if done.state in ("stopped", "failed"):
        why = f": {done.reason}" if done.reason else ""
        left = "this is what it left, hash-equal to the box, unfinished, not loaded" if done.files else "nothing came"
        what = f"{done.run} {done.state}{why}. No receipt: {left}"
        return f"{what}. lease resume {done.run} goes on with it; lease waive {done.run} gives it up"
    if not done.kept:
        return (
            f"{done.run} is {done.state}, and its caretaker gives no sign of life: this is a copy of what is there, no "
            f"receipt. The identical lease run, or lease resume {done.run}, starts the caretaker again"
        )
    return f"{done.run} goes on; this is a copy of what it has finished, not its result: no receipt"
