"""The options of sbatch and srun: which take a value, their short forms, and why most have no counterpart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_SHORT_FORMS = """
    J:job-name G:gpus t:time N:nodes n:ntasks c:cpus-per-task p:partition A:account q:qos o:output e:error i:input
    a:array C:constraint D:chdir d:dependency w:nodelist x:exclude b:begin L:licenses M:clusters m:distribution
    B:extra-node-info S:core-spec F:nodefile r:relative T:threads H:hold O:overcommit Q:quiet v:verbose W:wait
    k:no-kill s:oversubscribe l:label u:unbuffered K:kill-on-bad-exit E:preserve-env I:immediate X:disable-status
"""
_ALONE = """
    hold overcommit quiet verbose wait no-kill oversubscribe label unbuffered requeue no-requeue kill-on-bad-exit
    preserve-env immediate exclusive contiguous reboot spread-job test-only parsable ignore-pbs use-min-nodes nice
    get-user-env pty exact overlap whole disable-status no-allocate x11 propagate multi-prog container-mount-home
    no-container-mount-home container-writable stepmgr resv-ports usage help version no-shell interactive
"""
_VALUED = """
    gres gpus-per-node gpus-per-task gpus-per-socket ntasks-per-node ntasks-per-gpu ntasks-per-core cpus-per-gpu mem
    mem-per-cpu mem-per-gpu tmp signal export export-file mail-type mail-user open-mode comment reservation priority
    time-min deadline gpu-bind gpu-freq gres-flags cpu-bind mem-bind wckey profile threads-per-core hint mpi container
    container-image container-mounts container-name container-workdir switches sockets-per-node cores-per-socket
    mincpus kill-on-invalid-dep uid gid wrap bb bbf
"""
_SHORT = dict(pair.split(":") for pair in _SHORT_FORMS.split())
_NO_VALUE = set(_ALONE.split())
_LONG = set(_SHORT.values()) | _NO_VALUE | set(_VALUED.split())
_CLUSTER = "it belongs to that cluster; --on or `candidates` chooses the box"
_HOST = "a job has no key for the host's CPU cores and memory; choose the box by them"
_NODES = "it names nodes or features of that cluster"
_LOGS = "`lease logs` keeps what the run says"
_MAIL = "no mail is sent; see `lease watch` and `lease status`"
_START = "nothing is queued or scheduled; start it when you want it"
_CONTAINER = "the box's image is chosen when it is rented; install what is missing in `setup`"
_ONE_BOX = "a run has one box, and its command starts one process; use torchrun for more"
_WHY = {
    _CLUSTER: "partition account qos reservation clusters wckey priority nice licenses uid gid",
    _HOST: "mem mem-per-cpu mem-per-gpu cpus-per-task cpus-per-gpu mincpus threads-per-core hint cores-per-socket "
    "sockets-per-node core-spec extra-node-info cpu-bind mem-bind",
    _NODES: "constraint nodelist exclude exclusive contiguous oversubscribe switches nodefile spread-job use-min-nodes",
    _LOGS: "output error input open-mode label unbuffered",
    _MAIL: "mail-type mail-user",
    _START: "dependency begin deadline hold time-min kill-on-invalid-dep wait immediate",
    _CONTAINER: "container container-image container-mounts container-name container-workdir",
    _ONE_BOX: "nodes ntasks ntasks-per-node ntasks-per-gpu distribution overcommit gpus-per-socket mpi",
    "no signal comes before an end; checkpoints and `attempts` carry it over a kill": "signal",
    "a job file has no arrays; write one job for each index, or loop in `run`": "array",
    "a command starts in a private copy of your folder": "chdir",
}
_REASONS = {name: why for why, names in _WHY.items() for name in names.split()}


@dataclass(frozen=True)
class Option:
    """One option as it was written."""

    name: str
    value: str
    line: int

    def __str__(self) -> str:
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


def read_directive(text: str, line: int) -> list[Option]:
    """Parse what follows #SBATCH; words after an unquoted # are a comment."""
    try:
        found = shlex.split(text, comments=True)
    except ValueError:
        found = text.split()
    return [option for option, _ in walk_options(found, line)]


def walk_options(given: list[str], line: int) -> Iterator[tuple[Option, int]]:
    """Yield the leading options of a list of words, each with its number of words; stop at the first other word."""
    at = 0
    while at < len(given) and given[at].startswith("-") and given[at] not in ("-", "--"):
        option, taken = _one(given[at], given[at + 1] if at + 1 < len(given) else "", line)
        at += taken
        yield option, taken


def reason_for(option: Option) -> str:
    """Return the reason why an option is not carried over."""
    return _REASONS.get(option.name, "it has no counterpart here")


def _one(word: str, following: str, line: int) -> tuple[Option, int]:
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        name = _whole(name)
        if equals or name in _NO_VALUE or following.startswith("-") or not following:
            return Option(name, value, line), 1
        return Option(name, following, line), 2
    name = _SHORT.get(word[1], word[1])
    rest = word[2:].removeprefix("=")
    if rest or name in _NO_VALUE or not following:
        return Option(name, "" if name in _NO_VALUE else rest, line), 1
    return Option(name, following, line), 2


def _whole(name: str) -> str:
    """Complete an abbreviated option, as getopt does where the abbreviation is unambiguous."""
    name = re.sub("_", "-", name)
    if name in _LONG:
        return name
    begun = [known for known in _LONG if known.startswith(name)]
    return begun[0] if len(begun) == 1 else name
