"""How a restarted run continues: the checkpoint to give it, and the flag."""

from __future__ import annotations

import re
from dataclasses import dataclass

from leasehold.lifecycle.init.options.flag_roles import rank_of
from leasehold.lifecycle.init.options.tiny import mentions
from leasehold.lifecycle.init.saves.promises import resume_point
from leasehold.lifecycle.init.text.project_facts import Flag, Kind, Output, ProjectFacts, Role, Style, Where

_FOLDER = re.compile(r"(?P<folder>(?:[^*/]+/)*[^/*]*\*)/(?:\*\*|[^/]+)\Z")
_ENDED = re.compile(r"\.(?:pt|pth|ckpt|bin|tar|safetensors|npz|pkl|pickle|json|keras)\Z")
_MAYBE_OTHER_WEIGHTS = ("init_from", "load_from")
_HUGGING_FACE = "resume_from_checkpoint"


@dataclass(frozen=True)
class Resume:
    """The value of `resume:`, and its origin."""

    when: str
    flags: str
    where: Where
    saved: Output


def find_resume(facts: ProjectFacts, artifacts: list[Output], command: str) -> Resume | None:
    """Choose the pattern and the flags; None when either is unclear, or the code finds its checkpoint itself."""
    found = state_of(artifacts)
    if found is None or not _ENDED.search(found[0]) and found[0] == found[1].pattern:
        return None
    chosen = _flags(facts, command)
    itself = any(not sign.note for sign in facts.resumes)
    if chosen is None or (itself and chosen[0].attribute != _HUGGING_FACE):
        return None
    return Resume(found[0], chosen[1], chosen[0].where, found[1])


def state_of(artifacts: list[Output]) -> tuple[str, Output] | None:
    """Return the pattern of what a restarted run would load, and its artifact."""
    for output in artifacts:
        folder = _FOLDER.match(output.pattern) if output.call in ("Trainer", "save_state()") else None
        if folder:
            return folder["folder"], output
    for output in artifacts:
        if output.pattern.endswith(".ckpt") and output.opaque and output.kind is Kind.CHECKPOINT:
            return output.pattern, output
    point = resume_point(artifacts)
    return (point.pattern, point) if point is not None else None


def _flags(facts: ProjectFacts, command: str) -> tuple[Flag, str] | None:
    words = {sign.word.lower(): sign.note for sign in facts.resume_words}
    read = {sign.word for sign in facts.resume_reads}
    fitting = [
        flag
        for flag in facts.flags
        if flag.role is Role.RESUME and flag.style is not Style.POSITION and not mentions(command, flag)
    ]
    for flag in sorted(fitting, key=rank_of):
        if flag.attribute == _HUGGING_FACE and _HUGGING_FACE not in read:
            continue  # the framework's arguments have it, but this code passes something else
        if flag.style is Style.SWITCH:
            return flag, flag.name
        if flag.attribute in words:
            return flag, flag.spelled(words[flag.attribute])
        if flag.attribute in _MAYBE_OTHER_WEIGHTS or flag.default not in ("", "None", "null"):
            continue  # an unknown word, or the weights of another model
        if flag.style is Style.OVERRIDE:  # Hydra's grammar takes a path that contains = only in quotes
            return flag, f"\"{flag.name}='{{{{latest}}}}'\""
        return flag, flag.spelled("{{latest}}")
    return None
