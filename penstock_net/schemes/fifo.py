"""No scheme: one first-in-first-out queue per priority at every port, tail drop when the shared buffer is full."""

title = "FIFO"
