"""The doctor's result: findings with their evidence, and whether the same run may be started again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leasehold.kit.failure.evidence import Evidence
from leasehold.kit.failure.remedies import leaving

# class -> (may the same thing be started again as it is, what to do); docs/doctor.md has the table
ACTIONS: dict[str, tuple[bool | None, str]] = {
    "probabilistic": (True, "start the identical run again"),
    "disk-full": (False, "free space first, then start the same run"),
    "bug": (False, "stop: it will fail the same way until something is changed"),
    "hardware": (False, leaving()),
    "transport": (None, "the run's state is unknown: look over a new connection first"),
    "clock": (True, "resume from the newest checkpoint"),
    "advice": (None, "nothing to retry"),
}


@dataclass(frozen=True)
class Finding:
    """One failure mode that the evidence shows."""

    id: str
    title: str
    klass: str
    severity: str
    cause: str
    fix: str
    source: str
    evidence: tuple[Evidence, ...]
    confidence: str = "certain"  # certain, likely
    commands: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()  # broader entries that the same evidence shows
    note: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def retry(self) -> bool | None:
        """Return whether the same run may be started again as it is; None if unknown."""
        return ACTIONS[self.klass][0]

    @property
    def action(self) -> str:
        """Return what to do, in a few words."""
        return ACTIONS[self.klass][1]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form for --json."""
        value: dict[str, Any] = {
            "id": self.id,
            "title": self.title,
            "class": self.klass,
            "severity": self.severity,
            "retry": self.retry,
            "action": self.action,
            "confidence": self.confidence,
            "evidence": [item.as_dict() for item in self.evidence],
            "cause": self.cause,
            "fix": self.fix,
            "commands": list(self.commands),
            "source": self.source,
        }
        for key, extra in (("instead_of", list(self.instead_of)), ("note", self.note), ("numbers", self.numbers)):
            if extra:
                value[key] = extra
        return value


@dataclass(frozen=True)
class Diagnosis:
    """All findings, most significant first, and notices beside them."""

    findings: tuple[Finding, ...]
    notices: tuple[Finding, ...] = ()
    read: tuple[dict[str, Any], ...] = ()  # the logs that were read: name, lines, bytes
    done: tuple[str, ...] = ()  # what the box's caretaker saw and did by itself
    home_copy: str = ""  # the date of the data, if it came home earlier and was not read on the box

    @property
    def retry(self) -> bool | None:
        """Return whether the run may be started again, by the first finding; unknown without one."""
        return self.findings[0].retry if self.findings else None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form for --json."""
        return {
            "findings": [finding.as_dict() for finding in self.findings],
            "notices": [finding.as_dict() for finding in self.notices],
            "retry": self.retry,
            "read": list(self.read),
            **({"done": list(self.done)} if self.done else {}),
            **({"home_copy": self.home_copy} if self.home_copy else {}),
        }
