"""The environment gate: will the launched interpreter find its framework, its GPU and its tracker? Pure.

The rules live in kit/tables/env_rules.py: after a set-up the box applies them without us.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasehold.kit.tables import env_rules
from leasehold.model.job.job import Job
from leasehold.model.run.verdict import Finding, Outcome, Verdict

_FRAMEWORKS = ("torch", "jax", "tensorflow", "numpy", "transformers", "lightning", "pytorch_lightning")
_AGAIN = "asked again on the box after `setup`, before the trainer starts"


def judge_environment(job: Job, wanted: tuple[str, ...], answer: dict[str, Any]) -> Verdict:
    """Check what the job's own interpreter reported about itself."""
    found = env_rules.judge_interpreter(job.gpu.count if job.gpu else 0, wanted, answer)
    return verdict_of(_before_setup(job, answer, found) if job.setup else found)


def judge_credentials(answers: Sequence[dict[str, Any]]) -> Verdict:
    """Check the trackers' answers about the job's keys; a tracker that could not be asked is unknown, not refused."""
    return verdict_of([_credential(answer) for answer in answers])


def verdict_of(findings: Any) -> Verdict:
    """Convert findings from the rules, applied at home or on a box (whose format is not trusted)."""
    listed = findings if isinstance(findings, list) else []
    return Verdict("env", tuple(_finding(one) for one in listed if isinstance(one, dict)))


def wanted_modules(imports: set[str]) -> tuple[str, ...]:
    """Return the frameworks worth asking for among the project's imports."""
    return tuple(name for name in _FRAMEWORKS if name in imports)


def _before_setup(job: Job, answer: dict[str, Any], found: list[env_rules.Finding]) -> list[env_rules.Finding]:
    """Relax findings before set-up, which may still add what is missing; what it will keep is judged as it is."""
    frameworks = answer.get("facts", {}).get("frameworks") or {}
    kept = "torch" in frameworks and job.setup_frameworks == "keep"
    mended = []
    for one in found:
        settled = one["outcome"] != env_rules.REFUSED or (kept and "cuda.is_available" in one["what"])
        mended.append(one if settled else env_rules.finding(env_rules.UNKNOWN, "before set-up: " + one["what"], _AGAIN))
    does = "will be kept by set-up" if job.setup_frameworks == "keep" else "may be replaced by set-up"
    for name, build in sorted(frameworks.items()):
        mended.append(env_rules.finding(env_rules.PASSED, f"{name} {env_rules.say_build(build)} {does}"))
    return mended


def _credential(answer: dict[str, Any]) -> env_rules.Finding:
    name, tracker = answer["secret"], answer["tracker"]
    where = f"it was taken from {name} in your environment; get a new one at {answer['page']}"
    if answer["outcome"] == env_rules.PASSED:
        return env_rules.finding(env_rules.PASSED, f"{name}: {answer['said']} ({tracker})")
    if answer["outcome"] == env_rules.REFUSED:
        return env_rules.finding(env_rules.REFUSED, f"{name}: {tracker} {answer['said']}", where)
    return env_rules.finding(
        env_rules.UNKNOWN, f"{name}: {answer['said']} ({tracker})", "the run may still log; look at its first lines"
    )


def _finding(one: dict[str, Any]) -> Finding:
    try:
        outcome = Outcome(one.get("outcome"))
    except ValueError:
        outcome = Outcome.UNKNOWN
    return Finding(outcome, str(one.get("what", "")), str(one.get("hint", "")))
