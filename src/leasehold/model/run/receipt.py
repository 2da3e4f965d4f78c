"""Proof and permission: receipts, waivers, approvals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from leasehold.kit.files.canonical_json import digest
from leasehold.kit.files.file_layouts import require
from leasehold.model.values.wording import utc_minute

RECEIPT_SCHEMA = "leasehold.receipt/1"
APPROVAL_SCHEMA = "leasehold.approval/1"
APPROVAL_LIFE_S = 15 * 60


@dataclass(frozen=True)
class Receipt:
    """Proof that these cells of a run are home, equal to the box's manifest, and load."""

    run: str
    plan_sha256: str
    manifest_sha256: str
    cells: tuple[str, ...]
    files: int
    bytes: int
    loads: tuple[dict[str, Any], ...]
    opaque: tuple[str, ...]
    confinement: tuple[str, ...]
    verified_unix: int
    nonfinite: tuple[dict[str, Any], ...] = ()  # files that hold NaN or infinity: path, nan, inf, where, more
    published: Mapping[str, Any] = field(default_factory=dict)  # {to, files, bytes, equal}, or {to, problem}
    home_names: Mapping[str, str] = field(default_factory=dict)  # of files with another name here: cell/path, both
    stays: Mapping[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)  # of a run that moved: box, attempts

    def as_dict(self) -> dict[str, Any]:
        """Return the stored form; without such files it is the form from before that check existed."""
        held: dict[str, Any] = {"nonfinite": list(self.nonfinite)} if self.nonfinite else {}
        if self.published:
            held["published"] = dict(self.published)
        if self.home_names:
            held["home_names"] = dict(self.home_names)
        if self.stays:
            held["stays"] = {cell: list(stays) for cell, stays in self.stays.items()}
        return {
            "schema": RECEIPT_SCHEMA,
            "run": self.run,
            "plan_sha256": self.plan_sha256,
            "manifest_sha256": self.manifest_sha256,
            "cells": list(self.cells),
            "files": self.files,
            "bytes": self.bytes,
            "loads": list(self.loads),
            "opaque": list(self.opaque),
            "confinement": list(self.confinement),
            "verified_unix": self.verified_unix,
            **held,
        }

    @property
    def digest(self) -> str:
        """Return the hash of the stored form."""
        return digest(self.as_dict())


def receipt_from_dict(value: dict[str, Any]) -> Receipt:
    """Read back a stored receipt; KeyError or ValueError if it is not one."""
    if "schema" not in value:
        raise ValueError("not a receipt: it names no schema")
    require(value, RECEIPT_SCHEMA, "the receipt")
    return Receipt(
        run=value["run"],
        plan_sha256=value["plan_sha256"],
        manifest_sha256=value["manifest_sha256"],
        cells=tuple(value["cells"]),
        files=value["files"],
        bytes=value["bytes"],
        loads=tuple(value["loads"]),
        opaque=tuple(value["opaque"]),
        confinement=tuple(value["confinement"]),
        verified_unix=value["verified_unix"],
        nonfinite=tuple(value.get("nonfinite", ())),
        published=dict(value.get("published", {})),
        home_names={str(path): str(name) for path, name in value.get("home_names", {}).items()},
        stays={str(cell): tuple(stays) for cell, stays in value.get("stays", {}).items()},
    )


class Strength(Enum):
    """How a person gave approval."""

    TYPED = "typed"
    SIGNED = "signed"
    REHEARSAL = "rehearsal"
    STANDING = "standing"  # given in advance; covers a reversible park after receipts, nothing else


@dataclass(frozen=True)
class ApprovalRequest:
    """Exactly what a person is asked to approve."""

    verb: str
    lease: str
    evidence: str  # digest over receipts and waivers
    nonce: str
    expires_unix: int

    def as_dict(self) -> dict[str, Any]:
        """Return the form that is signed."""
        return {
            "schema": APPROVAL_SCHEMA,
            "verb": self.verb,
            "lease": self.lease,
            "evidence": self.evidence,
            "nonce": self.nonce,
            "expires_unix": self.expires_unix,
        }


@dataclass(frozen=True)
class SigningKey:
    """The key behind a signed approval, and what a security key reported about its user."""

    kind: str
    fingerprint: str
    flags: int | None = None  # as signed: 0x01 touched, 0x04 PIN or fingerprint checked; None: not a security key
    since_unix: float = 0.0  # when a person allowed it here

    def as_dict(self) -> dict[str, Any]:
        """Return the stored form."""
        flags = {} if self.flags is None else {"flags": self.flags}
        since = {"since_unix": self.since_unix} if self.since_unix else {}
        return {"kind": self.kind, "fingerprint": self.fingerprint, **flags, **since}

    @property
    def words(self) -> str:
        """Describe the key for people."""
        since = f", allowed since {utc_minute(self.since_unix)}" if self.since_unix else ""
        if self.flags is None:
            return f"{self.kind} key {self.fingerprint}{since}"
        checked = ", PIN or fingerprint checked" if self.flags & 0x04 else ""
        return f"{self.kind} key {self.fingerprint} (touched{checked}; flags 0x{self.flags:02x}){since}"


@dataclass(frozen=True)
class Approval:
    """A person's approval of one verb on one lease, based on one set of evidence."""

    request: ApprovalRequest
    strength: Strength
    by: str
    granted_unix: float
    key: SigningKey | None = None  # if it is signed
