"""Checks of one scheme: it compiles, is deterministic, conserves bytes, tolerates lost control frames, does bounded work."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock_net.errors import InvariantError, PenstockError, SchemeError, SpecError
from penstock_net.testing.cases import digest, run_case
from penstock_net.units import format_time

if TYPE_CHECKING:
    from penstock_net.results.run import Run
    from penstock_net.sim.simulate import Progress

SMALL = {"kind": "leaf_spine", "hosts": 8, "tors": 2, "spines": 2, "buffer": "2MB"}
HOPS_AT_MOST = 5.0  # times the instructions (here: time) of fifo on the same traffic
GIVE_UP_S = 300


@dataclass(frozen=True)
class Check:
    """One check of a scheme."""

    name: str
    passed: bool
    message: str = ""


def incast_case(scheme: str, largest: int = 60_000, long: int = 300_000, **more: Any) -> dict[str, Any]:
    """Fifty flows, most of them to one host, a few long ones across."""
    r = random.Random(3)
    flows = []
    for i in range(45):
        dst = 0 if i < 30 else 5
        flows.append([r.choice([h for h in range(8) if h != dst]), dst, r.randint(1, largest), f"{r.randint(0, 20000)}ns"])
    flows += [[i, (i + 4) % 8, long, f"{i}us"] for i in range(5)]
    return {"topology": SMALL, "flows": flows, "scheme": scheme, **more}


def check_scheme(scheme: str | Path) -> Iterator[Check]:
    """Check a scheme by name or file, one result after the other; stops when a check fails that the others depend on."""
    name = str(Path(scheme).resolve()) if str(scheme).endswith(".py") else str(scheme)
    built = attempt("compiles and composes", lambda: build(name))
    yield built
    if not built.passed:
        return
    expected: dict[str, Any] = {}
    python = attempt("runs as plain Python, with every index and integer checked", lambda: as_python(name, expected))
    yield python
    if not python.passed:
        return
    ran = attempt("runs, finishes every flow, and conserves bytes", lambda: finishes(incast_case(name)))
    yield ran
    if not ran.passed:
        return
    yield attempt("gives the same results twice and on 1, 2 and 3 threads", lambda: repeats(name))
    yield attempt("gives the same results as plain Python", lambda: as_expected(name, expected))
    lossy = incast_case(name, topology={**SMALL, "loss": 0.01})
    yield attempt("delivers everything when links lose packets", lambda: finishes(lossy))
    yield attempt("never gets stuck when control frames are lost", lambda: finishes(incast_case(name, control_loss=0.1)))
    yield attempt("loses no count beside open-loop flows", lambda: beside_open_loop(name))
    yield attempt("leaves a lone flow alone", lambda: lone_flow(name))
    yield attempt("calls no Python from its hooks", lambda: no_python(name))
    yield attempt("does a bounded amount of work per packet", lambda: bounded(name))


def attempt(name: str, action: Callable[[], str | None]) -> Check:
    """A check that passes when its action returns nothing or a remark starting with "note: "."""
    try:
        message = action() or ""
    except (PenstockError, InvariantError) as error:
        return Check(name, False, str(error))
    return Check(name, not message or message.startswith("note: "), message)


def build(name: str) -> str | None:
    from penstock_net.composition import parse
    from penstock_net.sim.core.build import struct_sizes
    from penstock_net.sim.layouts import LEVELS

    parse(name).compose(struct_sizes(), LEVELS)
    return None


def finishes(case: dict[str, Any]) -> str | None:
    run = timed(case)
    left = run.flows.height - run.summary["flows_finished"]
    if left:
        return f"{left} of {run.flows.height} flows never finished: something is paused or waits for ever"
    reasons = [r for r in run.ports["drop_reason"].drop_nulls() if "link loss" not in r]
    return f"note: packets were dropped and sent again ({reasons[0]})" if reasons else None


def beside_open_loop(name: str) -> str | None:
    """That every byte of a flow that nobody answers was received or lost is checked in every run."""
    case = incast_case(name, topology={**SMALL, "loss": 0.01})
    named = [dict(zip(("src", "dst", "bytes", "start"), flow)) for flow in case["flows"]]
    case["flows"] = [flow | ({"open_loop": True, "rate": "30Gbps"} if i % 3 == 0 else {}) for i, flow in enumerate(named)]
    try:
        run = timed(case)
    except SpecError as error:
        if not error.path.endswith(".open_loop"):
            raise
        return f"note: {error}"
    rest = run.flows.join(run.frame("open_loop"), on="flow_id", how="anti")
    left = rest["finish_ns"].null_count()
    return f"{left} of {rest.height} flows beside open-loop flows never finished" if left else None


def repeats(name: str) -> str | None:
    case = incast_case(name)
    first = digest(timed(case))
    for threads in (1, 2, 3):
        other = digest(timed(case, threads))
        if other != first:
            return (
                f"{differing(first, other)} differ on {threads} threads: state is read before it is written, or shared "
                f"between nodes"
            )
    if any("never acted" in w for w in first["warnings"]):
        return f"note: {first['warnings'][0]}; the comparison says little"
    return None


def differing(a: dict[str, Any], b: dict[str, Any]) -> str:
    return ", ".join(k for k in a if a[k] != b.get(k))


def timed(case: dict[str, Any], threads: int = 1) -> Run:
    """The case's run.  SchemeError: it takes longer than GIVE_UP_S."""
    began = time.monotonic()

    def look(progress: Progress) -> None:
        if time.monotonic() - began > GIVE_UP_S:
            raise SchemeError(
                f"after {GIVE_UP_S} s the run is at {format_time(progress.time_ps)} only", remedy="are its timers far too short?"
            )

    return run_case(case, threads, look)


def python_case(name: str) -> dict[str, Any]:
    """For the interpreted core, which is some hundred times slower."""
    return incast_case(name, largest=25_000, long=100_000)


def as_python(name: str, into: dict[str, Any]) -> str | None:
    """Run the case in the interpreted core, in a process of its own; adds its digest to `into`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "case.json"
        file.write_text(json.dumps(python_case(name)))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "penstock_net.testing.cases", str(file), "--interpreted"],
                capture_output=True,
                text=True,
                timeout=GIVE_UP_S,
                env=dict(os.environ),
            )
        except subprocess.TimeoutExpired:
            return f"the interpreted run took more than {GIVE_UP_S} s"
    if done.returncode:
        lines = [line.strip() for line in done.stderr.strip().splitlines()]
        return lines[-1].removeprefix("penstock_net.errors.SchemeError: ") if lines else "it failed"
    into.update(json.loads(done.stdout.splitlines()[-1]))  # what the scheme prints comes before
    return None


def as_expected(name: str, expected: dict[str, Any]) -> str | None:
    compiled = json.loads(json.dumps(digest(timed(python_case(name)))))
    if compiled != expected:
        what = differing(compiled, expected)
        return f"{what} differ: state is read before it is set, or two calls in one expression depend on their order"
    return None


def lone_flow(name: str) -> str | None:
    case = {"topology": SMALL, "flows": [[0, 7, 500_000, "0s"]], "scheme": name}
    slowdown = float(timed(case).flows["slowdown"][0])
    return None if slowdown == 1.0 else f"note: slowdown {slowdown:.4f} (1 without headers or limits of the scheme's own)"


def no_python(name: str) -> str | None:
    from penstock_net.composition import declared
    from penstock_net.composition.load import write_c
    from penstock_net.testing.hot_code import python_calls

    if not name.endswith(".py"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        source = write_c(declared(name), Path(folder))
        calls = python_calls(source.read_text())
    return f"{calls[0].function} calls {calls[0].names}" if calls else None


def bounded(name: str) -> str | None:
    from penstock_net.testing.bench import measure

    ours, plain = (min(measure("ls128", s, 1, 150)["cpu_s"] for _ in range(3)) for s in (name, "fifo"))
    if ours > HOPS_AT_MOST * plain:
        return (
            f"{ours / plain:.1f} times the time of fifo on the same traffic; at most {HOPS_AT_MOST:g} is reasonable: is "
            f"there a loop over flows?"
        )
    return f"note: {ours / plain:.2f} times the time of fifo"
