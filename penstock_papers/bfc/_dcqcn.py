"""An unknown of the paper: the parameters of its DCQCN, and how they are chosen. Written down before the candidates were run.

Section 6.2.1 has "Kmin = 100KB and Kmax = 400KB", and that "All systems were configured to achieve full throughput for a single
flow on an unloaded network". Its simulator, the ns-3 of DCQCN's authors [5], is public; what the BFC authors set there is not.

Candidates, all with these thresholds and the paper's PFC:

* window: one bandwidth-delay product, scaled with the rate, as DCQCN+win of HPCC's section 5.1 (`dcqcn_vwin` of its simulator),
  or none
* clamp: the target follows every cut (DCQCN's paper; CLAMP_TARGET_RATE 1 in its simulator), or only the first after an increase
  (0 in HPCC's simulator)
* cut: the first mark cuts the rate (DCQCN's paper), or only starts the clocks (HPCC's simulator)
* timers and increases: those of DCQCN's paper; of HPCC's simulator as its script sets them, `ns3`, or with the paper's intervals,
  `ns3_paper`; with notifications (CNPs) at most every 50 us and increases every 60 us, as the public configuration of [5], `cnp`,
  where every notification cuts, so that there is no choice of the first cut

Table 1 chooses: the mean over its 20 seeds of the long flow's throughput, 10.0 %, and that of the 99th percentile of the delay
of single packets, 30.4 us. The candidate with the smallest `distance` is DCQCN in all figures of the paper. Held out are the
claims of all other figures that show DCQCN: 9 to 12, 26 and the abstract.
"""

import itertools
import math
from typing import Any

THROUGHPUT, DELAY_US = 10.0, 30.4  # of table 1
HPCC_RATES: dict[str, Any] = {"fast_recovery": 1, "r_ai": "20Mbps", "r_hai": "200Mbps", "min_rate": "1Gbps"}
TIMERS: dict[str, dict[str, Any]] = {
    "paper": {},
    "ns3": {"alpha_interval": "1us", "decrease_interval": "4us", "increase_interval": "300us", **HPCC_RATES},
    "ns3_paper": {"alpha_interval": "50us", "decrease_interval": "50us", "increase_interval": "55us", **HPCC_RATES},
    "cnp": {"cnp_interval": "50us", "increase_interval": "60us"},
}


def candidates() -> dict[str, dict[str, Any]]:
    """The [[scheme]] table of each by its name, such as "paper, window, no clamp, cut"."""
    found = {}
    for (timers, keys), window, clamp, cut in itertools.product(TIMERS.items(), (False, True), (True, False), (True, False)):
        if timers == "cnp" and not cut:
            continue
        words = (("no window", "window")[window], ("no clamp", "clamp")[clamp], ("no cut", "cut")[cut])
        table = {"name": "dcqcn", **keys, "window": window, "clamp_target": clamp, "cut_at_once": cut}
        found[", ".join((timers, *words))] = table
    return found


def distance(throughput: float, delay_us: float) -> float:
    """Of a candidate's two means from those of table 1, both by their natural logarithms: 0.69 is a factor of two in one."""
    return math.hypot(math.log(throughput / THROUGHPUT), math.log(delay_us / DELAY_US))
