"""A gate's verdict, and its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from leasehold.kit.events.gate_lines import gate_line

__all__ = ["Finding", "Outcome", "Verdict", "gate_line", "judge", "passes", "refuses", "unknown", "warns"]

_SPELLED = 12  # objections of one error: a sweep may have thousands


class Outcome(Enum):
    """Passed, refused, or unknown; unknown never counts as passed."""

    PASSED = "passed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One reading and why it matters."""

    outcome: Outcome
    what: str
    hint: str = ""


def passes(what: str) -> Finding:
    """Return a finding for a reading that is as it should be."""
    return Finding(Outcome.PASSED, what)


def warns(what: str, hint: str) -> Finding:
    """Return a finding that does not block but must be shown: the only passed finding with a hint."""
    return Finding(Outcome.PASSED, what, hint)


def refuses(what: str, hint: str = "") -> Finding:
    """Return a finding that blocks, and what to do about it."""
    return Finding(Outcome.REFUSED, what, hint)


def unknown(what: str, hint: str = "") -> Finding:
    """Return a finding for a reading that could not be taken; never as good as passed."""
    return Finding(Outcome.UNKNOWN, what, hint)


def judge(holds: bool, what: str, hint: str = "", *, otherwise: str = "") -> Finding:
    """Return a passed finding if it holds; else a refused one, with the text of otherwise."""
    return passes(what) if holds else refuses(otherwise or what, hint)


@dataclass(frozen=True)
class Verdict:
    """A gate's answer with every finding it rests on."""

    gate: str
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> Outcome:
        """Return the outcome: refused beats unknown beats passed; no finding at all is unknown."""
        seen = {finding.outcome for finding in self.findings}
        for outcome in (Outcome.REFUSED, Outcome.UNKNOWN):
            if outcome in seen:
                return outcome
        return Outcome.PASSED if seen else Outcome.UNKNOWN

    @property
    def passed(self) -> bool:
        """Return whether the gate is open."""
        return self.outcome is Outcome.PASSED

    def against(self) -> tuple[Finding, ...]:
        """Return the findings that block."""
        return tuple(finding for finding in self.findings if finding.outcome is not Outcome.PASSED)

    def warnings(self) -> tuple[Finding, ...]:
        """Return the findings that pass but must be shown."""
        return tuple(finding for finding in self.findings if finding.outcome is Outcome.PASSED and finding.hint)

    def objections(self, more: str) -> tuple[str, str]:
        """Format an error's seen and hint: one finding and its hint, or each with its hint below it and then more."""
        against = self.against()
        if len(against) == 1:
            return against[0].what, against[0].hint or more
        lines = [f.what + (f"\n  -> {f.hint}" if f.hint else "") for f in against[:_SPELLED]]
        lines += [f"… and {len(against) - _SPELLED:,} more"] if len(against) > _SPELLED else []
        return "\n".join(lines), more

    def as_dict(self) -> dict[str, object]:
        """Return the form for --json and the ledger."""
        return {
            "gate": self.gate,
            "outcome": self.outcome.value,
            "findings": [{"outcome": f.outcome.value, "what": f.what, "hint": f.hint} for f in self.findings],
        }
