"""What a checkpoint must hold for a resume that changes nothing. Pure: names in, a verdict out."""

from __future__ import annotations

import re

from leasehold.model.verdict import Finding, Verdict, judge, passes, refuses, unknown

# What a full resume needs; by which names it goes in the wild; and whether every training has one.
_NEEDS = (
    ("model weights", r"(ema_)?model|model_state(_dict)?|state_dict|net(work)?|weights|params|module|state", True),
    ("optimizer", r"optim(izer)?s?(_states?)?(_state_dict)?|opt(_state)?|optimizer_states|state", True),
    ("step or epoch", r"(global_)?steps?|epochs?|iter(ation)?s?(_num)?|n_iter|num_updates|loops|trainer_state", True),
    ("learning-rate schedule", r"(lr_)?sched(uler)?s?(_states?)?(_state_dict)?|lr_schedulers", False),
    ("random states", r"rng.*|.*rng_states?|random.*|.*_rng", True),
    ("place in the data", r"(batch_)?sampler.*|(data)?_?loader.*|datamodule.*", True),
    ("gradient scaler", r"(grad_)?scaler.*|amp.*", False),
    ("moving average (EMA, SWA)", r".*ema.*|.*swa.*|averag.*", False),
    ("best so far", r"best.*", False),
)


def judge_checkpoint(kind: str, keys: tuple[str, ...], opaque: tuple[str, ...], notes: tuple[str, ...]) -> Verdict:
    """Say what is there, what a full resume would miss, whether its numbers are finite and whether it loads safely."""
    # These formats are made for weights alone: their names are those of tensors.
    bare = kind in ("safetensors", "hf")
    findings = [passes("model weights: all tensors")] if bare else []
    findings += [_judge_need(name, pattern, always, keys) for name, pattern, always in _NEEDS[bare:]]
    bad = [note for note in notes if note.startswith("NOT FINITE")]
    looked = [note for note in notes if note.startswith("finite: all")]
    if bad:
        findings.append(refuses(bad[0], "a resume goes on from broken numbers; take an older checkpoint"))
    else:
        findings.append(passes(looked[0]) if looked else unknown("whether its numbers are finite was not looked at"))
    findings.append(
        judge(
            not opaque,
            "loads without running code: plain data only",
            "save plain data (state_dicts, numbers, text)",
            otherwise=f"needs code to load: {', '.join(opaque[:5])}",
        )
    )
    return Verdict("checkpoint", tuple(findings))


def _judge_need(name: str, pattern: str, always: bool, keys: tuple[str, ...]) -> Finding:
    found = [key for key in keys if re.fullmatch(pattern, key.lower())]
    if found:
        return passes(f"{name}: {', '.join(found[:6])}")
    if always:
        return refuses(f"no {name}: a resume would begin without it")
    return unknown(f"no {name}; nothing is missed if the training has none")
