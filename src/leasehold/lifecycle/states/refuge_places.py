"""The refuges of a run that this home can read by itself: an object store, a durable folder that is mounted here."""

from __future__ import annotations

import os
from collections.abc import Mapping

from leasehold.kit.refuge.epochs import Claim, read_claim
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.place import Place, PlaceError
from leasehold.kit.refuge.reading import Kept, newest_state
from leasehold.model.job.parse_refuge import DURABLE, HOME, NONE
from leasehold.model.run.plan import Plan

from .states_brought import RefugeSeen


def refuges_of(plan: Plan) -> tuple[str, ...]:
    """Return where the job's states are copied: as it says, else to the durable tier, if there is one."""
    said = plan.job.checkpoint
    usual = (DURABLE,) if plan.environment.get("durable") else ()
    return (said.refuge or usual) if said.path else ()


def look_into(plan: Plan, cells: list[str], environ: Mapping[str, str]) -> list[RefugeSeen]:
    """Read the newest state of each cell in every refuge but home."""
    known = {**{str(key): str(value) for key, value in dict(plan.job.env).items()}, **environ}
    return [_seen(spec, plan, cells, known) for spec in refuges_of(plan) if spec not in (HOME, NONE)]


def claim_of(seen: RefugeSeen, kept: Kept) -> Claim:
    """Return the claim under which a state was published."""
    found = read_claim(seen.place, kept.state.run, kept.state.epoch) if seen.place is not None else None
    return found or Claim(kept.state.epoch, "unreadable", box=kept.state.box)


def _seen(spec: str, plan: Plan, cells: list[str], environ: Mapping[str, str]) -> RefugeSeen:
    where = str(plan.environment.get("durable") or "the durable tier") if spec == DURABLE else spec
    try:
        place = _opened(spec, where, environ)
        kept = tuple(one for one in (newest_state(place, plan.run, cell) for cell in cells) if one is not None)
    except PlaceError as error:
        return RefugeSeen(spec, where, str(error))
    return RefugeSeen(spec, where, "", kept, place)


def _opened(spec: str, where: str, environ: Mapping[str, str]) -> Place:
    if spec == DURABLE:
        if not where.startswith("/") or not os.path.isdir(where):
            raise PlaceError("unreachable", f"{where} is a folder of the box and is not mounted here")
        return FolderPlace(where)
    from leasehold.kit.objects.object_place import open_bucket  # loads ssl and http: only where a job wants it

    return open_bucket(spec, environ)
