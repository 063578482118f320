"""The variant of each scheme that every figure of the paper shows and that its claims judge; others only beside it, as (ours)."""

VARIANTS = {"bfc": "bfc:paper", "hpcc": "hpcc:bfc", "dctcp": "dctcp:bfc", "dcqcn": "dcqcn"}
VARIANTS_REASON = (
    "a new flow takes the first empty, unpaused queue (section 3.3.1); rivals with the parameters of the authors' simulator"
)
BESIDE = "bfc"  # the variant of BFC that the small set-ups, figures 7 and 8 and table 1, show beside it
