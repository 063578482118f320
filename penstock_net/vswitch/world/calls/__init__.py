"""What the compiled parts of the switch ask of the world: one table of functions, which is the kernel's or a simulated one."""
