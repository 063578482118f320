"""Floodgate: Taming Incast in Datacenter Networks (Liu et al., CoNEXT 2021), figure by figure.

Figure 23 is open: it compares with NDP, which is not here.
"""
