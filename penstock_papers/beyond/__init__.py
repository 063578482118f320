"""Comparisons that are in none of the papers."""

TITLE = "Numbers of other papers (Homa, NDP, ExpressPass, IRN), and comparisons that are in no paper"
SCHEMES = "`homa`, `ndp`, `expresspass`, `recovery`, and all others"
WINDOW = "run"
WINDOW_REASON = 'the published numbers were measured so; the window "arrivals" needs them to be run again'
