"""A box of the book: a name for a machine, and what first contact found out about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any

LOCAL = "local"
SSH = "ssh:"
K8S = "k8s:"  # a cluster, by a context of the kubeconfig
PERSON = "person"


class Flavour(Enum):
    """What a box's ssh server permits."""

    FULL = "full"
    NO_SFTP = "no-sftp"
    SHELL_ONLY = "shell-only"
    LOCAL = "local"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class BoxEntry:
    """One line of the box book."""

    name: str
    address: str  # ssh:[user@]host[:port], or local
    platform: str
    price: str = ""
    root: str = ""  # our folder there; empty is the box's default
    python: str = ""
    flavour: str = Flavour.UNKNOWN.value
    added_unix: float = 0.0
    fingerprint: str = ""
    identity: str = ""  # a private key's path at home, never its content
    balance: str = ""  # of its account, as last stated
    balance_unix: float = 0.0
    spot: bool = False  # rented as capacity that can be taken away
    durable: str = ""  # a folder on a disk that outlives the box, to which results are copied
    platform_by: str = ""  # "person": a person named the platform; empty: it was the default
    landlord: str = ""  # whose API rented it for us; its address is asked there at every connect
    holding: str = ""  # that landlord's id of it

    def as_dict(self) -> dict[str, Any]:
        """Return the form for --json and the ledger."""
        return asdict(self)


def box_from_dict(value: dict[str, Any]) -> BoxEntry:
    """Read back an entry that this home wrote itself."""
    known = {field.name for field in fields(BoxEntry)}
    return BoxEntry(**{key: item for key, item in value.items() if key in known})
