"""HPCC: High Precision Congestion Control (Li et al., SIGCOMM 2019), figure by figure."""

WINDOW = "run"
WINDOW_REASON = "the paper names none, and its simulator logs pauses, queues and flows from the first flow to the end of the run"
