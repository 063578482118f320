"""Backdraft (NSDI 2022): the figures that can be reproduced in the simulator or on the real switch."""

TITLE = "Backdraft: a Lossless Virtual Switch, NSDI 2022"
SCHEMES = "`backdraft`, `penstock vswitch`"
WINDOW = "run"
WINDOW_REASON = "the paper names none; its figures count requests, throughput and losses of whole experiments"

# the variant of a scheme that every figure of the paper shows; others only beside it
VARIANTS = {"backdraft": "backdraft"}
VARIANTS_REASON = "sections 3 and 4 as published"

# figures, tables and other claims of the paper that have no experiment yet, with what they show
MISSING = {
    "fig02": "throughput of applications by their cores",
    "fig03": "throughput of applications over time",
    "fig05c": "cost of PicNIC's out-of-order completion",
}
