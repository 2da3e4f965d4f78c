"""What a checkpoint must hold for an exact resume. Pure: names in, a verdict out."""

from __future__ import annotations

import re

from leasehold.model.run.verdict import Finding, Verdict, passes, refuses, unknown

# What a full resume needs, the names in common use, and whether every training has one.
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


_PARAMETER = re.compile(r"(.*\.)?(weight|bias|running_mean|running_var|num_batches_tracked)(_[a-z0-9]+)?")


def judge_checkpoint(
    kind: str, keys: tuple[str, ...], opaque: tuple[str, ...], notes: tuple[str, ...], torch_said: str = ""
) -> Verdict:
    """Report what is there, what a full resume would miss, whether numbers are finite and whether it loads safely."""
    # These formats hold weights only: their names are those of tensors.
    bare = kind in ("safetensors", "hf", "npy", "npz")
    findings = [passes("model weights: all tensors")] if bare else []
    named = [key for key in keys if _PARAMETER.fullmatch(key)]
    if not bare and len(named) * 2 > len(keys):  # the output of model.state_dict(), saved as it is
        findings, bare = [passes(f"model weights: tensors by their names, such as {named[0]}")], True
    findings += [_judge_need(name, pattern, always, keys) for name, pattern, always in _NEEDS[bare:]]
    bad = [note for note in notes if note.startswith("NOT FINITE")]
    looked = [note for note in notes if note.startswith("finite: all")]
    if bad:
        findings.append(refuses(bad[0], "a resume goes on from broken numbers; take an older checkpoint"))
    else:
        findings.append(passes(looked[0]) if looked else unknown("whether its numbers are finite was not looked at"))
    beside = [note for note in notes if note.startswith("not looked at, beside the weights: ")]
    findings.append(_judge_loading(opaque, torch_said, beside))
    return Verdict("checkpoint", tuple(findings))


def _judge_loading(opaque: tuple[str, ...], torch_said: str, beside: list[str]) -> Finding:
    """Judge whether it loads without running code, unless torch itself reports otherwise."""
    if opaque:
        named = f"needs code to load: {', '.join(opaque[:5])}"
        return refuses(named, "save plain data (state_dicts, numbers, text)")
    if torch_said.startswith("refused"):
        return unknown("plain data only, but torch.load(weights_only=True) refuses it: see its message")
    if beside:
        return unknown(f"its weights load without running code; {beside[0]}")
    return passes("loads without running code: plain data only")


def _judge_need(name: str, pattern: str, always: bool, keys: tuple[str, ...]) -> Finding:
    found = [key for key in keys if re.fullmatch(pattern, key.lower())]
    if found:
        return passes(f"{name}: {', '.join(found[:6])}")
    if always:
        return refuses(f"no {name}: a resume would begin without it")
    return unknown(f"no {name}; nothing is missed if the training has none")
