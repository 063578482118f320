"""Scheme files with random mistakes: tokens of the package's schemes dropped, doubled, exchanged or replaced.

Each is refused with file and line, or it runs; what it does then may be nonsense, but it ends without a signal or a traceback.
"""

import io
import json
import random
import signal
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from drawn import examples
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

import penstock_net
from penstock_net.composition.declare import Declarations
from penstock_net.composition.load import declarations_of, refused
from penstock_net.composition.translate import Translation
from penstock_net.errors import SchemeError

FOLDER = Path(penstock_net.__file__).parent / "schemes"
SOURCES = {p.stem: p.read_text() for p in sorted(FOLDER.glob("[!_]*.py")) if p.stem != "fifo"}
OTHERS = [
    *("0", "-1", "1", "7", "2.5", "1e300", "9223372036854775807", "99999999999999999999", '"x"', "None", "True"),
    *("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "~", "<", "==", "=", "+=", "and", "or", "not", "is", "in"),
    *("(", ")", "[", "]", "{", "}", ",", ".", ":", "return", "if", "while", "for", "pass", "break", "def", "import", "lambda"),
    *("node", "port", "queue", "pkt", "flow", "at", "head", "next", "bytes", "size", "dst", "now", "int8", "min", "print"),
]


def mutated(name: str, seed: int, changes: int) -> str:
    """A scheme's source with this many mistakes in its code."""
    r = random.Random(f"{name} {seed}")
    tokens = list(tokenize.generate_tokens(io.StringIO(SOURCES[name]).readline))
    first = next(i for i, t in enumerate(tokens) if t.string == "def")
    kinds = (tokenize.NAME, tokenize.OP, tokenize.NUMBER)
    places = [i for i, t in enumerate(tokens) if t.type in kinds and (i > first or r.random() < 0.2)]
    lines = SOURCES[name].splitlines(keepends=True)
    for i in sorted(r.sample(places, changes), reverse=True):
        token = tokens[i]
        way = r.random()
        other = r.choice(OTHERS) if r.random() < 0.5 else tokens[r.choice(places)].string
        new = {0: "", 1: token.string + " " + token.string}.get(int(way * 5), other)
        (row, begin), (_, end) = token.start, token.end
        lines[row - 1] = lines[row - 1][:begin] + new + lines[row - 1][end:]
    return "".join(lines)


def translated(file: Path) -> str:
    """The translation of a file.  SchemeError: it is refused."""
    declared = declarations_of(file)
    assert isinstance(declared, Declarations)
    with refused(file):
        return Translation(declared).text


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(SOURCES)), st.integers(0, 10**9), st.integers(1, 4))
@example("hpcc", 1, 1)
def test_a_mutated_file_is_refused_in_words_or_translated(tmp_path, name, seed, changes):
    file = tmp_path / f"{name}.py"
    file.write_text(mutated(name, seed, changes))
    try:
        assert translated(file)
    except SchemeError as error:
        assert str(error).startswith(f"{file}") and "\n" not in str(error)


RUN = """
import json, sys
from penstock_net.errors import PenstockError
from penstock_net.testing.cases import run_case
case = {"topology": {"kind": "leaf_spine", "hosts": 8, "tors": 2, "spines": 2, "buffer": "2MB"}}
case["flows"] = [[i, (3 * i + 5) % 8, 60000, "0us"] for i in range(8)] + [[i, 0, 40000, "1us"] for i in range(1, 8)]
for file in sys.argv[1:]:
    print(json.dumps(file), flush=True)
    try:
        run_case({**case, "scheme": file})
    except PenstockError as error:
        assert "\\n" not in str(error), error
"""


@pytest.mark.parametrize("name", ["bfc", "hpcc", "floodgate", "ideal_fq", "backdraft", "dcqcn"])
def test_a_mutated_scheme_runs_without_a_signal(tmp_path, name):
    """Of the mutated files that are not refused, one of each scheme with several mistakes is compiled and run."""
    seed = 0
    while True:
        file = tmp_path / f"{name}_{seed}.py"
        file.write_text(mutated(name, seed, 1 + seed % 3))
        try:
            translated(file)
            break
        except SchemeError:
            seed += 1
    done = subprocess.run([sys.executable, "-c", RUN, str(file)], capture_output=True, text=True)
    assert done.returncode >= 0, f"{signal.Signals(-done.returncode).name}: {file.read_text()}"
    assert done.returncode == 0, done.stderr[-2000:] + file.read_text()
    assert json.loads(done.stdout) == str(file)
