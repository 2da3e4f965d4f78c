"""Import a generator of malicious files that writes them when it is imported: `run_generator.py MODULE.py`.

Its pickles name functions of other libraries. One that the installed version has no more gets a stand-in of that
name: a pickle holds the name alone, and nothing is called.
"""

from __future__ import annotations

import importlib
import os
import re
import runpy
import sys
import types

_GONE = re.compile(r"module '([\w.]+)' has no attribute '(\w+)'")
_MOST_STAND_INS = 50


def main() -> int:
    """Run it; when it names what is missing, begin anew with a stand-in, since a generator may change its modules."""
    program, *missing = sys.argv[1:]
    for name in missing:
        module, _, attribute = name.partition(":")
        _stand_in(module, attribute) if attribute else _plant(module)
    try:
        runpy.run_path(os.path.abspath(program))  # it writes beside itself
        return 0
    except AttributeError as error:
        gone = _GONE.search(str(error))
        if gone is None:
            raise
        absent = f"{gone[1]}:{gone[2]}"
    except ModuleNotFoundError as error:
        absent = str(error.name)
    if absent in missing or len(missing) >= _MOST_STAND_INS:
        raise RuntimeError(f"{program} names what no stand-in helps with: {absent}")
    print(f"run_generator: {absent} is not there; its name stands for it", file=sys.stderr, flush=True)
    return os.execv(sys.executable, [sys.executable, __file__, program, *missing, absent])


def _stand_in(module: str, name: str) -> None:
    def absent() -> None:
        raise RuntimeError("a stand-in is never called")

    absent.__module__, absent.__qualname__, absent.__name__ = module, name, name
    setattr(importlib.import_module(module), name, absent)


def _plant(module: str) -> None:
    planted = types.ModuleType(module)
    planted.__path__ = []
    sys.modules[module] = planted
    above, _, last = module.rpartition(".")
    if above:
        setattr(importlib.import_module(above), last, planted)


if __name__ == "__main__":
    sys.exit(main())
