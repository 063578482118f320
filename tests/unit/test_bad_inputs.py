"""Bad inputs of every kind end in a refusal of one or two lines: no traceback, no signal, no result that ignores the input."""

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bad_inputs import CALLS, COMMANDS, EDGES, FLOWS, SIZES, SPECS
from drawn import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import penstock_net as ps
from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.spec import parse_spec  # noqa: F401 - for CALLS
from penstock_net.workload import flows_from_parquet  # noqa: F401 - for CALLS

BASE = {
    "run": {"duration": '"20us"', "seed": "1"},
    "topology": {"kind": '"star"', "hosts": "4"},
    "scheme": {"name": '"fifo"'},
    "workload": {"kind": '"poisson"', "load": "0.5", "load_on": '"host"'},
    "measure": {"sample": '"2us"'},
    "host": {"mtu": "1000"},
}
LINKS = "h0 s0 100Gbps 1us\nh1 s0 100Gbps 1us\n"
TYPES = '{"scheme": "bfc", "window_ns": "arrivals"}'
CYCLIC: dict[str, Any] = {}
CYCLIC["run"] = CYCLIC


def toml(changes: dict[str, str]) -> str:
    """BASE with some keys changed."""
    tables = {name: dict(table) for name, table in BASE.items()}
    for key, value in changes.items():
        section, _, name = key.partition(".")
        tables.setdefault(section, {})[name] = value
    heads = {"workload": "[[workload]]"}
    return "".join(
        f"{heads.get(name, f'[{name}]')}\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
        for name, table in tables.items()
    )


def with_flows(file: str) -> str:
    text = toml({})
    return text.replace('kind = "poisson"\nload = 0.5\nload_on = "host"', f'kind = "flows"\nfile = "{file}"')


def with_graph(file: str) -> str:
    return toml({}).replace('kind = "star"\nhosts = 4', f'file = "{file}"')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, damaged runs, files that are none, and specs."""
    folder = tmp_path_factory.mktemp("bad")
    before = Path.cwd()
    os.chdir(folder)
    try:
        Path("base.toml").write_text(toml({}))
        with contextlib.redirect_stderr(io.StringIO()):
            assert main(["run", "base.toml", "--out", "r"]) == 0
    finally:
        os.chdir(before)
    for name, content in (("cut", "{"), ("list", "[]"), ("deep", "[" * 100_000), ("types", TYPES)):
        shutil.copytree(folder / "r", folder / name)
        (folder / name / "summary.json").write_text(content)
        (folder / name / "SHA256SUMS").unlink()
    (folder / "nested.toml").write_text("x = " + "[" * 100_000)
    for suffix in ("toml", "py", "csv"):
        os.mkfifo(folder / f"fifo.{suffix}")
    (folder / "dir.toml").mkdir()
    (folder / "loop.toml").symlink_to("loop.toml")
    (folder / "text.py").write_text("X = 1\n")
    (folder / "bytes.py").write_bytes(b"\xff\xfe\0\0")
    return folder


def refused(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with status 2 and one or two lines that hold `words`."""
    capsys.readouterr()
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and len(error.splitlines()) <= 2
    assert words in error


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(("changes", "words"), SPECS)
def test_specs(changes: dict[str, str], words: str, here: Path, capsys: pytest.CaptureFixture[str]):
    """By a dry run, and in the same words by a run, which leaves nothing."""
    Path("my.toml").write_text(toml(changes))
    refused(["run", "my.toml", "--dry-run"], words, capsys)
    assert main(["run", "my.toml", "--out", "none"]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not Path("none/summary.json").exists()


COMBINED = {
    "scheme.name": ['"pfc"', '"homa"', '"bfc"', '"cbfc"', '"floodgate:ideal"', '"hpcc"', '"pfc+ecn"'],
    "scheme.pfc.priorities": ["1", "2", "8"],
    "scheme.pfc.storm_host": ["3", "4"],
    "workload.priority": ["0", "1", "7"],
    "topology.buffer": ['"1KB"', '"20KB"', '"300KB"', '"3MB"'],
    "host.nic_queues": ["0", "4"],
    "host.ack_every": ["1", "2"],
    "host.ack_priority": ['"control"', '"data"'],
    "host.mtu": ["500", "4000"],
    "run.link_clock": ['"ns"', '"ps"'],
    "scheme.plain_switches": ['["switch0"]'],
}


@examples(20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in COMBINED.items()}))
def test_a_dry_run_refuses_what_a_run_refuses(here: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str]):
    Path("my.toml").write_text(toml({"run.duration": '"5us"', **changes}))
    found = []
    for how in ("--dry-run", "--force"):
        capsys.readouterr()
        status = main(["run", "my.toml", how, *(["--out", "combined"] if how == "--force" else [])])
        errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        found.append((status, errors))
    assert found[0] == found[1] and found[0][0] in (0, 2)


def test_a_spec_with_a_byte_order_mark(here: Path, capsys: pytest.CaptureFixture[str]):
    Path("my.toml").write_text("\ufeff" + toml({}))
    assert main(["run", "my.toml", "--dry-run"]) == 0


@pytest.mark.parametrize(("row", "words"), FLOWS)
def test_flow_files(row: str, words: str, here: Path, capsys: pytest.CaptureFixture[str]):
    Path("x.csv").write_text(f"src,dst,bytes,start_ns\n{row}\n")
    Path("my.toml").write_text(with_flows("x.csv"))
    refused(["run", "my.toml", "--dry-run"], words, capsys)


@pytest.mark.parametrize(("row", "words"), SIZES)
def test_size_files(row: str, words: str, here: Path, capsys: pytest.CaptureFixture[str]):
    Path("x.csv").write_text(f"bytes,cdf\n{row}\n")
    Path("my.toml").write_text(toml({"workload.sizes": '"./x.csv"'}))
    refused(["run", "my.toml", "--dry-run"], words, capsys)


@pytest.mark.parametrize(("line", "words"), EDGES)
def test_edge_lists(line: str, words: str, here: Path, capsys: pytest.CaptureFixture[str]):
    Path("x.txt").write_text(f"{LINKS}{line}\n")
    Path("my.toml").write_text(with_graph("x.txt"))
    refused(["run", "my.toml", "--dry-run"], words, capsys)


@pytest.mark.parametrize(
    "content", [b"\xff\xfes\0", b"\x1f\x8b\x08\0", b"PAR1\xa0", b"", b"\n\n", b"# a\n", b'{"a": 1}', b"<html/>", b"a;b;c\n"]
)
def test_files_of_other_formats(content: bytes, here: Path, capsys: pytest.CaptureFixture[str]):
    Path("other.csv").write_bytes(content)
    for text in (with_flows("other.csv"), with_graph("other.csv"), toml({"workload.sizes": '"./other.csv"'})):
        Path("my.toml").write_text(text)
        refused(["run", "my.toml", "--dry-run"], "other.csv", capsys)


@pytest.mark.parametrize(("command", "words"), COMMANDS)
def test_command_lines(command: str, words: str, here: Path, capsys: pytest.CaptureFixture[str]):
    refused([word.replace("LONG", "a" * 5000) for word in shlex.split(command)], words, capsys)


@pytest.mark.parametrize(("call", "key"), CALLS)
def test_calls(call: str, key: str):
    topo = ps.star(hosts=4)
    names = {**globals(), "topo": topo, "flows": ps.flow_list(topo, [(0, 1, "1KB")])}
    with pytest.raises(SpecError) as caught:
        eval(call, names)
    assert key in str(caught.value) and len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize("file", ["fifo.csv", "/dev/zero", "/dev/full"])
@pytest.mark.parametrize("text", [with_flows, with_graph, lambda file: toml({"workload.sizes": f'"{file}"'})])
def test_files_without_end(file: str, text: Any, folder: Path):
    """In a process of its own: if they were read, it would wait for ever or fill the memory."""
    name = str(folder / file) if file == "fifo.csv" else file
    (folder / "endless.toml").write_text(text(name))
    program = "import sys; from penstock_net.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "run", "endless.toml", "--dry-run"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "is not a regular file" in done.stderr


KEYS = [f"{section}.{key}" for section, table in BASE.items() for key in table] + [
    "host.rto",
    "host.nic_queues",
    "measure.window",
    "measure.warmup",
]
VALUES = st.one_of(
    st.sampled_from(["nan", "-inf", "-0.0", "[]", "{}", "1e400", "0x7fffffffffffffff", "1979-05-27", '""', "true", "[[]]"]),
    st.integers(-(2**70), 2**70).map(str),
    st.tuples(st.integers(-3, 10**9), st.sampled_from(["us", "s", "B", "Gbps", "", "\u00b5s", " ms", "%"])).map(
        lambda v: f'"{v[0]}{v[1]}"'
    ),
)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
def test_fuzzed_specs(here: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str]):
    changes = {key: value for key, value in changes.items() if key not in ("run.duration", "topology.hosts")}
    Path("fuzz.toml").write_text(toml(changes))
    capsys.readouterr()
    status = main(["run", "fuzz.toml", "--dry-run"])
    error = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("expected of each scheme: ")]
    assert (status, len(error)) == (0, 0) or (status == 2 and 1 <= len(error) <= 2)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.characters(codec="utf-8"), max_size=60)
    | st.lists(st.sampled_from(["0", "1", "9", ",", "\n", '"', ".", "-", "e", "#", "h0", "s0", "1us"]), max_size=30).map("".join)
)
def test_fuzzed_files(here: Path, text: str):
    topo = ps.star(hosts=4)
    Path("fuzz.csv").write_text(text, newline="")
    Path("fuzz_flows.csv").write_text(f"src,dst,bytes,start_ns\n{text}", newline="")
    Path("fuzz_sizes.csv").write_text(f"bytes,cdf\n{text}", newline="")
    for read in (
        lambda: ps.flows_from_csv("fuzz.csv", topo),
        lambda: ps.flows_from_csv("fuzz_flows.csv", topo),
        lambda: ps.SizeDistribution.load("fuzz_sizes.csv"),
        lambda: ps.from_file("fuzz.csv"),
    ):
        with contextlib.suppress(SpecError):
            assert read()
