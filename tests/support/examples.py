"""How many examples a property gets: bounded, so that all properties together take seconds; a third in the fast tier.

Under CI hypothesis itself chooses the same examples every time; elsewhere it looks for new ones.
"""

from __future__ import annotations

import platform

from hypothesis import HealthCheck, settings

_SUPPRESSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
_PYPY = platform.python_implementation() == "PyPy"  # several times slower before its compiler has warmed up


def at_most(count: int) -> int:
    """Scale a number of examples to the tier (tests/unit/conftest.py loads its profile) and the interpreter."""
    scaled = count * settings().max_examples // 100
    return max(1, scaled // 4 if _PYPY else scaled)


def _bounded(count: int) -> settings:
    return settings(max_examples=at_most(count), deadline=None, suppress_health_check=_SUPPRESSED)


# Pure functions: examples cost nothing.
MANY = _bounded(300)

# Each example makes a few files.
SOME = _bounded(60)

# Each example starts a process or writes a ledger.
FEW = _bounded(16)
