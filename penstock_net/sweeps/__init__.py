"""Sweeps: many runs of one experiment, in processes of this machine or on a cluster."""
