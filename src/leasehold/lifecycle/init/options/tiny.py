"""Set flags on a command line: where results go, and a tiny version of the run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from leasehold.lifecycle.init.text.project_facts import Flag, Role, Style

from .flag_roles import rank_of, tiny_value

_WORD = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'])+"""
_MOST_OFTEN = 6
_OFTEN_IN_AN_EPOCH = "10"  # steps between two saves, where a smoke lasts a whole epoch
_HEADS = ("trainer", "training", "train", "train_args")


def best(flags: Iterable[Flag], role: Role, *, also_switches: bool = False) -> Flag | None:
    """Return the plainest flag of a role that takes a value."""
    styles = (Style.POSITION,) if also_switches else (Style.POSITION, Style.SWITCH)
    fitting = [flag for flag in flags if flag.role is role and flag.style not in styles]
    return min(fitting, key=_order, default=None)


def with_flag(command: str, flag: Flag, value: str) -> str:
    """Set a flag on a command line; replace its value where it is already set."""
    spelled = flag.spelled(value)
    if flag.style is Style.POSITION:
        return f"{command} {spelled}"
    separator = "=" if flag.style is Style.OVERRIDE else r"(?:=|\s+)"
    after = r"(?!\S)" if flag.style is Style.SWITCH else separator + _WORD
    standing = re.compile(rf"(?<!\S){re.escape(flag.name)}{after}")
    if standing.search(command):
        return standing.sub(lambda _: spelled, command, count=1)
    return f"{command} {spelled}"


def mentions(command: str, flag: Flag) -> bool:
    """Return whether a command line sets a flag."""
    return bool(re.search(rf"(?<!\S){re.escape(flag.name)}(?:[=\s]|\Z)", command))


def shrinking(flags: Iterable[Flag]) -> list[Flag]:
    """Choose the flags that make a run tiny; none when no flag shortens it."""
    flags = [flag for flag in flags if tiny_value(flag) is not None]
    steps = best(flags, Role.STEPS)
    limit = best(flags, Role.LIMIT, also_switches=True)
    short = [steps] if steps else [flag for flag in (limit, best(flags, Role.EPOCHS)) if flag]
    if not short:
        return []
    rest = [best(flags, role, also_switches=role is Role.DEVICE) for role in (Role.WORKERS, Role.DEVICE, Role.COMPILE)]
    if steps or limit:  # otherwise small batches make the epoch longer
        rest.insert(0, best(flags, Role.BATCH))
    frequent = (Role.INTERVAL, Role.EVAL_LIMIT, *((Role.LOGGING,) if steps or limit else ()))
    often = [flag for flag in flags if flag.role in frequent and _valued(flag)]
    return [*short, *(flag for flag in rest if flag), *often[:_MOST_OFTEN]]


def in_tiny(command: str, flags: Iterable[Flag], steps: str = "") -> str:
    """Return the command line with tiny values for the flags, in one process; `steps` where 3 are too few."""
    flags = list(flags)
    by_steps = any(flag.role is Role.STEPS for flag in flags)
    for flag in flags:
        if flag.role is Role.INTERVAL and not mentions(command, flag) and not flag.default:
            continue  # off by default, or the framework's own choice
        value = steps if steps and flag.role is Role.STEPS else tiny_value(flag, by_steps)
        if flag.role is Role.INTERVAL and not by_steps and _counts_steps(flag, flags):
            value = _OFTEN_IN_AN_EPOCH
        command = with_flag(command, flag, value or "")
    return re.sub(r"(--nproc[-_]per[-_]node|--num_processes)[= ]\S+", r"\1=1", command)


def _counts_steps(flag: Flag, flags: list[Flag]) -> bool:
    """Return whether a save interval is in steps: as a number of epochs it would exceed the run's."""
    epochs = [int(one.default) for one in flags if one.role is Role.EPOCHS and one.default.isdigit()]
    return (
        flag.default.isdigit()
        and int(flag.default) >= 2 * int(_OFTEN_IN_AN_EPOCH)
        and int(flag.default) > max(epochs, default=0)
    )


def _valued(flag: Flag) -> bool:
    return flag.style not in (Style.SWITCH, Style.POSITION)


def processes(command: str) -> int:
    """Return the number of processes that a launcher starts on one machine, or 0."""
    found = re.search(r"--(?:nproc[-_]per[-_]node|num_processes|num_gpus)[= ](\d{1,2})(?!\S)", command)
    return int(found[1]) if found else 0


def _order(flag: Flag) -> tuple[int, int, int, str]:
    """Sort trainer.max_epochs before scheduler.max_epochs, and shallow names before deep ones."""
    head = flag.name.lstrip("-").partition(".")[0]
    return rank_of(flag), 0 if head in _HEADS or "." not in flag.name else 1, flag.name.count("."), flag.name
