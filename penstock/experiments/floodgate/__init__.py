"""Floodgate: Taming Incast in Datacenter Networks (Liu et al., CoNEXT 2021), figure by figure."""
