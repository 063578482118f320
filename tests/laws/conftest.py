"""Hypothesis for the laws: the same examples every time; PENSTOCK_EXAMPLES=10 tries ten times as many."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))  # networks.py
sys.path.insert(0, str(Path(__file__).parent.parent))  # the transcriptions of the papers: paper/
settings.register_profile(
    "laws",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("laws")
