"""Backdraft (NSDI 2022): the figures that can be reproduced in the simulator or on the real switch."""

WINDOW = "run"
WINDOW_REASON = "the paper names none; its figures count requests, throughput and losses of whole experiments"

# figures, tables and other claims of the paper that have no experiment yet, with what they show
MISSING = {
    "abstract": "20, 1.9, 5.65 and 45 times, 16 K queues",
    "fig02": "slow receivers in practice",
    "fig03": "slow receivers in practice",
    "fig17": "throughput and loss, TCP and Homa",
    "fig18": "requests and loss, TCP and Homa",
}
