"""Verbs for first use and for runs: init, check, resume, attach, adopt, tunnel, handbook, forget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.errors import UserError
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home

if TYPE_CHECKING:
    from leasehold.lifecycle.machine.box import Box
    from leasehold.lifecycle.move.moving import Moving
    from leasehold.lifecycle.records.orders import AdoptOrder, MoveOrder, RunOrder, RunOutcome
    from leasehold.model.run.note import Report
    from leasehold.model.run.verdict import Verdict

_BY_PERSON = "a person says on a terminal that a silent box is gone; or close its lease: lease down BOX --stopped"


@dataclass(frozen=True)
class BoxWords:
    """Where to look for a run, and where to copy its results."""

    box: str = ""
    root: str = ""
    results: str = ""


def check(home: Home, gate: str, job: str, box: str, report: Report, **wishes: Any) -> Verdict:
    """Run a single gate; for `launch`, job names a run."""
    from leasehold.lifecycle.preflight.one_gate import check_gate, check_launch

    if gate == "launch":
        return check_launch(home, job)
    return check_gate(home, gate, Path(job), box, report, **wishes)


def init(folder: Path) -> str:
    """Inspect a project and write a job file for it."""
    from leasehold.lifecycle.init.look.look import look_at
    from leasehold.lifecycle.init.start import draft

    return draft(folder, look_at(folder))


def fill_in(text: str) -> list[int]:
    """List the lines of a new job file that the person must fill in."""
    from leasehold.lifecycle.init.text.page import lines_to_fill_in

    return lines_to_fill_in(text)


def left_home(folder: Path, text: str, job_file: str) -> str:
    """List what lies in a project and would not be sent with its code; text is that of the job file."""
    from leasehold.lifecycle.project.ignored_data import left_home as look
    from leasehold.lifecycle.project.ignored_data import say_left_home
    from leasehold.lifecycle.project.job_yaml import parse_text
    from leasehold.lifecycle.project.local_data import apart

    return say_left_home(look(folder, text, apart(parse_text(text, job_file), folder)), job_file)


def write_new(target: Path, text: str) -> None:
    """Write a new file; an existing one is never overwritten."""
    from leasehold.lifecycle.init.start import write_new as write

    write(target, text)


def convert(source: Path) -> dict[str, Any]:
    """Convert a SkyPilot, sbatch or dstack file; report what could not be carried over."""
    from leasehold.lifecycle.init.convert.convert import convert as carry_over
    from leasehold.lifecycle.init.look.look import look_at

    done = carry_over(source, look_at(Path.cwd()))
    return {
        "kind": done.source_kind,
        "text": done.text,
        "converted": list(done.converted),
        "not_converted": list(done.not_converted),
    }


def attach(home: Home, word: str, where: BoxWords, report: Report, *, take_over: bool = False) -> RunOutcome:
    """Follow a run; one that this home does not know is looked up on the box and recorded first.

    With take_over, a person types that this home holds it from now on.
    """
    from leasehold.api.running import watch
    from leasehold.lifecycle.machine.box import find_box
    from leasehold.lifecycle.project.code_tree import RESULTS
    from leasehold.lifecycle.run.attach_run import adopt_run

    try:
        record = books.find_run(home.ledger, word)
    except UserError:
        if not where.box:
            raise UserError(
                "run.unknown",
                f"this home knows no run {word!r}",
                hint=f"name its box: lease attach {word} --on ssh:ALIAS",
            ) from None
        place = Path(where.results) if where.results else Path.cwd() / RESULTS
        record = adopt_run(home, find_box(home, where.box, root=where.root), word, place.absolute(), report)
    if take_over:
        from leasehold.lifecycle.approval.phrase import terminal_ask
        from leasehold.lifecycle.launch import take_over as taking

        hint = "a take-over is typed by a person on a terminal; there is no other way"
        taking.take_over(home, record, lambda question: terminal_ask(question, hint), report)
    return watch(home, record.run, report)


def adoptable(home: Home, order: AdoptOrder, report: Report) -> list[dict[str, Any]]:
    """List training processes on a box that leasehold did not start; change nothing."""
    from leasehold.lifecycle.run.adopt_process import candidates

    return candidates(home, order, report)


def adopt(home: Home, order: AdoptOrder, report: Report) -> str:
    """Make a run of a live process; return the run's name."""
    from leasehold.lifecycle.run.adopt_process import adopt as take

    return take(home, order, report)


def tunnel(home: Home, word: str, port: str, local_port: int, hold: Callable[[int, str, str], None]) -> None:
    """Open a tunnel, check the panel behind it, and pass (local port, kind, detail) to hold, which keeps it open."""
    from leasehold.lifecycle.box.tunnel import check_port, look_at_panel
    from leasehold.lifecycle.box.tunnel import tunnel as open_tunnel
    from leasehold.lifecycle.machine.leased_box import box_of

    record = books.find_run(home.ledger, word)
    lease = books.find_lease(home.ledger, record.lease)
    box = box_of(home, lease)
    with open_tunnel(box, check_port(port), local_port) as near:
        panel = look_at_panel(near, record.run, f"{lease.root or '~/.leasehold'}/active")
        hold(near, panel.kind, panel.detail)


def handbook(home: Home, word: str) -> dict[str, str]:
    """Format a run's handbook as this home knows it now."""
    from leasehold.lifecycle.tell.handbook import page

    run, text = page(home, word)
    return {"run": run, "text": text}


def resume(home: Home, word: str, report: Report, *, detach: bool = False) -> RunOutcome:
    """Continue a stopped or failed run with the plan and the code that it began with."""
    from leasehold.lifecycle.run.resume import resume as go_on

    return go_on(home, word, report, detach=detach)


def forget(home: Home, word: str) -> dict[str, str]:
    """Remove a run from this home's lists, if nothing of it could be lost or could bill."""
    from leasehold.lifecycle.care.forget import forget as let_go

    record = let_go(home, word)
    return {"run": record.run, "state": record.state, "home": record.home_since}


def move(home: Home, order: MoveOrder, report: Report) -> RunOutcome:
    """Move a run to another box with its newest state, and follow it there; the identical call continues."""
    from leasehold.lifecycle.machine.box import find_box
    from leasehold.lifecycle.move.move_run import move_run

    if order.platform or order.to.startswith("ssh:"):
        from leasehold.lifecycle.box.platform_choice import settle

        settle(home, order.to, order.platform, report)
    return move_run(home, order, find_box(home, order.to, root=order.root), _ask, report)


def rehearse(home: Home, order: MoveOrder, report: Report) -> dict[str, Any]:
    """Return what a move would resume from and lose; every byte of that state is read, nothing is changed."""
    from leasehold.lifecycle.machine.box import find_box
    from leasehold.lifecycle.move.rehearse import rehearse as walk

    return walk(home, order, find_box(home, order.to, root=order.root), _moving(), report)


def running_on(home: Home, order: RunOrder, box: Box | None, report: Report) -> RunOutcome:
    """Run a job with what it did on other boxes before; a box that breaks is left for the job's next candidate."""
    from leasehold.lifecycle.move.leave_broken import run_and_leave

    return run_and_leave(home, bringing(order), box, _ask, report)


def bringing(order: RunOrder) -> RunOrder:
    """Return the order of `lease run` with what fetches the run's work from the boxes where it was before."""
    return order if order.bring is not None else replace(order, bring=_moving())


def _moving() -> Moving:
    from leasehold.lifecycle.move.moving import Moving

    return Moving(_ask)


def _ask(question: str) -> str:
    from leasehold.lifecycle.approval.phrase import terminal_ask

    return terminal_ask(question, _BY_PERSON)
