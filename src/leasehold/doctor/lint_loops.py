"""Rules about the training loop: randomness, order of steps, losses, modes, memory, saving and resuming."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .lint_source import (
    Function,
    Mark,
    Module,
    Rule,
    assigned,
    calls_in,
    constant,
    dotted,
    keyword,
    last,
    names_in,
    own,
    own_calls,
    receiver,
)

_EVALUATES = re.compile(r"(?:^|_)(?:eval|evaluate|evaluation|validate|validation|val|test)(?:_|$)", re.IGNORECASE)
_MOVING_NAME = re.compile(r"epoch|step|iter|idx|\bi\b|\bn\b|time|date|uuid|hash")
_STATE = re.compile(r"ckpt|checkpoint|state_dict", re.IGNORECASE)
_RNG_MAKERS = {"default_rng", "RandomState", "Generator"}


def worker_rng(module: Module, modules: list[Module]) -> Iterator[Mark]:
    """DP1: a dataset whose workers all draw the same numbers."""
    fix = "seed from torch.initial_seed() % 2**32 in worker_init_fn, or make the generator inside the worker"
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ClassDef):
            continue
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        getitem = methods.get("__getitem__") or methods.get("__iter__")
        if getitem is None or "__init__" not in methods:
            continue
        made = _generators(methods["__init__"])
        for name in made & {dotted(child) for child in ast.walk(getitem) if isinstance(child, ast.Attribute)}:
            what = f"{name} is made once in __init__ and copied into every worker: they all draw the same numbers"
            yield Mark(getitem.lineno, "worker-rng", "DP1", what, fix)
    for call in module.calls:
        init = keyword(call, "worker_init_fn") if last(call.func) == "DataLoader" else None
        if init is not None and _constant_seed(init, modules):
            yield Mark(call.lineno, "worker-rng", "DP1", "worker_init_fn gives every worker the same seed", fix)


def scaler_order(module: Module, modules: list[Module]) -> Iterator[Mark]:
    """P7: gradients clipped while they still carry the loss scale."""
    for scope in module.scopes:
        calls = own_calls(scope)
        scaled = any(last(call.func) == "scale" and "scaler" in receiver(call).lower() for call in calls)
        clips = [call for call in calls if last(call.func) in ("clip_grad_norm_", "clip_grad_value_")]
        unscaled = [call.lineno for call in calls if last(call.func) == "unscale_"]
        for clip in clips if scaled else ():
            if not any(line <= clip.lineno for line in unscaled):
                what = "gradients are clipped before scaler.unscale_(optimizer): the threshold meets scaled values"
                yield Mark(clip.lineno, "scaler-order", "P7", what, "call scaler.unscale_(optimizer) before clipping")


def softmax_then_cross_entropy(module: Module, modules: list[Module]) -> Iterator[Mark]:
    """O12: cross entropy on probabilities."""
    fix = "pass raw logits to the loss; apply softmax only for reading predictions"
    what = "softmax before cross entropy, which applies it again"
    criteria = {
        name for scope in module.scopes for name, value in assigned(scope).items() if _makes(value, "CrossEntropyLoss")
    }
    criteria |= {f"self.{name}" for name in _self_made(module, "CrossEntropyLoss")} | {"F.cross_entropy"}
    for scope in module.scopes:
        known = assigned(scope)
        for call in own_calls(scope):
            takes = dotted(call.func) in criteria or last(call.func) == "cross_entropy"
            first = call.args[0] if call.args else keyword(call, "input")
            given = known.get(first.id) if isinstance(first, ast.Name) else first
            if takes and given is not None and _is_softmax(given):
                yield Mark(call.lineno, "softmax-cross-entropy", "O12", what, fix)
    uses = any(
        _makes(call, "CrossEntropyLoss") or last(call.func) == "cross_entropy" for one in modules for call in one.calls
    )
    for function in module.functions:
        if function.name == "forward" and uses and _learns(modules):
            for node in own(function):
                if isinstance(node, ast.Return) and node.value is not None and _is_softmax(node.value):
                    yield Mark(node.lineno, "softmax-cross-entropy", "O12", "forward returns " + what, fix)


def missing_eval(module: Module, modules: list[Module]) -> Iterator[Mark]:
    """O5: a model evaluated in training mode."""
    every = [call for one in modules for call in one.calls]
    if any(last(call.func) == "eval" and not call.args and receiver(call) for call in every):
        return
    if any(last(call.func) == "train" and constant(call.args[0]) is False for call in every if call.args):
        return
    for function in module.functions:
        quiet = any(last(call.func) in ("no_grad", "inference_mode") for call in calls_in(function))
        runs = any(dotted(call.func) in ("model", "net", "self.model", "self.net") for call in calls_in(function))
        if (
            _EVALUATES.search(function.name)
            and quiet
            and runs
            and function.name not in ("validation_step", "test_step")
        ):
            what = f"{function.name} runs the model, and nothing ever calls model.eval()"
            fix = "model.eval() before evaluating, model.train() before going on"
            yield Mark(function.lineno, "missing-eval", "O5", what, fix)


def graph_kept(module: Module, modules: list[Module]) -> Iterator[Mark]:
    """M20: a sum or list of losses that keeps every step's graph alive."""
    fix = "add loss.item() (or loss.detach())"
    for scope in module.scopes:
        backwarded = {receiver(call) for call in own_calls(scope) if last(call.func) == "backward"}
        for node in own(scope):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and dotted(node.value) in backwarded:
                target = dotted(node.target)
                if target and target not in backwarded and dotted(node.value):
                    what = f"{target} += {dotted(node.value)} keeps the graph of every step in memory"
                    yield Mark(node.lineno, "graph-kept", "M20", what, fix)
            if isinstance(node, ast.Call) and last(node.func) == "append" and len(node.args) == 1:
                value = dotted(node.args[0])
                if value and value in backwarded:
                    what = f"{receiver(node)}.append({value}) keeps the graph of every step in memory"
                    yield Mark(node.lineno, "graph-kept", "M20", what, fix)


def unsafe_save(module: Module, modules: list[Module]) -> Iterator[Mark]:
    """C2: the newest checkpoint overwritten in place."""
    if not any(_learns([one]) or _resumes(one) for one in modules):
        return
    what = "the same file is overwritten in place: killed while writing, old and new are both lost"
    fix = "save to a temporary file beside it, then os.replace"
    passing_on = {place.name: place for one in modules for place in map(_passes_on, one.functions) if place}
    trains = _learns([module]) or _resumes(module) or _STATE.search(module.text)
    for scope in module.scopes:
        calls, known = own_calls(scope), _with_defaults(scope)
        if any(last(call.func) in ("replace", "rename", "renames", "move") for call in calls):
            continue
        for call in calls:
            path = _overwritten(call) or _given_path(call, passing_on.get(last(call.func)))
            if dotted(call.func) == "open" and not trains:
                continue  # a script that prepares data: it is run again
            path = known.get(path.id, path) if isinstance(path, ast.Name) else path
            built = isinstance(path, (ast.JoinedStr, ast.BinOp, ast.Call))
            if path is None or not (built or isinstance(constant(path), str)) or _moves(path):
                continue
            if _names_a_file(path) or (not built and dotted(call.func) == "torch.save"):
                yield Mark(call.lineno, "unsafe-save", "C2", what, fix)


@dataclass(frozen=True)
class _PassesOn:
    """A function that passes its own arguments to torch.save: which of them is the path."""

    name: str
    place: int
    word: str


def _passes_on(function: Function) -> _PassesOn | None:
    if any(last(call.func) in ("replace", "rename", "renames", "move") for call in calls_in(function)):
        return None
    names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    for call in calls_in(function):
        if dotted(call.func) != "torch.save":
            continue
        if function.args.vararg and not names and call.args and isinstance(call.args[0], ast.Starred):
            return _PassesOn(function.name, 1, "f")
        path = call.args[1] if len(call.args) > 1 else keyword(call, "f")
        if isinstance(path, ast.Name) and path.id in names:
            return _PassesOn(function.name, names.index(path.id), path.id)
    return None


def _given_path(call: ast.Call, wrapper: _PassesOn | None) -> ast.expr | None:
    """Return the path that a caller passes to such a function."""
    if wrapper is None or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    return call.args[wrapper.place] if len(call.args) > wrapper.place else keyword(call, wrapper.word)


def _overwritten(call: ast.Call) -> ast.expr | None:
    """Return the path that a call overwrites: torch.save(x, path), or open(path, "wb") and similar."""
    if dotted(call.func) == "torch.save":
        return call.args[1] if len(call.args) > 1 else keyword(call, "f")
    if dotted(call.func) in ("numpy.save", "np.save", "np.savez", "numpy.savez"):
        return call.args[0] if call.args else None
    if last(call.func) == "save_file" and len(call.args) > 1:
        return call.args[1]
    mode = constant(call.args[1]) if len(call.args) > 1 else constant(keyword(call, "mode"))
    return call.args[0] if dotted(call.func) == "open" and call.args and mode in ("wb", "wb+", "w+b") else None


def _with_defaults(scope: ast.AST) -> dict[str, ast.expr]:
    """Return the values of a scope's names: their last assignment, else the parameter's default."""
    found: dict[str, ast.expr] = {}
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        names = [item.arg for item in (*scope.args.posonlyargs, *scope.args.args)]
        defaults = scope.args.defaults
        found = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)) if defaults else {}
    return {**found, **assigned(scope)}


def _resumes(module: Module) -> bool:
    return any(dotted(call.func) in ("torch.load", "pickle.load") for call in module.calls)


def resume_drops_state(module: Module, modules: list[Module]) -> Iterator[Mark]:
    """C1: a resume that restores only the weights."""
    if "resume" not in module.text or not _learns([module]):
        return
    loads = [call for call in module.calls if last(call.func) == "load_state_dict"]
    if not loads or any(re.search(r"opt", receiver(call), re.IGNORECASE) for call in loads):
        return
    if any(last(call.func) in ("load_state", "load_checkpoint", "DeepSpeedEngine") for call in module.calls):
        return
    first = loads[0]
    what = "the resume loads weights but no optimizer state: moments, schedule and step start over"
    fix = "save and load optimizer, scheduler, scaler, step and random state with the weights"
    yield Mark(first.lineno, "resume-drops-state", "C1", what, fix)


def _generators(init: ast.FunctionDef) -> set[str]:
    return {
        dotted(node.targets[0])
        for node in ast.walk(init)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and last(node.value.func) in _RNG_MAKERS
        and isinstance(node.targets[0], ast.Attribute)
    }


def _constant_seed(init: ast.expr, modules: list[Module]) -> bool:
    body: ast.AST | None = init if isinstance(init, ast.Lambda) else None
    if body is None:
        wanted = dotted(init)
        body = next((one for module in modules for one in module.functions if one.name == wanted), None)
    if body is None:
        return False
    seeds = [call for call in calls_in(body) if last(call.func) == "seed" and "random" in dotted(call.func)]
    return any(call.args and isinstance(call.args[0], ast.Constant) for call in seeds)


def _makes(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and last(node.func) == name


def _self_made(module: Module, name: str) -> set[str]:
    return {
        node.targets[0].attr
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and _makes(node.value, name)
    }


def _is_softmax(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    inner = isinstance(node.func, ast.Call) and last(node.func.func) == "Softmax"
    return last(node.func) == "softmax" or inner


def _learns(modules: list[Module]) -> bool:
    return any(last(call.func) == "backward" for module in modules for call in module.calls)


def _moves(path: ast.AST) -> bool:
    """Return whether a path's name changes from save to save."""
    words = names_in(path) | {node.attr for node in ast.walk(path) if isinstance(node, ast.Attribute)}
    return any(_MOVING_NAME.search(word) for word in words)


def _names_a_file(path: ast.AST) -> bool:
    texts = [
        str(node.value) for node in ast.walk(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return any(re.search(r"\.(?:pt|pth|ckpt|bin|tar|pkl|pickle|npz|npy|safetensors)$", text) for text in texts)


LOOP_RULES: tuple[Rule, ...] = (
    worker_rng,
    scaler_order,
    softmax_then_cross_entropy,
    missing_eval,
    graph_kept,
    unsafe_save,
    resume_drops_state,
)
