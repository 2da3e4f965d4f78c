"""Checkpoints of models that no process holds whole (FSDP, tensor parallel): each saves its part through torch's DCP.

A sharded checkpoint is a folder: DCP's own files, one file of ours per process for everything else, and a list with
the size and hash of each. It is written under a temporary name and renamed once every process is done.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import Any, Dict, List, Tuple

from leasehold.checkpoint.state.leaves import torch_now
from leasehold.checkpoint.state.parts import is_local, state_of
from leasehold.checkpoint.state.ranks import Ranks
from leasehold.checkpoint.state.snapshot import Stage
from leasehold.checkpoint.state.tree import Flat
from leasehold.kit.files.atomic import read_json, write_json
from leasehold.kit.files.checkpoint_file import SUFFIX
from leasehold.kit.files.sha256 import blocks, hash_blocks

from .files import Written, load_file, write_file
from .shelf import publish_folder, temp_name

LIST = "leasehold.json"
SCHEMA = "leasehold.sharded/1"


def holds(part: Any) -> bool:
    """Return whether DCP saves this part: a module or an optimizer."""
    torch = torch_now()
    return torch is not None and isinstance(part, (torch.nn.Module, torch.optim.Optimizer))


def save(path: str, parts: Dict[str, Any], ours: Dict[str, Any], ranks: Ranks) -> Written:
    """Save on every process; the folder appears under its name only when all of it is on the disk."""
    import torch.distributed.checkpoint as dcp

    temp = ranks.first(temp_name(path))
    if ranks.rank == 0:
        shutil.rmtree(temp, ignore_errors=True)
        os.makedirs(temp)
    ranks.gather(None)
    problem = ""
    try:
        dcp.save(_sharded_state(parts), checkpoint_id=temp)
        rest = {name: state_of(part, name) for name, part in parts.items() if not is_local(name) and not holds(part)}
        stage = Stage()
        write_file(
            _rest(temp, ranks.rank), stage.take(Flat({**rest, **ours})), {"step": str(ours["leasehold"]["step"])}
        )
        stage.release()
    except OSError as error:
        problem = str(error)
    problems = [said for said in ranks.gather(problem) if said]
    if problems:
        if ranks.rank == 0:
            shutil.rmtree(temp, ignore_errors=True)
        raise OSError("a process could not write its part: %s" % problems[0])
    listed: Dict[str, Any] = {}
    for one in ranks.gather(hash_share(temp, ranks)):
        listed.update(one)
    facts = {"schema": SCHEMA, "step": ours["leasehold"]["step"], "world": ranks.world, "files": listed}
    problem = ranks.first(_publish(temp, path, {**facts, "parts": sorted(parts)}) if ranks.rank == 0 else "")
    if problem:
        raise OSError(problem)
    total = sum(int(item["bytes"]) for item in listed.values())
    return Written(path, total, hashlib.sha256(repr(sorted(listed.items())).encode()).hexdigest())


def _publish(temp: str, path: str, facts: Dict[str, Any]) -> str:
    """Rename the folder into place; return the problem, because every process must learn of it."""
    try:
        write_json(os.path.join(temp, LIST), facts)
        publish_folder(temp, path)
    except OSError as error:
        return str(error)
    return ""


def load(path: str, parts: Dict[str, Any], ranks: Ranks) -> Tuple[Any, str]:
    """Check every file, sharing the work, then load; return our own values, or the problem."""
    problems = [said for said in ranks.gather(check_listed(path, ranks)) if said]
    if problems:
        return None, problems[0]
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_optimizer_state_dict

    state = _sharded_state(parts)
    dcp.load(state, checkpoint_id=path)
    models = {name: part for name, part in parts.items() if _is_model(part)}
    for name, part in models.items():
        set_model_state_dict(part, state[name])
    for name, part in parts.items():
        if holds(part) and name not in models:
            set_optimizer_state_dict(next(iter(models.values())), part, state[name])
    mine = _rest(path, ranks.rank)
    return load_file(mine if os.path.exists(mine) else _rest(path, 0)), ""


def _sharded_state(parts: Dict[str, Any]) -> Dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict

    models = {name: part for name, part in parts.items() if _is_model(part)}
    if not models:
        raise TypeError("sharded=True needs a torch module among the parts")
    state = {name: get_model_state_dict(part) for name, part in models.items()}
    for name, part in parts.items():
        if holds(part) and name not in models:
            state[name] = get_optimizer_state_dict(next(iter(models.values())), part)
    return state


def _is_model(part: Any) -> bool:
    return holds(part) and hasattr(part, "parameters")


def _rest(folder: str, rank: int) -> str:
    return os.path.join(folder, "rest-%05d%s" % (rank, SUFFIX))


def hash_share(folder: str, ranks: Ranks) -> Dict[str, Any]:
    """Hash a share of the files and fsync them; DCP itself does not promise that."""
    found = {}
    for name in _share(sorted(_below(folder)), ranks):
        found[name] = _measure(os.path.join(folder, name), force=True)
    return found


def check_listed(path: str, ranks: Ranks) -> str:
    facts = read_json(os.path.join(path, LIST)) or {}
    listed = facts.get("files")
    if facts.get("schema") != SCHEMA or not isinstance(listed, dict):
        return "its list of files is missing or not ours"
    for name in _share(sorted(listed), ranks):
        try:
            seen = _measure(os.path.join(path, name))
        except OSError as error:
            return "%s: %s" % (name, error.strerror)
        if seen != listed[name]:
            return "%s is not what was written: %r, listed %r" % (name, seen, listed[name])
    return ""


def _below(folder: str) -> List[str]:
    found = [os.path.join(base, name) for base, _, names in os.walk(folder) for name in names]
    return [os.path.relpath(path, folder) for path in found]


def _share(names: List[str], ranks: Ranks) -> List[str]:
    return names[ranks.rank :: ranks.world]


def _measure(path: str, force: bool = False) -> Dict[str, Any]:
    with open(path, "rb", buffering=0) as file:
        count, sha256 = hash_blocks(blocks(file.read))
        if force:
            os.fsync(file.fileno())
    return {"bytes": count, "sha256": sha256}
