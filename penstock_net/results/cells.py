"""The columns of the comparison table: their headings, and values as text."""

from collections.abc import Sequence
from typing import Any

from penstock_net.results.limits import FIXED, Limits
from penstock_net.units import format_size, format_time

HEADINGS = {
    "scheme": "scheme",
    "short_p50": "short p50",
    "short_p99": "short p99",
    "long_p50": "long p50",
    "long_p99": "long p99",
    "all_p99": "all p99",
    "incast_p99": "incast p99",
    "max_buffer_bytes": "max buffer",
    "pfc_pause_fraction": "PFC paused",
    "drain_ns": "drain",
    "drops": "drops",
    "flows": "flows",
    "unfinished": "not done",
    "packet_hops_per_s": "hops /s",
    "wall_s": "wall",
}
SLOWDOWNS = ("short_p50", "short_p99", "long_p50", "long_p99", "all_p99", "incast_p99")
COUNTS = ("flows", "unfinished", "drops")
OF_JOB = {  # of a training job; " of " and its name follow: heading, title of an axis, and the factor to its unit
    "step_ns": ("step", "Step time{} (ms)", 1e-6),
    "exposed_ns": ("exposed", "Exposed communication{} (ms)", 1e-6),
    "bus_bandwidth_bps": ("bus bandwidth", "Bus bandwidth{} (Gbit/s)", 1e-9),
}


def note(limits: Limits = FIXED) -> str:
    """What the columns mean."""
    return (
        f"slowdown = FCT / FCT alone in the empty network;{' ' if limits == FIXED else chr(10)}{limits};\n"
        "short, long and all: without incast, if there is other traffic; "
        "flows that started, buffers and pauses in the measurement window;\n"
        "drain: from its end to the end of the run"
    )


def of_job(name: str) -> tuple[str, str] | None:
    """("step_ns", "JOB") of the statistic "step_ns of JOB"; None: it is of no job."""
    kind, of, job = name.partition(" of ")
    return (kind, job) if of and kind in OF_JOB else None


def is_ratio(name: str) -> bool:
    """Whether a statistic is a ratio by its name: a slowdown of the comparison table, or the word is in it."""
    return name in SLOWDOWNS or "slowdown" in name


def heading(name: str) -> str:
    """The heading of a statistic."""
    found = of_job(name)
    return f"{OF_JOB[found[0]][0]}, {found[1]}" if found else HEADINGS.get(name, name)


def show(key: str, value: Any) -> str:
    """A cell as text."""
    if value is None:
        return "-"
    if found := of_job(key):
        return bandwidth(value) if found[0] == "bus_bandwidth_bps" else time(value)
    if key == "max_buffer_bytes":
        return format_size(float(f"{value:.3g}"))
    if key == "pfc_pause_fraction":
        return "0" if value == 0 else f"{100 * value:.2g} %"
    if key == "drain_ns" or " fct" in key:
        return format_time(1000 * float(f"{value:.3g}")) if value else "0"
    if key == "wall_s":
        return format_time(round(value, 2) * 10**12) if value >= 1 else f"{value:.2g}s"
    if key == "packet_hops_per_s":
        return f"{value / 1e6:.3g} M"
    if isinstance(value, float):
        if not (key in HEADINGS or is_ratio(key) or not key):
            return f"{value:.4g}"
        return f"{value:.2f}" if value < 100 else f"{value:.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def time(ns: float | None) -> str:
    """A time with four digits."""
    return "-" if ns is None else format_time(round(float(f"{ns:.4g}") * 1000)) if ns else "0"


def bandwidth(bps: float | None) -> str:
    """Bits per second as Gbit/s, with three digits."""
    return "-" if bps is None else f"{bps / 1e9:.3g} Gbit/s"


def mean(name: str, row: dict[str, Any]) -> str:
    """A mean with its interval, as `Sweep.over_seeds` has it: "5.00 (2.10 to 11.9)" of a ratio, "5.0 ± 2.0" of what is none."""
    found, low, high = row["mean"], row["low"], row["high"]
    if found is None:
        return "-"
    if name in COUNTS:
        half = 0 if low is None else high - found
        digits = 0 if half >= 10 or not half else 1
        return f"{found:,.{digits}f}" + (f" ± {half:,.{digits}f}" if half else "")
    text = show(name, found)
    if low is None or low == high:
        return text
    if is_ratio(name) or not name:
        return f"{text} ({show(name, low)} to {show(name, high)})"
    return f"{text} ± {show(name, high - found)}"


def words(parameter: str, among: Sequence[str] = ()) -> str:
    """A parameter in words, for axes and LaTeX: "Load" of workload.0.load; with its place where another one is called so, too."""
    *place, name = parameter.split(".")
    text = name.replace("_", " ")
    text = text.upper() if text in ("mtu", "rto", "k") else text[0].upper() + text[1:]
    same = [other for other in among if other.split(".")[-1] == name]
    return f"{text} ({'.'.join(place)})" if len(same) > 1 or place[0] == "scheme" else text
