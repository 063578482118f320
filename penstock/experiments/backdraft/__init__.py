"""The figures of Backdraft (NSDI 2022) that a simulator can show."""
