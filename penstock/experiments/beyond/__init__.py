"""Comparisons that are in none of the papers."""

WINDOW = "run"
WINDOW_REASON = 'the published numbers were measured so; the window "arrivals" needs them to be run again'
