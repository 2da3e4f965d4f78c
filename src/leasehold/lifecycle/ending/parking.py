"""Park a box: by hand, or automatically once every result is home and a person approved that beforehand."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leasehold.errors import LeaseholdError, LinkError, Refusal, UserError
from leasehold.kit.text.units import utc_minute
from leasehold.ledger import books
from leasehold.lifecycle.approval.approve import new_request
from leasehold.lifecycle.approval.phrase import Ask, require_phrase
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import Box
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.lifecycle.rentals.api_landlord import acts
from leasehold.lifecycle.rentals.markets import rented_landlord
from leasehold.model.lease.box import K8S
from leasehold.model.lease.lease import Lease, RunRecord
from leasehold.model.platform.profile import Verb
from leasehold.model.run.note import Note, Report, silent
from leasehold.model.run.receipt import Approval, Strength
from leasehold.platforms.catalog import landlord_named
from leasehold.platforms.contract import Landlord
from leasehold.platforms.landlords.inside import InsideLandlord
from leasehold.platforms.landlords.person import PersonLandlord
from leasehold.transport.process import LocalTransport

from .teardown import TeardownPlan, Wanted, platform_of, tear_down

_LONGEST_S = 31 * 86400.0


@dataclass(frozen=True)
class Standing:
    """A standing approval to park this box until a given time."""

    box: str
    verb: str
    until_unix: float
    by: str


def park_verb(home: Home, lease: Lease) -> Verb:
    """Return the platform's verb that parks, or refuse if it has none."""
    profile = platform_of(home, lease)
    if profile.parking is None:
        known = ", ".join(verb.name for verb in profile.verbs)
        raise UserError("lease.no_park", f"{profile.title} has no way to park a box", hint=f"its verbs: {known}")
    return profile.parking


def landlord_of(home: Home, lease: Lease, verb: Verb, report: Report = silent) -> Landlord:
    """Choose who carries out the verb: the API that rented the box, the box itself where it can, else a person."""
    if (rented := rented_landlord(home, lease, report)) is not None and acts(verb):
        return rented
    if lease.box.startswith(K8S) and verb.by == "api":
        return _cluster_of(box_of(home, lease))
    if verb.by == "api":
        return landlord_named(platform_of(home, lease).landlord, lease)
    if verb.by != "box":
        return PersonLandlord()
    box = box_of(home, lease)
    if isinstance(box.transport, LocalTransport):
        raise Refusal("park.own_machine", f"{lease.box} is this very machine: `{verb.name}` would power off your own")

    def power_off(command: Sequence[str]) -> None:
        with box.connect() as engine:
            engine.power.power_off(command, home.ledger.home_id)

    def answers() -> bool:
        try:
            with box.connect():
                return True
        except LinkError:
            return False

    return InsideLandlord(power_off, answers)


def _cluster_of(box: Box) -> Landlord:
    from leasehold.platforms.engines.kubernetes import remove
    from leasehold.platforms.engines.kubernetes.pods import PodTransport
    from leasehold.platforms.landlords.cluster import ClusterLandlord

    to = box.transport
    assert isinstance(to, PodTransport)
    return ClusterLandlord(lambda: remove.remove_pods(to), lambda: remove.remove_volume(to), lambda: remove.left(to))


def grant(home: Home, lease: Lease, for_s: float, ask: Ask) -> Standing:
    """Have a person type that this box may be parked once receipts exist, for a limited time."""
    verb = park_verb(home, lease)
    if not verb.reversible or verb.deletes:
        raise Refusal("standing.unsafe", f"`{verb.name}` deletes {', '.join(verb.deletes)}: it needs a yes each time")
    if not 0 < for_s <= _LONGEST_S:
        raise UserError("standing.too_long", "a standing approval lasts at most 31 days", hint="--standing 14d")
    until = time.time() + for_s
    day = utc_minute(until)
    phrase = f"standing {verb.name} {lease.box}"
    question = (
        f"until {day}, `{verb.name}` may be carried out on {lease.box} without another question,\n"
        "each time only after every result is home, verified. To approve"
    )
    require_phrase(ask, question, phrase, "nothing was recorded")
    by = os.environ.get("USER") or str(os.getuid())
    home.ledger.append("standing_granted", lease=lease.id, box=lease.box, verb=verb.name, until_unix=until, by=by)
    return Standing(lease.box, verb.name, until, by)


def revoke(home: Home, lease: Lease) -> bool:
    """Revoke a standing approval; return whether there was one."""
    held = standing(home, lease) is not None
    home.ledger.append("standing_revoked", lease=lease.id, box=lease.box)
    return held


def standing(home: Home, lease: Lease) -> Standing | None:
    """Return the standing approval that now covers this box, if any."""
    found = None
    for event in home.ledger.events(kind="standing_granted"):
        data = event.data
        if data["box"] == lease.box:
            found = Standing(data["box"], data["verb"], float(data["until_unix"]), data["by"])
            granted = event.t
    if found is None or not granted <= time.time() <= found.until_unix:  # setting the clock back revives none
        return None
    taken_back = [e.t for e in home.ledger.events(kind="standing_revoked") if e.data["box"] == lease.box]
    return None if any(moment >= granted for moment in taken_back) else found


def park_when_done(home: Home, record: RunRecord, report: Report) -> None:
    """After a receipt, park the box if the job asks for it and a person approved it; otherwise report what to type."""
    if json.loads(record.plan_json)["job"].get("when_done") != "park":
        return
    lease = books.find_lease(home.ledger, record.lease)
    given = standing(home, lease)
    verb = platform_of(home, lease).parking
    if verb is None or not lease.open:
        return
    if given is None or given.verb != verb.name:
        text = f"the job says when_done: park. Now: lease park {lease.id}   (or once for all: --standing 14d)"
        report(Note("next", text))
        return
    try:
        tear_down(home, lease, Wanted(verb.name), landlord_of(home, lease, verb, report), _stands(given), report)
    except LeaseholdError as error:  # results are home; a park that is not possible now is not a failure of the run
        report(Note("warning", f"not parked: {error.message}; {error.seen or error.hint}"))


def _stands(given: Standing) -> Callable[[TeardownPlan], Approval]:
    def approve(plan: TeardownPlan) -> Approval:
        return Approval(new_request(plan.readings), Strength.STANDING, given.by, time.time())

    return approve
