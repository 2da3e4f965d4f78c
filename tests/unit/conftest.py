"""No property is judged by the clock: a busy machine may take its time over an example; the fast tier tries fewer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("all", _UNTIMED)
settings.register_profile("fast", settings(_UNTIMED, max_examples=34))


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(str(config.getoption("--tier")))
