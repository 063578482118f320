"""HPCC: High Precision Congestion Control (Li et al., SIGCOMM 2019), figure by figure."""
