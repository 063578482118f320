"""A simulated kernel: a clock that moves when somebody waits, descriptors, TAPs, sockets and netlink, in one thread.

`kernel.Simulated` is the world; docs/vswitch-simulation.md says what it has. What it does is what the real kernel does:
tests/vswitch/test_same_kernel.py asks both the same.
"""
