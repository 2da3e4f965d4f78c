"""The smoke gate and the launch probe. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from leasehold.model.verdict import Verdict, judge, passes, refuses, unknown

_RANK = r"^(?:\[[^\]\n]{0,40}\]:?)?[ \t|+]*"  # torchrun writes "[rank0]: " before each line, groups write "  | "
_TRACEBACK = re.compile(_RANK + r"(?:Exception Group )?Traceback \(most recent call last\):", re.MULTILINE)
_RAISED = re.compile(_RANK + r"((?:\w+\.)*\w*(?:Error|Exception|Interrupt)(?::.*)?)$", re.MULTILINE)


@dataclass(frozen=True)
class SmokeReadings:
    """What the smoke did on this machine."""

    command: str
    code: int
    output: str
    loss: float | None = None
    missing: tuple[str, ...] = ()
    unloadable: tuple[str, ...] = ()
    loaded: int = 0
    continued: bool | None = None  # None: the kill-and-continue check was not asked for
    timed_out: bool = False
    notes: tuple[str, ...] = field(default_factory=tuple)


def judge_smoke(readings: SmokeReadings) -> Verdict:
    """Exit 0, no traceback, finite loss when seen, and the promised artifacts, loading."""
    findings = [
        judge(
            readings.code == 0,
            f"`{readings.command}` exited with {readings.code}",
            "mend it here, where it costs nothing",
        ),
        judge(not _TRACEBACK.search(readings.output), _traceback_text(readings.output)),
    ]
    if readings.timed_out:
        findings.append(refuses("the smoke did not end in time", "a smoke is two or three steps: make it smaller"))
    if readings.loss is not None:
        text = f"loss seen: {readings.loss:g}"
        findings.append(judge(math.isfinite(readings.loss), text, "a loss that is not finite never gets better"))
    if readings.code == 0:
        findings += [
            refuses(f"{path}: promised, and the smoke did not write it", _WRITE_HINT) for path in readings.missing
        ]
        findings += [refuses(f"{text}") for text in readings.unloadable]
        if readings.loaded:
            findings.append(passes(f"{readings.loaded} artifacts of the smoke load as promised"))
    if readings.continued is not None:
        text = "killed halfway and started again, it continued and finished"
        findings.append(
            judge(readings.continued, text if readings.continued else "killed and started again, it did not finish")
        )
    return Verdict("smoke", tuple(findings))


def judge_launch(alive: bool, first_line: bool, log: str, waited_s: float, before: str = "") -> Verdict:
    """Alive, a first line, no traceback; `before` says what comes first and may take hours."""
    silent = unknown(f"no output yet after {waited_s:.0f} s", "unbuffered output? A slow start?")
    if before:
        silent = unknown(before)
    return Verdict(
        "launch",
        (
            judge(alive, "the trainer lives" if alive else "the trainer is gone", "lease logs shows its last words"),
            passes("its first line came") if first_line else silent,
            judge(not _TRACEBACK.search(log), _traceback_text(log)),
        ),
    )


_WRITE_HINT = "write it into the folder that $LEASE_OUT names"


def _traceback_text(output: str) -> str:
    if not _TRACEBACK.search(output):
        return "no traceback"
    errors = _RAISED.findall(output)
    return f"a traceback: {errors[-1].strip()[:200]}" if errors else "a traceback"
