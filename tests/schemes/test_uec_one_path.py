"""Ultra Ethernet's transport with one entropy, so that each flow has one path, beside uet-htsim (40ccb05): the same paths.

`data/uec_one_path.csv` is what that simulator does (`-paths 1`) with the permutation of 16 hosts of its validation, 2 MB a flow:
by control, seed and flow the way that data (`there`) and answers (`back`) took, when the sender knew that all had arrived (`us`),
and how many packets of the run were sent again.  Which packet of two is cut, and which one is marked, is drawn, and a flow's time
depends on it: so there are three runs there, whose draws differ from 20 us on, and six here.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from test_uec_beside_htsim import HOST, PAIRS, percentiles

from penstock_net.composition import parse
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import fat_tree
from penstock_net.workload import flow_list

THERE = pl.read_csv(Path(__file__).with_name("data") / "uec_one_path.csv")
RUNS = THERE.select("control", "seed").unique(maintain_order=True).rows()
DRAWS = ("first", "second", "third")


def runs(control, paths):
    topo = fat_tree(k=4)
    flows = flow_list(topo, [(src, dst, 2_000_000, "0us") for src, dst in PAIRS])
    scheme, measure = parse(f"uec:{control}"), Measure(sample="0s")
    return [simulate(topo, flows, scheme, seed=seed, host=HOST, measure=measure, paths=paths) for seed in range(1, 7)]


@pytest.mark.parametrize("control, seed", RUNS)
def test_on_the_paths_of_the_simulator(control, seed):
    theirs = THERE.filter(control=control, seed=seed)
    times = [theirs[f"{draw}_us"].to_numpy() for draw in DRAWS]
    again = [theirs[f"{draw}_again"][0] for draw in DRAWS]
    ways = [theirs.select("flow", direction=pl.lit(way), path=way).drop_nulls() for way in ("there", "back")]
    made = runs(control, pl.concat(ways))
    quantiles = np.mean([np.percentile(each, (50, 95, 100), method="higher") for each in times], axis=0)
    assert np.mean([percentiles(run) for run in made], axis=0) == pytest.approx(quantiles, rel=0.05)
    assert np.mean([run.summary["retransmissions"] for run in made]) == pytest.approx(np.mean(again), rel=0.05)
    here = np.mean([run.flows["acked_ns"].to_numpy() / 1000 for run in made], axis=0)
    ratios = here / np.mean(times, axis=0)
    assert np.median(ratios) == pytest.approx(1, abs=0.02) and ratios == pytest.approx(np.ones(len(PAIRS)), abs=0.1)
