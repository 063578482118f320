"""HPCC: High Precision Congestion Control (Li et al., SIGCOMM 2019), figure by figure."""

TITLE = "HPCC: High Precision Congestion Control, SIGCOMM 2019"
SCHEMES = "`hpcc`, `dcqcn`, `dctcp`, `timely`"
WINDOW = "run"
WINDOW_REASON = "the paper names none, and its simulator logs pauses, queues and flows from the first flow to the end of the run"

# the variant of a scheme that every figure of the paper shows; others only beside it
VARIANTS = {"hpcc": "hpcc:ns3", "dcqcn": "dcqcn:ns3", "timely": "timely:ns3", "dctcp": "dctcp:ns3"}
VARIANTS_REASON = (
    "the authors' public simulator, with which the figures from 11 on were made; the testbed's HPCC is that of section 5.1"
)

# figures, tables and other claims of the paper that have no experiment yet, with what they show
MISSING = {"fig01": "PFC pauses measured in production"}
