"""HPCC: High Precision Congestion Control (Li et al., SIGCOMM 2019), figure by figure."""

WINDOW = "run"
WINDOW_REASON = "the paper names none, and its simulator logs pauses, queues and flows from the first flow to the end of the run"

# the variant of a scheme that every figure of the paper shows; others only beside it
VARIANTS = {"hpcc": "hpcc"}
VARIANTS_REASON = "the parameters of section 5.1"

# figures, tables and other claims of the paper that have no experiment yet, with what they show
MISSING = {
    "abstract": "up to 95 % shorter completion times",
    "fig02": "timers of DCQCN",
    "fig03": "ECN thresholds of DCQCN",
    "fig09": "testbed: incast, mice, fairness",
    "fig10": "testbed, WebSearch",
    "fig11": "fat tree, six schemes",
    "fig12": "PFC, go-back-N, IRN",
}
