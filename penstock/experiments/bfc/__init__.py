"""BFC: Backpressure Flow Control (Goyal et al., NSDI 2022), figure by figure."""

WINDOW = "arrivals"
WINDOW_REASON = "the paper names none; its authors' simulator stops when arrivals stop, without warm-up and without a drain"
