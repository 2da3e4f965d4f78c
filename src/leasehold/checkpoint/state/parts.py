"""The parts that a trainer passes: an object with a state_dict, a random generator, or a dict to be refilled."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Any, Dict, Iterator, List

_LOCAL = ("sampler", "batch_sampler", "loader", "dataloader", "generator")  # each process has its own position


def is_local(name: str) -> bool:
    """Return whether each process of a distributed run has its own state for this part."""
    return name in _LOCAL or name.rpartition("_")[2] in _LOCAL


def state_of(part: Any, name: str) -> Any:
    """Return the state to save for a part."""
    part = _bare(part)
    if hasattr(part, "state_dict"):
        return part.state_dict()
    if isinstance(part, dict):
        return part
    if isinstance(part, (list, tuple)):
        return [state_of(item, "%s[%d]" % (name, n)) for n, item in enumerate(part)]
    if isinstance(part, random.Random):
        return part.getstate()
    if hasattr(part, "bit_generator"):  # numpy's Generator
        return part.bit_generator.state
    if hasattr(part, "get_state") and hasattr(part, "set_state"):  # torch.Generator, numpy's RandomState
        return part.get_state()
    if hasattr(part, "set_epoch"):  # torch's DistributedSampler
        return {"epoch": int(getattr(part, "epoch", 0))}
    raise TypeError(
        "%s is a %s, which has no state_dict(); hand over an object with state_dict and load_state_dict, "
        "or a dict that holds the values" % (name, type(part).__name__)
    )


def put_back(part: Any, state: Any, name: str) -> None:
    """Load the saved state into a part."""
    part = _bare(part)
    if hasattr(part, "load_state_dict"):
        part.load_state_dict(state)
    elif isinstance(part, dict):
        part.clear()
        part.update(state)
    elif isinstance(part, (list, tuple)):
        if len(part) != len(state):
            raise ValueError("%s has %d parts, the checkpoint holds %d" % (name, len(part), len(state)))
        for number, (item, one) in enumerate(zip(part, state)):
            put_back(item, one, "%s[%d]" % (name, number))
    elif isinstance(part, random.Random):
        part.setstate(state)
    elif hasattr(part, "bit_generator"):
        part.bit_generator.state = state
    elif hasattr(part, "set_state"):
        part.set_state(state)
    else:
        part.set_epoch(state["epoch"])


@contextlib.contextmanager
def one_copying_thread() -> Iterator[None]:
    """Make torch copy with one thread meanwhile: several wait for each other by spinning, slow on shared cores."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def copies_at_once(part: Any) -> bool:
    """Return whether load_state_dict copies its argument; a torch module does, an optimizer may keep it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(_bare(part), torch.nn.Module)


def random_states() -> Dict[str, Any]:
    """Return the state of every global random generator whose library is in use."""
    states: Dict[str, Any] = {"python": random.getstate()}
    torch = sys.modules.get("torch")
    if "numpy" in sys.modules:
        import numpy

        states["numpy"] = numpy.random.get_state()
    if torch is not None:
        states["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def set_random_states(states: Dict[str, Any]) -> List[str]:
    """Restore the saved generator states; report what could not be set."""
    problems = []
    random.setstate(states["python"])
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])
    if "torch" in states:
        import torch

        torch.set_rng_state(states["torch"])
        cuda = states.get("cuda") or []
        if cuda and torch.cuda.device_count() == len(cuda):
            torch.cuda.set_rng_state_all(cuda)
        elif cuda:
            problems.append(
                "it holds random states of %d cuda devices, here are %d: theirs start anew"
                % (len(cuda), torch.cuda.device_count())
            )
    return problems


def _bare(part: Any) -> Any:
    """Remove wrappers, so that a checkpoint fits with and without them."""
    while True:
        if type(part).__name__ in ("DistributedDataParallel", "DataParallel") and hasattr(part, "module"):
            part = part.module
        elif type(part).__name__ == "OptimizedModule" and hasattr(part, "_orig_mod"):
            part = part._orig_mod
        else:
            return part
