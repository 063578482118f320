"""The three industry workloads of section 2 of BFC (NSDI 2022): name, legend, colour and dash, and line rates."""

from dataclasses import dataclass

from penstock_net import SizeDistribution
from penstock_papers.style import BLUE, DASHES, GREEN, RED

GBPS = (10, 40, 100)
RTT_US = 12.0  # figure 2: "assuming a 12 us RTT"


@dataclass(frozen=True)
class Workload:
    """A size distribution by penstock's name, and how the figures show it."""

    name: str
    legend: str
    colour: str
    dash: object

    @property
    def sizes(self) -> SizeDistribution:
        """The distribution itself."""
        return SizeDistribution.load(self.name)


WORKLOADS = (
    Workload("google", "Google", BLUE, DASHES[0]),
    Workload("facebook_hadoop", "Facebook Hadoop", RED, DASHES[1]),
    Workload("websearch", "WebSearch", GREEN, DASHES[3]),
)


def bdp_bytes(gbps: float, rtt_us: float = RTT_US) -> float:
    """The bandwidth-delay product."""
    return gbps * rtt_us * 1e3 / 8
