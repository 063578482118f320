"""The small cases of every scheme, for tools/checked_build.sh; fails when one ends as it should not.

--small: each scheme with one set of parameters and without its presets, and losses only.
"""

import importlib.util
import sys
import tempfile
from pathlib import Path

from penstock_net.composition import available
from penstock_net.sim.simulate import simulate
from penstock_net.testing.cases import digest, run_case
from penstock_net.topology import build
from penstock_net.workload import collective

ROOT = Path(__file__).resolve().parents[1]


def core_cases():
    """The module of the equality test: its CASES and flows."""
    spec = importlib.util.spec_from_file_location("core_equality", ROOT / "tests/unit/test_core_equality.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(users_scheme: Path, small: bool):
    """(what, case): every scheme, clean, with losses, and with acknowledgements behind the data; a user's file; switches that cut
    through; a dragonfly and a torus, with virtual channels."""
    core = core_cases()
    chosen = [(scheme, parameters) for scheme, parameters, _ in core.CASES]
    if small:
        chosen = [(scheme, parameters) for scheme, parameters in dict(reversed(chosen)).items()]  # the first of each
    named = {part.partition(":")[0] for scheme, _ in chosen for part in scheme.split("+")}
    chosen += [(scheme, {}) for scheme in available() if scheme not in named]
    presets = {f"{scheme}:{preset}": table for scheme, found in available().items() for preset, table in found.presets.items()}
    chosen += [(name, {}) for name in presets if not small]
    chosen += [(str(users_scheme), {})]
    for scheme, parameters in chosen:
        case = {"topology": core.SMALL, "flows": core.incast_flows() + core.LONG, "scheme": scheme, "parameters": parameters}
        name = f"{scheme} {parameters or ''}"
        repeats = presets.get(scheme, {}).get("refresh") != 0  # else the loss of one frame that ends a pause is for ever
        yield f"{name} losses", {**case, "topology": {**core.SMALL, "loss": 0.005}, "control_loss": 0.05 if repeats else 0.0}
        if small:
            continue
        yield name, case
        yield f"{name} queued acknowledgements", {**case, "host": {"ack_priority": "data"}}
    for scheme in ("fifo", "bfc", "hpcc", "dcqcn+floodgate"):
        topology = {**core.SMALL, "cut_through": ["spine*", "tor1"], "loss": 0.001}
        yield (
            f"{scheme} cut-through",
            {"topology": topology, "flows": core.traffic(0.3), "scheme": scheme, "host": {"rto": "200us"}},
        )
    around = [[i, (i + 7) % 10, 30_000, 0] for i in range(10)]
    for scheme, network in (
        ("valiant:ugal+pfc", {"kind": "dragonfly", "p": 1, "a": 2, "h": 2, "groups": 5}),
        ("dimension_order+pfc", {"kind": "torus", "dims": [4, 3]}),
    ):
        yield scheme, {"topology": network, "flows": around, "scheme": scheme, "parameters": {"pfc.priorities": 3}}


def sums_differ(topology) -> bool:
    """Whether an all-reduce in the switches ends differently on two threads, or not at all."""
    topo = build(topology)
    flows = collective(topo, collective="all_reduce", algorithm="in_network", bytes="300KB")
    one, two = (simulate(topo, flows, "bfc", threads=threads) for threads in (1, 2))
    return not one.flows.equals(two.flows) or one.summary["flows_finished"] != topo.hosts


def main(small: bool) -> int:
    failed = int(sums_differ(core_cases().SMALL))
    with tempfile.TemporaryDirectory() as folder:
        users_scheme = Path(folder) / "my_pfc.py"
        users_scheme.write_text((ROOT / "penstock_net/schemes/pfc.py").read_text())
        for name, case in cases(users_scheme, small):
            print(f"case {name}", flush=True)
            one, two = digest(run_case(case)), digest(run_case(case, threads=2))
            if one != two or one["flows_finished"] != len(case["flows"]):
                failed += 1
                print(
                    f"{name}: {one['flows_finished']} of {len(case['flows'])} flows finished, "
                    f"{'same' if one == two else 'other'} results on two threads",
                    flush=True,
                )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main("--small" in sys.argv))
