"""Rules about several processes: samplers, collectives, devices."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .lint_source import Mark, Module, Rule, assigned, calls_in, constant, dotted, keyword, last, own, own_calls

_COLLECTIVES = {
    "barrier", "all_reduce", "all_gather", "all_gather_object", "all_gather_into_tensor", "broadcast", "reduce",
    "gather", "gather_object", "broadcast_object_list", "reduce_scatter", "reduce_scatter_tensor", "all_to_all",
    "wait_for_everyone",
}  # fmt: skip
_HOLDERS = re.compile(r"(?:^|\.)(?:dist|distributed|accelerator|c10d|comm)$")
_RANK_NAME = re.compile(r"rank$", re.IGNORECASE)
_MAIN = re.compile(r"is_(?:main|master|rank_zero|local_main)\w*|is_main_process", re.IGNORECASE)


def no_set_epoch(module: Module, modules: list[Module]) -> Iterator[Mark]:
    """D22: a distributed sampler whose order never changes."""
    if any(last(call.func) == "set_epoch" for one in modules for call in one.calls):
        return
    for call in module.calls:
        if last(call.func) == "DistributedSampler" and constant(keyword(call, "shuffle")) is not False:
            what = "DistributedSampler without set_epoch: every epoch comes in the same order"
            yield Mark(call.lineno, "set-epoch", "D22", what, "call sampler.set_epoch(epoch) at each epoch's start")


def gated_collective(module: Module, modules: list[Module]) -> Iterator[Mark]:
    """D21: a collective that only some ranks call; the others wait for ever."""
    for scope in module.scopes:
        gates = [node for node in own(scope) if isinstance(node, ast.If) and _gate(node.test)]
        kinds = {_gate(gate.test) for gate in gates if any(_barrier(call) for call in _calls(gate.body))}
        for gate in gates:
            matched = {last(call.func) for call in _calls(gate.orelse) if _collective(call)}
            for call in _calls(gate.body):
                paired = _barrier(call) and {"first", "others"} <= kinds  # one rank works while the others wait
                if _collective(call) and last(call.func) not in matched and not paired:
                    what = f"{last(call.func)} stands in a branch that only some ranks take: the others wait for ever"
                    yield Mark(
                        call.lineno, "gated-collective", "D21", what, "call it on all ranks; gate only the writing"
                    )


def rank_as_device(module: Module, modules: list[Module]) -> Iterator[Mark]:
    """D3: the global rank used as a device number, which fails on the second node."""
    for scope in module.scopes:
        known = {**assigned(module.tree), **assigned(scope)}
        ranks = {name for name, value in known.items() if _global_rank(value)}
        for call in own_calls(scope):
            if last(call.func) not in ("set_device", "device", "to", "cuda") or not call.args:
                continue
            first = call.args[0]
            direct = isinstance(first, ast.Name) and first.id in ranks
            spelled = isinstance(first, ast.JoinedStr) and any(
                isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name) and part.value.id in ranks
                for part in first.values
            )
            if direct or spelled or (last(call.func) == "set_device" and _global_rank(first)):
                what = "the global rank as a device number: on the second node there is no such card"
                yield Mark(
                    call.lineno, "rank-as-device", "D3", what, "use int(os.environ['LOCAL_RANK']) for the device"
                )


def _gate(test: ast.expr) -> str:
    """Return whether a condition admits the first rank, or the others; empty if it is about something else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _gate(test.operand)
        return {"first": "others", "others": "first"}.get(inner, "others" if _rank(test.operand) else "")
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and _rank(test.left):
        zero = constant(test.comparators[0]) == 0
        if isinstance(test.ops[0], ast.Eq) and zero:
            return "first"
        if isinstance(test.ops[0], (ast.NotEq, ast.Gt)) and zero:
            return "others"
        if isinstance(test.ops[0], ast.NotIn):
            return "others"
        return "first" if isinstance(test.ops[0], ast.In) else ""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return next((kind for kind in map(_gate, test.values) if kind), "")
    name = dotted(test.func) if isinstance(test, ast.Call) else dotted(test)
    return "first" if _MAIN.search(name.rpartition(".")[2]) else ""


def _rank(node: ast.expr) -> bool:
    name = dotted(node.func) if isinstance(node, ast.Call) else dotted(node)
    return bool(_RANK_NAME.search(name))


def _calls(body: list[ast.stmt]) -> list[ast.Call]:
    return [call for statement in body for call in calls_in(statement)]


def _collective(call: ast.Call) -> bool:
    if last(call.func) not in _COLLECTIVES or not isinstance(call.func, ast.Attribute):
        return False
    return bool(_HOLDERS.search(dotted(call.func.value)))


def _barrier(call: ast.Call) -> bool:
    return _collective(call) and last(call.func) in ("barrier", "wait_for_everyone")


def _global_rank(node: ast.expr) -> bool:
    """Return whether an expression is RANK or get_rank() itself, not taken modulo the cards."""
    while isinstance(node, ast.Call) and dotted(node.func) == "int" and node.args:
        node = node.args[0]
    if isinstance(node, ast.Call):
        named = dotted(node.func) in ("os.getenv", "os.environ.get") and node.args
        return last(node.func) == "get_rank" or bool(named and constant(node.args[0]) == "RANK")
    return isinstance(node, ast.Subscript) and dotted(node.value) == "os.environ" and constant(node.slice) == "RANK"


RANK_RULES: tuple[Rule, ...] = (no_set_epoch, gated_collective, rank_as_device)
