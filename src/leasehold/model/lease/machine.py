"""Tell machines apart: a name does not suffice, and no single reading does either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any


class Same(Enum):
    """Whether two readings are of one machine."""

    YES = "same"
    NO = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Machine:
    """The identifying facts of a machine at one moment; empty is not known."""

    host_key: str = ""
    machine_id: str = ""
    boot: str = ""
    processes: str = ""  # its process table: containers of one host share the boot and differ in this
    slash: str = ""  # device and inode of its root folder
    box_id: str = ""  # of our folder there
    root: str = ""  # that folder, as the machine resolves it
    host: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the form for the ledger."""
        return asdict(self)


def machine_from_dict(value: Mapping[str, Any]) -> Machine:
    """Read back the output of `as_dict`."""
    return Machine(**{field.name: str(value.get(field.name, "")) for field in fields(Machine)})


def machine_read(said: Mapping[str, Any], host_key: str = "") -> Machine:
    """Read the box's report of itself, with the host key under which it was met."""
    slash = said.get("slash") or ()
    return Machine(
        host_key=host_key.split()[0] if host_key else "",
        machine_id=_text(said.get("machine_id")),
        boot=_text(said.get("boot")),
        processes=_text(said.get("processes")),
        slash=":".join(str(part) for part in slash)[:64],
        box_id=_text(said.get("box_id")),
        root=str(said.get("real_root", "")),
        host=_text(said.get("host")),
    )


def one_system(one: Machine, other: Machine) -> bool:
    """Return whether both are the same running system: one boot, one process table, one root folder."""
    return all(
        mine and mine == theirs
        for mine, theirs in ((one.boot, other.boot), (one.processes, other.processes), (one.slash, other.slash))
    )


def compare(one: Machine, other: Machine) -> Same:
    """Decide whether two readings are of one machine.

    Rental images carry host keys and machine ids, and containers of one host share its boot id: none of these proves
    anything alone. Only a system that both readings saw running, with one host key, is one machine.
    """
    key = bool(one.host_key) and one.host_key == other.host_key
    if one.boot and other.boot and one.boot != other.boot:
        clone_or_reboot = key and one.machine_id == other.machine_id
        return Same.UNKNOWN if clone_or_reboot else Same.NO
    if one.processes and other.processes and one.processes != other.processes:
        return Same.NO
    if one_system(one, other) and one.machine_id == other.machine_id:
        one_folder = bool(one.box_id) and (one.box_id, one.root) == (other.box_id, other.root)
        return Same.YES if key or one_folder else Same.UNKNOWN
    return Same.UNKNOWN


def _text(value: Any) -> str:
    return str(value or "")[:200]
