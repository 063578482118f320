"""Completion times of the same flows in another simulator, beside those of a run.

    found = ps.compare(run, "fct.csv")
    found.table                    quantiles of the run as multiples of the other's, by class of size
    found.flows                    both completion times of every flow, and their ratio
    penstock_net.plot.agreement(found)

Two simulators can agree in every quantile and differ in every flow, or the other way round: the table has both.
"""

import os
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import MAX_TIME_PS, Table, as_path, decimal, inside, left_out, read_text, whole_cell
from penstock_net.results.links import node_names
from penstock_net.results.run import Run
from penstock_net.results.rundir import one_run
from penstock_net.units import format_size

QUANTILES = (5, 25, 50, 75, 95, 99)
SIZES = (10_000, 100_000, 1_000_000)  # upper ends of the classes of size, B
NEAR_NS = 1000.0  # starts of one flow in both may differ by so much, since others round times
EXAMPLE = "src,dst,bytes,start_us,fct_us"
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
HPCC = re.compile(r"[0-9a-f]{8}\s+[0-9a-f]{8}(\s+\d+){6}", re.ASCII)  # a line of the HPCC simulator's fct.txt


@dataclass(frozen=True)
class Comparison:
    """A run beside another simulator, flow by flow.

    run        the run
    reference  the file of the other's completion times
    flows      a row per flow that has finished in both: flow_id, class, src, dst, bytes, start_ns, fct_ns, reference_start_ns,
               reference_fct_ns, ratio (fct_ns / reference_fct_ns), in the order of the run
    only_run, only_reference    numbers of finished flows that the other one does not have
    shift_ns   the other's times less those of the run, of the flow in the middle
    apart      how many flows start more than 1 us apart, the shift aside
    """

    run: Run
    reference: str
    flows: pl.DataFrame
    only_run: int
    only_reference: int
    shift_ns: float
    apart: int

    @property
    def table(self) -> pl.DataFrame:
        """A row for all flows, and one per class of size that has any.

        size          such as "10KB..100KB"; "all"
        flows         how many
        mean, p5 ...  the run's mean or quantile of the completion time / the other's
        flow_p5, flow_p50, flow_p95    quantiles of the ratio of each flow's own completion times: the spread per flow
        """
        rows = [_row("all", self.flows)]
        for low, high in zip((0, *SIZES), (*SIZES, None)):
            part = self.flows.filter((pl.col("bytes") >= low) & (pl.lit(True) if high is None else pl.col("bytes") < high))
            if len(part):
                rows.append(_row(f"{format_size(low) if low else ''}..{format_size(high) if high else ''}", part))
        return pl.DataFrame(rows)

    def worst(self, count: int = 5) -> pl.DataFrame:
        """The flows whose completion times differ most, as a ratio either way."""
        return self.flows.sort(pl.col("ratio").log().abs(), descending=True, maintain_order=True).head(count)

    @property
    def warnings(self) -> list[str]:
        """What makes the comparison doubtful."""
        found = []
        if self.only_run:
            found.append(f"{self.only_run} finished flows of the run are not in {self.reference}")
        if self.only_reference:
            found.append(f"{self.only_reference} flows of {self.reference} are not among the finished flows of the run")
        if self.apart:
            found.append(f"{self.apart} of {len(self.flows)} flows do not start at the same time in both (1 us and more apart)")
        return found


def compare(
    run: Run | str | os.PathLike[str],
    reference: str | os.PathLike[str],
    clock: Literal["receiver", "sender"] = "receiver",
) -> Comparison:
    """Set the completion times of another simulator beside those of a run.

    run        a run, or its directory
    reference  a CSV file with the columns src, dst, bytes, start and fct, the last two with their unit (start_us, fct_ns; ns, us,
               ms or s), hosts by name or number; or fct.txt of the HPCC simulator and its forks
    clock      when a flow ends in the run: "receiver": when its last byte has arrived; "sender": when its last acknowledgement
               has, as in htsim and in the HPCC simulator.  Use that of the other simulator

    A flow is the one with the same source, destination and size; of several, in the order of their starts.
    SpecError: no such run or file, a row that is not such a flow, no flow in common.
    """
    chosen = run if isinstance(run, Run) else Run.load(one_run(Path(as_path(run, "run", "a run directory"))))
    place = os.fspath(as_path(reference, "reference", "a CSV file"))
    theirs = _read(place, chosen)
    ours = chosen.by_clock(chosen.flows, clock)
    if clock == "sender":
        ours = ours.with_columns(fct_ns=pl.col("acked_ns") - pl.col("start_ns"))
    ours = ours.filter(pl.col("fct_ns").is_not_null())
    if not len(ours):
        raise SpecError(f'run "{chosen.label}": no flow has finished', remedy="let it run longer")
    both = _match(ours, theirs)
    if not len(both):
        raise SpecError(
            "has no flow with the source, destination and size of one in the run", place=place, remedy="are they the same flows?"
        )
    shift = both["reference_start_ns"] - both["start_ns"]
    middle = float(shift.sort()[len(shift) // 2])
    flows = both.with_columns(ratio=pl.col("fct_ns") / pl.col("reference_fct_ns")).sort("flow_id")
    return Comparison(
        run=chosen,
        reference=place,
        flows=flows,
        only_run=len(ours) - len(both),
        only_reference=len(theirs) - len(both),
        shift_ns=middle,
        apart=int(((shift - middle).abs() > NEAR_NS).sum()),
    )


def _row(size: str, flows: pl.DataFrame) -> dict[str, Any]:
    ours, theirs = flows["fct_ns"].to_numpy(), flows["reference_fct_ns"].to_numpy()
    row: dict[str, Any] = {"size": size, "flows": len(flows), "mean": float(ours.mean() / theirs.mean())}
    row |= {f"p{q}": float(np.percentile(ours, q) / np.percentile(theirs, q)) for q in QUANTILES}
    return row | {f"flow_p{q}": float(np.percentile(flows["ratio"].to_numpy(), q)) for q in (5, 50, 95)}


def _match(ours: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
    """The flows of both.

    Those of one source, destination and size in the order of their starts if both have as many of them; else those that start at
    the same time, the usual difference aside.
    """
    key = ["src", "dst", "bytes"]
    ours = ours.select("flow_id", pl.col("class").cast(pl.String), *(pl.col(k).cast(pl.Int64) for k in key), "start_ns", "fct_ns")
    counts = ours.group_by(key).len("ours").join(theirs.group_by(key).len("theirs"), on=key)
    equal = counts.filter(pl.col("ours") == pl.col("theirs")).select(key)

    def numbered(frame: pl.DataFrame, start: str) -> pl.DataFrame:
        return (
            frame.join(equal, on=key, how="semi")
            .sort(start, maintain_order=True)
            .with_columns(nth=pl.int_range(pl.len()).over(key))
        )

    pairs = numbered(ours, "start_ns").join(numbered(theirs, "reference_start_ns"), on=[*key, "nth"]).drop("nth")
    if len(pairs):
        shift = float(np.median((pairs["reference_start_ns"] - pairs["start_ns"]).to_numpy()))
    else:
        shift = float(theirs["reference_start_ns"].to_numpy().min() - ours["start_ns"].to_numpy().min())
    rest = ours.join(counts.join(equal, on=key, how="anti"), on=key, how="semi").sort("start_ns")
    others = theirs.join(equal, on=key, how="anti").with_columns(at=pl.col("reference_start_ns") - pl.lit(shift)).sort("at")
    near = rest.join_asof(
        others, left_on="start_ns", right_on="at", by=key, strategy="nearest", tolerance=NEAR_NS, check_sortedness=False
    )
    near = near.drop_nulls("reference_fct_ns").unique([*key, "at"], keep="first", maintain_order=True)
    return pl.concat([pairs, near.select(pairs.columns)])


def _read(place: str, run: Run) -> pl.DataFrame:
    """src, dst, bytes, reference_start_ns, reference_fct_ns of a file.  SpecError with file:line: it has no such flows."""
    lines = [line for line in read_text(place, "reference").splitlines() if line.strip() and line[0] != "#"]
    rows = _hpcc(place, lines) if lines and HPCC.fullmatch(lines[0].strip()) else _csv(place, node_names(run))
    if not rows:
        raise SpecError("there are no flows in it", place=place, remedy="is the file truncated?")
    columns = ("src", "dst", "bytes", "reference_start_ns", "reference_fct_ns")
    types = (pl.Int64, pl.Int64, pl.Int64, pl.Float64, pl.Float64)
    return pl.DataFrame(rows, schema=dict(zip(columns, types)), orient="row")


def _csv(place: str, names: list[str]) -> list[tuple[int, int, int, float, float]]:
    table = Table(place, EXAMPLE, "reference")
    where, found = table.where(table.header_line), {}
    for name in ("src", "dst", "bytes"):
        found[name] = [at for at, column in enumerate(table.columns) if column == name]
    units = {}
    for name in ("start", "fct"):
        found[name] = [at for at, column in enumerate(table.columns) if column in {f"{name}_{unit}" for unit in UNITS}]
        if name in table.columns:
            raise SpecError("the unit is missing", path=name, place=where, remedy=f"call the column {name}_ns, _us, _ms or _s")
    for name, places in found.items():
        if len(places) != 1:
            wanted = f"{name}_us" if name in ("start", "fct") else name
            what = "occurs twice" if places else "is missing"
            raise SpecError(f"the column {wanted} {what}", place=where, remedy=f'a header is "{EXAMPLE}"')
        units[name] = UNITS.get(table.columns[places[0]].rpartition("_")[2], 1)
    if extra := [column for at, column in enumerate(table.columns) if all([at] != places for places in found.values())]:
        left_out(place, f"columns {', '.join(extra)}")
    number_of = {name: number for number, name in enumerate(names)}

    def host(cell: str, what: str) -> int:
        if cell in number_of:
            return number_of[cell]
        if not (cell.isascii() and cell.isdecimal()):
            raise SpecError("no such host", path=what, value=cell, remedy=nearest(cell, names[:1000]))
        return whole_cell(cell, what, 0, 2**31)

    def time(cell: str, what: str) -> float:
        exact = decimal(cell, what) * units[what]
        if not (Fraction(0) <= exact <= MAX_TIME_PS // 1000):
            raise SpecError("is no time of a simulation", path=what, value=cell)
        return float(exact)

    rows = []
    for line, cells in table.rows():
        with inside(place=table.where(line)):
            src, dst, size, start, fct = (cells[found[name][0]] for name in ("src", "dst", "bytes", "start", "fct"))
            if time(fct, "fct") <= 0:
                raise SpecError("must be more than 0", path="fct", value=fct, remedy="leave out flows that have not finished")
            rows.append(
                (host(src, "src"), host(dst, "dst"), whole_cell(size, "bytes", 1, 2**53), time(start, "start"), time(fct, "fct"))
            )
    return rows


def _hpcc(place: str, lines: list[str]) -> list[tuple[int, int, int, float, float]]:
    """Lines `sip dip sport dport bytes start fct ideal` of the HPCC simulator: addresses in hexadecimal, times in ns.

    Host i has the address 11.(i / 256).(i % 256).1.
    """
    rows = []
    for number, line in enumerate(lines, start=1):
        if not HPCC.fullmatch(line.strip()):
            raise SpecError(f'"{line[:60]}" is no flow', place=place, remedy=f"flow {number} of the file: is it truncated?")
        sip, dip, _, _, size, start, fct, _ = line.split()
        src, dst = ((int(address, 16) >> 8) & 0xFFFF for address in (sip, dip))
        if int(fct) < 1 or int(size) < 1:
            raise SpecError(
                f'"{line[:60]}": bytes and fct must be more than 0', place=place, remedy=f"see flow {number} of the file"
            )
        rows.append((src, dst, int(size), float(start), float(fct)))
    return rows
