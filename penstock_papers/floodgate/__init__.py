"""Floodgate: Taming Incast in Datacenter Networks (Liu et al., CoNEXT 2021), figure by figure."""

TITLE = "Floodgate: Taming Incast in Datacenter Networks, CoNEXT 2021"
SCHEMES = "`floodgate`, `pfc_tagged`"
WINDOW = "run"
WINDOW_REASON = "the paper names none, and its simulator logs buffers, pauses and flows from the first flow to the end of the run"

# the variant of a scheme that every figure of the paper shows; others only beside it
VARIANTS = {"floodgate": "floodgate", "dcqcn": "dcqcn:config", "timely": "timely:floodgate", "hpcc": "hpcc:floodgate"}
VARIANTS_REASON = "section 4 as published; rivals with the parameters of the authors' simulator"
