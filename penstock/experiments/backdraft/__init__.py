"""Backdraft (NSDI 2022): the figures that can be reproduced in the simulator or on the real switch."""

WINDOW = "run"
WINDOW_REASON = "the paper names none; its figures count requests, throughput and losses of whole experiments"
