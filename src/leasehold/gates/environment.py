"""The environment gate: will the interpreter that gets launched find its framework and its card? Pure."""

from __future__ import annotations

from typing import Any

from leasehold.model.job import Job
from leasehold.model.verdict import Finding, Outcome, Verdict

_FRAMEWORKS = ("torch", "jax", "tensorflow", "numpy", "transformers", "lightning", "pytorch_lightning")


def judge_environment(job: Job, wanted: tuple[str, ...], answer: dict[str, Any]) -> Verdict:
    """Check what the job's own interpreter said of itself."""
    problem = str(answer.get("problem", ""))
    if problem and not answer.get("interpreter"):
        return Verdict("env", (Finding(Outcome.PASSED, problem),))
    if problem:
        return Verdict("env", (_no(problem, "name the interpreter by its full path in `run`"),))
    facts = answer["facts"]
    findings = [_yes(f"{answer['interpreter']} is Python {facts['version']} at {facts['executable']}")]
    for name in wanted:
        findings.append(_judge_module(name, facts["modules"].get(name, {})))
    if job.gpu is not None:
        findings += _judge_cuda(facts, job.gpu.count)
    return Verdict("env", tuple(findings))


def wanted_modules(imports: set[str]) -> tuple[str, ...]:
    """Of what the project imports, the frameworks worth asking for."""
    return tuple(name for name in _FRAMEWORKS if name in imports)


def _judge_module(name: str, facts: dict[str, Any]) -> Finding:
    if facts.get("ok"):
        return _yes(f"imports {name} {facts.get('version', '')}".rstrip())
    hint = f"put the install into `setup`, or name the interpreter that has {name}"
    return _no(f"cannot import {name}: {facts.get('error', 'not asked')}", hint)


def _judge_cuda(facts: dict[str, Any], count: int) -> list[Finding]:
    torch = facts.get("torch")
    if torch is None:
        return [_yes("no torch, so its view of the card was not asked")]
    if not torch["cuda_available"]:
        build = torch["cuda_build"]
        why = f"torch is built for CUDA {build}" if build else "this torch is a CPU build"
        return [
            _no(
                f"torch.cuda.is_available() is False ({why})",
                "install a CUDA build, or mend the driver; do not train on the CPU",
            )
        ]
    findings = [_yes(f"torch.cuda.is_available() is True, CUDA {torch['cuda_build']}, {len(torch['devices'])} devices")]
    arch = torch.get("arch_list", [])
    for device in torch["devices"]:
        findings.append(_judge_capability(device, arch))
    if len(torch["devices"]) < count:
        seen = f"torch sees {len(torch['devices'])} devices, and the job asks for {count}"
        findings.append(_no(seen, "is CUDA_VISIBLE_DEVICES set, here or on the box?"))
    return findings


def _judge_capability(device: dict[str, Any], arch: list[str]) -> Finding:
    major, minor = device["capability"]
    wanted = f"sm_{major}{minor}"
    runs = wanted in arch or any(_same_major(name, major, minor) for name in arch)
    text = f"{device['name']} is {wanted}; torch has {', '.join(arch) or 'no list'}"
    return _yes(text) if runs else _no(text, "this torch has no code for this card: install a newer build")


def _same_major(name: str, major: int, minor: int) -> bool:
    """Binary code runs on the same major at an equal or later minor, PTX on any later card.

    A trailing `a` binds either to exactly that card, a trailing `f` to its family (the same major).
    """
    kind, _, digits = name.partition("_")
    number = digits.rstrip("af")
    if not number.isdigit():
        return False
    have_major, have_minor = int(number[:-1]), int(number[-1])
    if digits.endswith("a"):
        return (have_major, have_minor) == (major, minor)
    if kind == "compute" and not digits.endswith("f"):
        return (have_major, have_minor) <= (major, minor)
    return have_major == major and have_minor <= minor


def _yes(what: str) -> Finding:
    return Finding(Outcome.PASSED, what)


def _no(what: str, hint: str = "") -> Finding:
    return Finding(Outcome.REFUSED, what, hint)
