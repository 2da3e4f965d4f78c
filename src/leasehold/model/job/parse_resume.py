"""Read `resume:` of a job file: the flags that the command receives when there is a checkpoint to resume."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .keys import RESUME_WORDS
from .known_keys import Bad, refuse_unknown
from .latest_checkpoint import BadPattern, Latest
from .placeholders import BadPlaceholder, asks_to_resume, fill

_HINT = "for example  resume: {when: checkpoint-*, flags: '--resume_from_checkpoint {{latest}}'}"


def parse_resume(job: Mapping[str, Any], params: Collection[str], bad: Bad) -> Latest:
    """Check `resume:`, and that `run` contains {{resume}}; without it there is nothing to look for yet."""
    latest = Latest()
    if "resume" not in job:
        return latest
    value = job["resume"]
    if not isinstance(value, dict):
        raise bad("resume", f"must say when and flags, not {type(value).__name__}", _HINT)
    refuse_unknown(value, "resume", RESUME_WORDS, bad)
    for name in (word.name for word in RESUME_WORDS):
        if not isinstance(value.get(name), str) or not value[name].strip() or "\0" in value[name]:
            raise bad(f"resume.{name}", "must be a text", _HINT)
    if not asks_to_resume(str(job.get("run", ""))):
        raise bad("resume", "has no place in `run`", "write {{resume}} in `run` where the flags belong")
    try:
        latest.variable(value["when"])
        latest.resumes(fill(value["flags"], params, latest))
    except (BadPattern, BadPlaceholder) as error:
        key = "resume.flags" if latest.patterns else "resume.when"
        raise bad(key, str(error), getattr(error, "hint", _HINT)) from None
    return latest
