"""How many examples a property gets: bounded, so that all properties together take seconds.

Under CI hypothesis itself chooses the same examples every time; elsewhere it looks for new ones.
"""

from __future__ import annotations

import platform

from hypothesis import HealthCheck, settings

_SUPPRESSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
_PYPY = platform.python_implementation() == "PyPy"  # several times slower before its compiler has warmed up


def _at_most(count: int) -> settings:
    examples = count // 4 if _PYPY else count
    return settings(max_examples=examples, deadline=None, suppress_health_check=_SUPPRESSED)


# Pure functions: examples cost nothing.
MANY = _at_most(300)

# Each example makes a few files.
SOME = _at_most(60)

# Each example starts a process or writes a ledger.
FEW = _at_most(16)
