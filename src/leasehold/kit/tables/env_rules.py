"""The environment gate's rules, the same on both ends: at home before a launch, on the box after a set-up. Pure."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence

PASSED, REFUSED, UNKNOWN = "passed", "refused", "unknown"
Finding = Dict[str, str]  # outcome, what, hint
_MAX_TEXT = 700


def judge_interpreter(gpus: int, wanted: Sequence[str], answer: Dict[str, Any]) -> List[Finding]:
    """Judge what the job's own interpreter reported; `gpus` is how many cards the job asks for, or 0."""
    problem = str(answer.get("problem", ""))
    if problem and not answer.get("interpreter"):
        return [finding(PASSED, problem)]
    if problem:
        return [finding(REFUSED, problem, "name the interpreter by its full path in `run`")]
    facts = answer["facts"]
    found = [finding(PASSED, "%s is Python %s at %s" % (answer["interpreter"], facts["version"], facts["executable"]))]
    found += [_judge_module(name, facts["modules"].get(name, {})) for name in wanted]
    if gpus:
        found += _judge_cuda(facts, gpus)
    return found


def judge_own_copy(places: Dict[str, str], work: str) -> List[Finding]:
    """Judge where the project's own packages would be imported from; one not found may be provided by the script."""
    top, found = os.path.realpath(work) + os.sep, []
    for name, place in sorted(places.items()):
        if place and os.path.realpath(place).startswith(top):
            found.append(finding(PASSED, "%s is imported from this run's own copy" % name))
        elif place:
            text = "%s would be imported from %s, not from this run's own copy of the code" % (name, place)
            hint = 'write PYTHONPATH="$PWD:$PYTHONPATH" (with src/: "$PWD/src:…") before python in `run`'
            found.append(finding(REFUSED, text, hint))
    return found


def judge_frameworks(before: Dict[str, Any], after: Dict[str, Any], replace: bool, python: str) -> List[Finding]:
    """Judge whether set-up left the image's frameworks as they were: name -> {version, cuda, file}."""
    found = []
    same_torch = _build(after.get("torch") or {}) == _build(before.get("torch") or {})
    for name, was in sorted(before.items(), key=lambda item: (item[0] != "torch", item[0])):
        if not was.get("file") and not same_torch:
            continue  # packages that depend on torch change with it, and get no finding of their own
        now = after.get(name)
        text = "%s was %s and is %s after set-up" % (name, say_build(was), say_build(now))
        if now is not None and _build(now) == _build(was):
            found.append(finding(PASSED, "%s is still %s" % (name, say_build(was))))
        elif replace:
            found.append(finding(PASSED, text + " (setup_frameworks: replace)"))
        else:
            found.append(finding(REFUSED, text, _how_to_restore(name, was, python)))
    return found


def say_build(framework: Optional[Dict[str, Any]]) -> str:
    """Format a version with the CUDA it was built for."""
    if framework is None:
        return "gone"
    cuda = framework.get("cuda")
    return "%s%s" % (framework.get("version") or "of unknown version", " (CUDA %s)" % cuda if cuda else "")


def outcome_of(findings: Sequence[Finding]) -> str:
    """Refused beats unknown beats passed; nothing at all is unknown."""
    seen = {one["outcome"] for one in findings}
    for outcome in (REFUSED, UNKNOWN):
        if outcome in seen:
            return outcome
    return PASSED if seen else UNKNOWN


def finding(outcome: str, what: str, hint: str = "") -> Finding:
    """Build one finding: the outcome, what was seen, and a hint."""
    return {"outcome": outcome, "what": what[:_MAX_TEXT], "hint": hint[:_MAX_TEXT]}


def _build(framework: Dict[str, Any]) -> Any:
    return framework.get("version"), framework.get("cuda") or ""


def _how_to_restore(name: str, was: Dict[str, Any], python: str) -> str:
    version = str(was.get("version"))
    build = version.partition("+")[2]
    index = " --index-url https://download.pytorch.org/whl/%s" % build if build[:2] in ("cu", "ro") else ""
    return (
        "the image's build fits its driver. Take %s out of what `setup` installs, put it back on the box with "
        "`%s -m pip install --no-deps %s==%s%s`, and run again; or say `setup_frameworks: replace` in the job"
        % (name, python, name, version, index)
    )


def _judge_module(name: str, facts: Dict[str, Any]) -> Finding:
    if facts.get("ok"):
        return finding(PASSED, ("imports %s %s" % (name, facts.get("version", ""))).rstrip())
    hint = "put the install into `setup`, or name the interpreter that has %s" % name
    return finding(REFUSED, "cannot import %s: %s" % (name, facts.get("error", "not asked")), hint)


def _judge_cuda(facts: Dict[str, Any], count: int) -> List[Finding]:
    torch = facts.get("torch")
    if torch is None:
        return [finding(PASSED, "no torch, so its view of the card was not asked")]
    if not torch["cuda_available"]:
        build = torch["cuda_build"]
        why = "torch is built for CUDA %s" % build if build else "this torch is a CPU build"
        hint = "install a CUDA build, or mend the driver; do not train on the CPU"
        return [finding(REFUSED, "torch.cuda.is_available() is False (%s)" % why, hint)]
    cards = torch["devices"]
    text = "torch.cuda.is_available() is True, CUDA %s, %d devices" % (torch["cuda_build"], len(cards))
    found = [finding(PASSED, text)]
    found += [_judge_capability(card, torch.get("arch_list", [])) for card in cards]
    if len(cards) < count:
        seen = "torch sees %d devices, and the job asks for %d" % (len(cards), count)
        found.append(finding(REFUSED, seen, "is CUDA_VISIBLE_DEVICES set, here or on the box?"))
    return found


def _judge_capability(card: Dict[str, Any], arch: List[str]) -> Finding:
    major, minor = card["capability"]
    wanted = "sm_%d%d" % (major, minor)
    text = "%s is %s; torch has %s" % (card["name"], wanted, ", ".join(arch) or "no list")
    if wanted in arch or any(_same_major(name, major, minor) for name in arch):
        return finding(PASSED, text)
    return finding(REFUSED, text, "this torch has no code for this card: install a newer build")


def _same_major(name: str, major: int, minor: int) -> bool:
    """Return whether a card runs code built for `name`: a binary of its major and no later minor, or earlier PTX.

    A trailing `a` binds either to exactly that card, a trailing `f` to its family (the same major).
    """
    kind, _, digits = name.partition("_")
    number = digits.rstrip("af")
    if not number.isdigit():
        return False
    have_major, have_minor = int(number[:-1] or 0), int(number[-1])
    if digits.endswith("a"):
        return (have_major, have_minor) == (major, minor)
    if kind == "compute" and not digits.endswith("f"):
        return (have_major, have_minor) <= (major, minor)
    return have_major == major and have_minor <= minor
