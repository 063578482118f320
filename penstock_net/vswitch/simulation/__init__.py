"""The whole switch in a simulated world: its daemon with all threads, its clients, interfaces that come and go, under a seed.

`run.simulate(seed)` is one schedule; docs/vswitch-simulation.md has the laws, and how to replay a seed.
"""
