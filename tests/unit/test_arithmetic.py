"""Functions of real numbers that schemes have: against the C library, and the same bits in both cores and on every machine."""

import json
import math
import random
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
from penstock_net.sim.interpreted import install
install()
from penstock_net.fabric import arithmetic
def result(name, xs):
    return float.hex(float(getattr(arithmetic, name)(*map(float.fromhex, xs))))
print(json.dumps([[result(name, xs) for xs in given] for name, given in json.load(sys.stdin)]))
"""


def interpreted(values):
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=json.dumps(values), capture_output=True, text=True, check=True)
    return [[float.fromhex(x) for x in found] for found in json.loads(done.stdout)]


def numbers(low, high, count=400):
    r = random.Random(1)
    return [r.uniform(low, high) for _ in range(count)]


def test_they_are_as_exact_as_the_c_library():
    powers = [10.0**k for k in range(-300, 301, 7)]
    given = [
        ("exp", [[x] for x in [*numbers(-745, 709.7), *numbers(-1, 1), 0.0, -0.0, 709.78, -745.1, -1e300, 709.0]]),
        ("log", [[x] for x in [*numbers(1e-9, 10), *powers, 1.0, 2.0, 0.5, 5e-324, 2.2e-308, 1.7e308, math.sqrt(2)]]),
        ("sqrt", [[x] for x in [*powers, 0.0, 2.0]]),
        ("power", [[x, y] for x, y in zip(numbers(0, 3), numbers(-20, 20))] + [[2.0, 10.0], [0.0, 0.0], [0.0, 2.5], [1.5, 64.0]]),
        ("floor", [[x] for x in [*numbers(-9, 9), -1.0, 0.0, 2.0, -0.5]]),
        ("ceil", [[x] for x in [*numbers(-9, 9), -1.0, 0.0, 2.0, -0.5]]),
    ]
    found = interpreted([[name, [[x.hex() for x in xs] for xs in values]] for name, values in given])
    for (name, values), results in zip(given, found):
        for xs, result in zip(values, results):
            exact = math.pow(*xs) if name == "power" else getattr(math, name)(*xs)
            tolerance = 4e-14 if name == "power" else 0.0 if name in ("floor", "ceil", "sqrt") else 3e-16
            assert result == pytest.approx(exact, rel=tolerance, abs=5e-324), (name, xs)


def test_known_bits():
    """What every machine must compute."""
    (found,) = interpreted([["exp", [[x.hex()] for x in (1.0, -0.1, 100.0)]]])
    assert [x.hex() for x in found] == ["0x1.5bf0a8b14576ap+1", "0x1.cf46d99d52b3ap-1", "0x1.3494a9b171bf5p+144"]


SCHEME = """
flow_state = {"w": "float64"}


def on_start(me, node, flow, pkt):
    my_flow(me, flow).w = 1.0 + flow.number


def on_ack(me, node, flow, pkt):
    mine = my_flow(me, flow)
    mine.w = exp(log(mine.w + 1.3) * 0.97) + sqrt(mine.w) / power(mine.w + 0.1, 0.3)
    flow.window = 2000 + whole(mine.w * 1e9) % 9000 + floor(mine.w) + ceil(mine.w) + abs(-3)
"""


def test_the_compiled_core_has_the_same(tmp_path):
    from penstock_net.testing.conformance import check_scheme

    file = tmp_path / "mine.py"
    file.write_text(SCHEME)
    found = {check.name: check for check in check_scheme(file)}
    assert found["gives the same results as plain Python"].passed
