"""BFC with the options of appendix A (NSDI 2022) on the set-up of `_fabric`, and what figures 20, 24 and 25 share.

The options change the variant of BFC that `_variants` names for the ns-3 part of the paper. BFC + sampling is the hardware model
without its other limits, with the queues of that variant.
"""

from collections.abc import Iterable
from typing import Any

import polars as pl

from penstock_papers import ages
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc._fabric import NS3, Scheme
from penstock_papers.bfc._variants import NS3_QUEUES
from penstock_papers.cache import Runs
from penstock_papers.style import log_axis

_NIC: dict[str, Any] = {  # with a window of one bandwidth-delay product
    "name": "bfc+window_cap",
    "bfc": {"nic_pauses": False},
    "dqa": NS3_QUEUES,
}
BFC_NIC = Scheme("BFC - NIC", _NIC, nth=1, like="bfc", run="bfc_nic")
_SAMPLING = {"name": "bfc_tofino2:ideal", "recirculated": 0.5, "assignment": "reserved"}  # as NS3_QUEUES: it knows no other
BFC_SAMPLING = Scheme("BFC + sampling", _SAMPLING, nth=2, like="bfc", run="bfc_sampling")
BFC_LABEL = Scheme("BFC + IncastLabel", {**NS3, "incast_label": True}, nth=1, run="bfc_label")


def lines(axes: Any, data: pl.DataFrame, traffic: str, schemes: Iterable[Scheme], panel: str, **looks: Any) -> None:
    """A line for each scheme of one panel of data.parquet; `looks` replace those of the scheme."""
    for scheme in schemes:
        line = fabric.curve(data, traffic, scheme.label, panel).drop_nulls()
        axes.plot(line["x"], line["y"], label=scheme.legend, **{**scheme.style, **looks})


def slowdown_axes(axes: Any, x_text: Any = None, ylabel: str = "FCT slowdown") -> None:
    """Logarithmic axes for slowdowns, which begin at 1; `x_text` writes the sizes or degrees."""
    log_axis(axes.xaxis, x_text)
    log_axis(axes.yaxis, None, (1, 2, 5) if axes.get_ylim()[1] < 200 else (1,))
    axes.set_ylim(bottom=0.9)
    axes.set(ylabel=ylabel)


def of_class(runs: Runs, label: str, name: str) -> pl.LazyFrame:
    """Bytes, slowdown by the sender's clock and payload sent again, of the flows of one class that count."""
    inside = pl.col("class").cast(pl.String) == name
    return ages.counted(runs, label, "sender").filter(inside).select("bytes", "retransmitted_bytes", "slowdown")
