"""Common set-up of the figures of Backdraft (NSDI 2022): servers with virtual switches behind one switch, schemes, counters.

Every server has a virtual switch and `apps` applications behind it. A UDP-like flow is one without congestion control: it sends
at the rate of its application until it ends, regardless of losses; lost data are retransmitted (go-back-N), which UDP would not
do, so throughput is measured as the data that the virtual switch delivers to an application. Packets have 1000 B of payload and
48 B of headers; the paper does not give the size of its UDP packets, so its counts per second are compared in proportion. The
lossy virtual switch is that of BESS: one queue of 1024 packets for each application.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.frames import Scheme

PREVENTS = "prevents packet loss"  # the paper of Backdraft, in sections 1, 3, 6.2 and in figure 19
APPLICATION, VSWITCH, SWITCH = "application", "virtual switch", "switch"


@dataclass(frozen=True)
class Servers:
    """Servers at one switch, with the number of applications in each, and the rates at which they send and take packets."""

    servers: int
    apps: int = 1
    rate: str = "100Gbps"
    app_rate: str = "100Gbps"
    delay: str = "1us"
    vswitch_buffer: str = "4MB"

    def app(self, server: int, which: int = 0) -> int:
        """The node of an application."""
        return server * self.apps + which

    def table(self, slow: dict[int, str] | None = None, paced: dict[int, str] | None = None) -> dict[str, Any]:
        """[topology]: `slow` applications take packets at this rate, `paced` ones send at this rate."""
        changes = [
            {"time": "0s", "a": f"host{app}", "b": f"vswitch{app // self.apps}", "rate": rate, "of": f"host{app}"}
            for app, rate in (paced or {}).items()
        ]
        return {
            "kind": "star",
            "hosts": self.servers,
            "rate": self.rate,
            "delay": self.delay,
            "buffer": "12MB",
            "vswitches": {"apps": self.apps, "rate": self.app_rate, "delay": "500ns", "buffer": self.vswitch_buffer},
            **({"receivers": [{"host": app, "rate": rate} for app, rate in slow.items()]} if slow else {}),
            **({"changes": changes} if changes else {}),
        }

    def place(self) -> pl.Expr:
        """The kind of node `node`."""
        apps = self.servers * self.apps
        return (
            pl.when(pl.col("node") < apps)
            .then(pl.lit(APPLICATION))
            .when(pl.col("node") < apps + self.servers)
            .then(pl.lit(VSWITCH))
            .otherwise(pl.lit(SWITCH))
        )


SLOTS = "1073152B"  # 1024 slots of BESS's queue, full of packets
LOSSY = Scheme("lossy", {"name": "backdraft", "overlay": False, "most": SLOTS, "dqa": {"assignment": "single"}}, like="fifo")
BACKDRAFT = Scheme("Backdraft", {"name": "backdraft"}, like="backdraft")
LOSSLESS = Scheme("lossless (PFC)", {"name": "pfc"}, like="pfc")
OVER_PFC = Scheme("Backdraft", {"name": "backdraft+pfc"}, like="backdraft")


def spec(
    schemes: Iterable[Scheme],
    topology: dict[str, Any],
    workload: Sequence[dict[str, Any]],
    duration: str,
    drain: bool = False,
    sample: str = "100us",
    host: dict[str, Any] | None = None,
    **measure: Any,
) -> Spec:
    """The spec of one traffic pattern and several schemes."""
    return {
        "run": {"duration": duration, "seed": 1, "drain": drain},
        "topology": topology,
        "host": host or {},
        "scheme": [{**scheme.table, "label": scheme.legend} for scheme in schemes],
        "workload": list(workload),
        "measure": {"sample": sample, "pauses": True, **measure},
    }


def endless(flows: Sequence[tuple[int, int]], name: str) -> dict[str, Any]:
    """A [[workload]] of flows from application to application that outlast the run."""
    return {"kind": "list", "flows": [[src, dst, "10GB"] for src, dst in flows], "class": name}


# -- statistics of a run


def ports(runs: Runs, label: str, servers: Servers) -> pl.DataFrame:
    """Every port with the kind of its node."""
    return runs.scan(label, "ports").with_columns(servers.place().alias("place")).collect()


def delivered(runs: Runs, label: str, app: int) -> float:
    """Data delivered to an application by its virtual switch, Gbit/s over the whole run, headers included."""
    port = runs.scan(label, "ports").filter(pl.col("peer") == app).collect().row(0, named=True)
    return (port["tx_bytes"] - port["ack_bytes"] - port["control_bytes"]) * 8 / runs.summary(label)["end_ns"]


def rates(runs: Runs, label: str, app: int) -> pl.DataFrame:
    """ms, rate: data delivered to an application between two samples, Gbit/s."""
    port = runs.scan(label, "ports").filter(pl.col("peer") == app).select("node", "port")
    series = runs.scan(label, "port_series").join(port, on=["node", "port"]).sort("time_ns")
    data = pl.col("tx_bytes") - pl.col("ack_bytes") - pl.col("control_bytes")
    rate = data.diff() * 8 / pl.col("time_ns").diff()
    return series.select((pl.col("time_ns") / 1e6).alias("ms"), rate.alias("rate")).drop_nulls().collect()


def port_pauses(runs: Runs, label: str, servers: Servers) -> dict[str, int]:
    """How often PFC held an egress of the network to a server, and of a server to the network: frames of the server's virtual
    switch, and frames of the switch. Overlay pauses are not among them: they hold flows."""
    table = runs.scan(label, "pauses").filter(pl.col("paused") & (pl.col("queue") == -1))
    held = table.with_columns(servers.place().alias("place")).collect()
    from_network = held.filter((pl.col("place") == VSWITCH) & (pl.col("port") == servers.apps))
    return {VSWITCH: held.filter(pl.col("place") == SWITCH).height, SWITCH: from_network.height}


def total(table: pl.DataFrame, column: str, place: str | None = None) -> float:
    """Sum of a counter of ports, of all nodes or those of one kind."""
    kept = table if place is None else table.filter(pl.col("place") == place)
    return float(kept[column].sum())


def line(data: pl.DataFrame, panel: str, series: str) -> pl.DataFrame:
    """The rows of one series in one panel by x."""
    return frames.chosen(data, panel=panel, series=series).sort("x")


def value(data: pl.DataFrame, panel: str, series: str, x: float = 0.0) -> float:
    """One number of data.parquet."""
    return frames.value(data, panel=panel, series=series, x=x)
