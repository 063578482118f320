"""BFC: Backpressure Flow Control (Goyal et al., NSDI 2022), figure by figure."""
