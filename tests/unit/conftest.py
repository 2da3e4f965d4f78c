"""No property is judged by the clock: a busy machine may take its time over an example."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", settings(deadline=None, suppress_health_check=[HealthCheck.too_slow]))
settings.load_profile("untimed")
