"""Record a person's statement that the meter stopped, where no API can confirm it; what can be asked is asked first."""

from __future__ import annotations

from typing import Any

from leasehold.errors import LeaseholdError, LinkError, Refusal
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books
from leasehold.lifecycle.box.refresh import by_run
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.machine.shared_meters import close_twins, twins_of
from leasehold.model.lease.box import LOCAL
from leasehold.model.lease.lease import Lease
from leasehold.model.platform.profile import Verb
from leasehold.model.run.note import Report, silent
from leasehold.platforms.contract import BoxState, Landlord
from leasehold.transport.early_calls import EarlyCalls

from .teardown import platform_of

_LIVE = ("running", "stopping")
# Something answers: the box, a relay of the provider that outlives it, or a machine that has its address now.
_ANSWERED = (
    "link.auth_failed", "link.host_key_changed", "link.host_key_unexpected", "link.noise", "link.strange",
    "link.turned_away",
)  # fmt: skip


def refuse_while_on(home: Home, lease: Lease, landlord: Landlord | None) -> str:
    """Ask the platform, where it has an API, and the box; refuse while either reports that it is on.

    Return what was seen instead, for the person who is about to state that it is stopped.
    """
    if landlord is not None:
        state = landlord.poll(lease)
        if state is BoxState.HELD:
            what = f"the platform reports that {lease.box} is still held: its meter runs"
            raise Refusal("lease.answers", what, hint=f"lease down {lease.id}")
        if landlord.simulated or state is not BoxState.UNKNOWN:
            return f"the platform reports it {state.value}"
    if lease.box == LOCAL:
        what = f"{lease.id} is this very machine, which is on"
        raise Refusal("lease.answers", what, hint=f"lease down {lease.id}")
    seen = _refuse_if_it_answers(home, lease)
    for twin in sorted(twins_of(home, lease)):  # the same machine: it is asked under each of its names
        other = books.find_lease(home.ledger, twin)
        seen += f"; as {other.box}: {_refuse_if_it_answers(home, other)}"
    return seen


def _refuse_if_it_answers(home: Home, lease: Lease) -> str:
    try:
        runs = by_run(box_of(home, lease).told())
    except LinkError as error:
        unknown = "something answers at its address, and whether that is the box is unknown"
        return f"{unknown if error.code in _ANSWERED else 'it does not answer now'}: {one_line(error.message)}"
    except LeaseholdError as error:
        return f"it cannot be asked: {one_line(error.message)}"
    live = [one_line(run) for run, value in runs.items() if value.get("state") in _LIVE]
    ends = f"lease stop {live[0]} ends what works there" if live else f"lease down {lease.id} checks everything"
    raise Refusal(
        "lease.answers",
        f"{lease.box} still answers, so it is not stopped: {lease.id} keeps counting",
        seen=f"at work there: {', '.join(live)}" if live else "no run is at work on it",
        hint=f"stop it in the console; once it no longer answers: lease down {lease.id} --stopped\n{ends}",
    )


def record_stopped(
    home: Home, lease: Lease, by: str, verb_name: str = "", since_unix: float = 0.0, report: Report = silent
) -> Verb | None:
    """Record a person's statement that the meter stopped: after a park its disks keep billing, any other verb ends it.

    since_unix: when it stopped, if the person saw that too; otherwise it bills until now.
    """
    EarlyCalls(home.path).forget()
    name = verb_name or _last_asked(home, lease)
    verb = platform_of(home, lease).verb(name) if name else None
    if verb is not None and verb.kind == "park":
        said: dict[str, Any] = {"by": by, "verb": verb.name, "said": "the box is stopped"}
        if since_unix:
            said["since_unix"] = since_unix
        home.ledger.append("lease_parked", lease=lease.id, **said)
        return verb
    twins = twins_of(home, lease)
    home.ledger.append("lease_closed", lease=lease.id, by=by, said="the meter is stopped")
    close_twins(home, twins, name, report)
    return None


def _last_asked(home: Home, lease: Lease) -> str:
    """Return the verb that was begun last; if there was none, none is assumed."""
    begun = [event for event in home.ledger.events(lease=lease.id) if event.kind in ("verb_asked", "intent_recorded")]
    return str(begun[-1].data["verb"]) if begun else ""
