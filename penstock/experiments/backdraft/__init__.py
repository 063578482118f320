"""Backdraft (NSDI 2022): the figures that can be reproduced in the simulator or on the real switch."""
