"""Floodgate (CoNEXT 2021), abstract and introduction: the buffer "by a factor of 6.6x", average completion times "reduced by
10.1 % - 98.1 %", the 99th percentile "1.1x - 207x lower"; and the two numbers that sections 5 and 6 put first: the buffer
"2.4x - 3.7x" in the incast mix, average completion times "reduced by 30.6 %" on the testbed.

Completion times are those of figure 8: four workloads, three congestion controls. The paper does not say where the buffer's
factor of 6.6 is from; here it is the largest of the incast mix (figure 10, any switch) and of one incast of all hosts by the
number of ToRs (figure 14, the last hop).
"""

from typing import Any

import polars as pl

from penstock_papers import headlines
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import TWICE, Differs
from penstock_papers.floodgate import _mix as mix
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate import fig06, fig08, fig14
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE
from penstock_papers.headlines import Headline, factor
from penstock_papers.sentences import Numbers

TITLE = "The abstract: buffer, average and tail of completion times"
PAPER = "Floodgate, CoNEXT 2021, abstract and sections 1, 5.2, 6.1"
BUFFER = factor("buffer", "largest buffer: DCQCN / DCQCN+Floodgate", "reduces the buffer occupancy by a factor of 6.6x", 6.6)
MIX = Headline(
    "mix",
    "largest buffer in the incast mix: DCQCN / DCQCN+Floodgate",
    "the maximum buffer occupancy is reduced 2.4x-3.7x",
    2.4,
    3.7,
    "the range of section 6.1",
)
TESTBED = Headline(
    "testbed",
    "testbed, average FCT: without / with Floodgate",
    "the average FCT is reduced by 30.6%",
    1 / 0.847,
    1 / 0.388,
    f"{TWICE}, a reduction of 15.3 to 61.2 %",
)
AVERAGE = Headline(
    "average",
    "average FCT: without / with Floodgate",
    "The average FCT is reduced by 10.1%-98.1%",
    1 / 0.899,
    1 / 0.019,
    "the range of section 1",
)
TAIL = Headline(
    "tail",
    "p99 FCT: without / with Floodgate",
    "99th-tail latency can be 1.1x - 207x lower",
    1.1,
    207,
    "the range of section 1",
)
AVERAGE_MOST = factor("average", AVERAGE.what, AVERAGE.paper, AVERAGE.high)
TAIL_MOST = factor("tail", TAIL.what, TAIL.paper, TAIL.high)
SEEDS = setup.LONG_SEEDS
DIFFERS: dict[str, Differs] = {}
NOT_BELOW, MOST = (MIX, AVERAGE, TAIL), (MIX, BUFFER, AVERAGE_MOST, TAIL_MOST, TESTBED)
CLAIMS = (*map(headlines.smallest, NOT_BELOW), *map(headlines.largest, MOST))


def specs(scale: str) -> dict[str, Spec]:
    """The traffics of figures 6, 8 and 14, whose runs these are."""
    load = str(fig06.LOADS[0])
    return {load: fig06.specs(scale)[load], **fig08.specs(scale), **fig14.specs(scale)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """The factors of every workload and control."""
    times = fig08.measure(runs, scale)
    average, tail = (fig08.gains(times, panel, scale) for panel in mix.STATISTICS)
    in_mix = mix_buffers(runs, scale)
    found = {BUFFER: in_mix | last_hops(runs, scale), MIX: in_mix, AVERAGE: average, TAIL: tail, TESTBED: testbed(runs)}
    return pl.concat(headlines.rows(headline, factors) for headline, factors in found.items())


def testbed(runs: Runs) -> dict[str, float]:
    """The gain of figure 6 at the load of the simulations."""
    load = str(fig06.LOADS[0])
    without, with_it = (setup.fct(runs, setup.of(runs, load, scheme))[0] for scheme in (DCQCN, FLOODGATE))
    return {f"load {load}": without / with_it}


def mix_buffers(runs: Runs, scale: str) -> dict[str, float]:
    """DCQCN's largest buffer over that with Floodgate, by workload."""
    found = {}
    for workload in fig08.workloads(scale):
        without, with_it = (setup.max_buffer_mb(runs, setup.of(runs, workload, scheme)) for scheme in (DCQCN, FLOODGATE))
        found[setup.WORKLOADS[workload]] = without / with_it
    return found


def last_hops(runs: Runs, scale: str) -> dict[str, float]:
    """The same at the last hop of one incast of all hosts, by number of ToRs."""
    found = {}
    for tors in fig14.TORS[scale]:
        without, with_it = (
            setup.hop_buffers(runs, setup.of(runs, str(tors), scheme))["ToR-Down"] for scheme in (DCQCN, FLOODGATE)
        )
        found[f"incast, {tors} ToRs"] = without / with_it
    return found


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """No factor is below the range; the largest are those of the abstract, with the bands of figure 8."""
    return headlines.ends(data, NOT_BELOW, MOST)


def plot(data: pl.DataFrame) -> Any:
    """Every factor beside the abstract's numbers."""
    return headlines.plot(data, (BUFFER, MIX, AVERAGE, TAIL, TESTBED))
