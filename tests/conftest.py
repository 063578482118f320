"""Hypothesis, for all tests: how long an example takes is the machine's, and no reason to fail."""

from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
