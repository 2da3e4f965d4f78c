"""Stands where torch stands, in an interpreter of its own: what load() does depends on the file's name."""

from __future__ import annotations

import os
import pickle
import signal
import time

serialization = None


def load(path, map_location, weights_only, mmap):
    assert (map_location, weights_only, mmap) == ("cpu", True, True)
    name = os.path.basename(path)
    if name.startswith("crash"):
        os.kill(os.getpid(), signal.SIGKILL)
    if name.startswith("hang"):
        time.sleep(600)
    if name.startswith("policy"):
        raise pickle.UnpicklingError(
            "Weights only load failed. Advice.\n\tWeightsUnpickler error: Unsupported global: GLOBAL my.Thing was not"
            " allowed. Please use `add_safe_globals` and \x1b[31mlose"
        )
    if name.startswith("protocol"):
        raise pickle.UnpicklingError(
            "Weights only load failed.\n\tWeightsUnpickler error: Unsupported operand 149\n\nMore"
        )
    if name.startswith("broken"):
        raise RuntimeError("PytorchStreamReader failed")
    return {}
