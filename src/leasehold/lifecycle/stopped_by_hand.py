"""A person's word that the meter stopped, where no landlord can be asked."""

from __future__ import annotations

from typing import Any

from leasehold import first_call
from leasehold.model.lease import Lease
from leasehold.model.profile import Verb

from .home import Home
from .teardown import platform_of


def record_stopped(home: Home, lease: Lease, by: str, verb_name: str = "", since_unix: float = 0.0) -> Verb | None:
    """Record a person's word that the meter stopped: a park goes on counting its disks, anything else is the end.

    since_unix: when it stopped, where the person saw that too; otherwise it counts until now.
    """
    first_call.forget(home.calls)
    name = verb_name or _last_asked(home, lease)
    verb = platform_of(home, lease).verb(name) if name else None
    if verb is not None and verb.kind == "park":
        said: dict[str, Any] = {"by": by, "verb": verb.name, "said": "the box is stopped"}
        if since_unix:
            said["since_unix"] = since_unix
        home.ledger.append("lease_parked", lease=lease.id, **said)
        return verb
    home.ledger.append("lease_closed", lease=lease.id, by=by, said="the meter is stopped")
    return None


def _last_asked(home: Home, lease: Lease) -> str:
    """The verb that was begun last; without any, none is assumed."""
    begun = [event for event in home.ledger.events(lease=lease.id) if event.kind in ("verb_asked", "intent_recorded")]
    return str(begun[-1].data["verb"]) if begun else ""
