"""BFC: Backpressure Flow Control (Goyal et al., NSDI 2022), figure by figure."""

from penstock_papers.bfc._variants import IMPLEMENTED as IMPLEMENTED
from penstock_papers.bfc._variants import VARIANTS as VARIANTS
from penstock_papers.bfc._variants import VARIANTS_REASON as VARIANTS_REASON

TITLE = "Backpressure Flow Control (BFC), NSDI 2022"
SCHEMES = "`bfc`, `bfc_tofino2`, `dqa`, `ideal_fq`, `window_cap`"
WINDOW = "arrivals"
WINDOW_REASON = "the paper names none; its authors' simulator stops when arrivals stop, without warm-up and without a drain"

# figures, tables and other claims of the paper that have no experiment yet, with what they show
MISSING = {"fig01": "buffers and rates of switches by year, from their data sheets"}
