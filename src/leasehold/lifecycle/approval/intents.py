"""An approved act that was begun: how long its approval lasts, and how it is reported afterwards.

An intent lives as long as the approval that it consumed. After that, or with a clock that was set back, the act needs
a new approval.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leasehold.kit.text.units import utc_minute
from leasehold.ledger import books
from leasehold.model.run.receipt import APPROVAL_LIFE_S

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import Lease

_ANSWERS = ("lease_parked", "lease_resumed", "lease_reopened")  # invalidates an earlier request to a person


def still_approved(intent: Mapping[str, Any], now_unix: float) -> bool:
    """Return whether the act may go on without another approval."""
    granted = float(intent["granted_unix"])
    expires = float(intent.get("expires_unix") or granted + APPROVAL_LIFE_S)
    return granted <= now_unix <= min(expires, granted + APPROVAL_LIFE_S)


def approved_words(intent: Mapping[str, Any], lease: str) -> str:
    """Describe who approved what, and when."""
    by = intent.get("by") or "somebody"
    return f"`{intent['verb']}` on {lease} was approved by {by} on {utc_minute(float(intent['granted_unix']))}"


def asked_before(home: Home, lease: Lease) -> str:
    """Return when a person was last asked to stop this box by hand without confirming it; empty if nobody was."""
    if books.latest_of(home.ledger, lease.id, "verb_asked", *_ANSWERS) != "verb_asked":
        return ""
    *_, asked = home.ledger.events(lease=lease.id, kind="verb_asked")
    known = f"the steps of `{asked.data['verb']}` for {lease.box} were printed on {utc_minute(asked.t)}"
    return f"{known}; if it is off since: lease down {lease.id} --stopped"
