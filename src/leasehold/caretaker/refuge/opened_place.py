"""Open the refuges that a job names: the platform's durable tier, an object store. Home copies for itself."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple

from leasehold.caretaker.artifacts.durable_copier import why_not
from leasehold.caretaker.run.run_folder import RunFolder
from leasehold.kit.files.atomic import read_json
from leasehold.kit.refuge.folder_place import FolderPlace
from leasehold.kit.refuge.place import REFUSED, UNREACHABLE, Place, PlaceError
from leasehold.kit.refuge.read_back import LAG_S

DURABLE, HOME, NONE = "durable", "home", "none"
EVERY_S, KEEP = 600.0, 2


class Wishes(NamedTuple):
    """What the plan says of the refuge."""

    pattern: str
    named: List[str]  # as the job names them; the durable tier where it names none
    stated: bool  # whether the job itself says where
    every_s: float
    keep: int
    rate_bytes: int
    best: str
    mode: str

    @property
    def specs(self) -> List[str]:
        """Return the refuges that the box itself fills."""
        return [one for one in self.named if one not in (HOME, NONE)]


def wishes_of(plan: Dict[str, Any], platform: Dict[str, Any]) -> Wishes:
    """Read the plan; without a word on refuges, checkpoints go to the durable tier where there is one."""
    said = plan.get("job", {}).get("checkpoint") or {}
    named = [str(one) for one in said.get("refuge") or ([DURABLE] if platform.get("durable") else [])]
    return Wishes(
        pattern=str(said.get("path") or ""),
        named=named if said.get("path") else [],
        stated=bool(said.get("refuge")),
        every_s=float(said.get("every_s") or EVERY_S),
        keep=int(said.get("keep") or KEEP),
        rate_bytes=int(said.get("rate_bytes") or 0),
        best=str(said.get("best_metric") or ""),
        mode=str(said.get("best_mode") or "min"),
    )


def where_of(spec: str, platform: Dict[str, Any]) -> str:
    """Return a refuge's address for people, without touching it."""
    return str(platform.get("durable") or "the durable tier") if spec == DURABLE else spec


def open_place(spec: str, folder: RunFolder, tick: Callable[[int], None]) -> Place:
    """Open a refuge; PlaceError says why it cannot be used."""
    if spec == DURABLE:
        why = why_not(folder.platform(), folder.path)
        if why:
            raise PlaceError(UNREACHABLE, why)
        return FolderPlace(str(folder.platform()["durable"]), folder.run, LAG_S, tick)
    try:
        from leasehold.kit.objects.object_place import open_bucket  # loads ssl and http: only where a job wants it
    except ImportError:
        raise PlaceError(REFUSED, "%s: this version cannot use object stores" % spec) from None
    return open_bucket(spec, environ_of(folder), tick=tick)


def environ_of(folder: RunFolder) -> Dict[str, str]:
    """Return the job's variables and secrets: an object store's keys are among them."""
    plan = folder.read_plan() or {}
    known = {str(key): str(value) for key, value in (plan.get("job", {}).get("env") or {}).items()}
    try:
        secrets = read_json(folder.secrets) or {}
    except OSError:
        secrets = {}
    known.update((str(key), str(value)) for key, value in secrets.items())
    return known
