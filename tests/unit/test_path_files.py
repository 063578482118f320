"""Files of paths: what is read, what is refused with its line, and whose run it is."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock_net as ps
from penstock_net.errors import SpecError
from penstock_net.sim import simulate as core
from penstock_net.sim.paths import read_paths
from penstock_net.spec import load_spec, parse_spec

TOPO = ps.leaf_spine(hosts=8, tors=2, spines=4)
FLOWS = ps.flow_list(TOPO, [(0, 4, "90KB"), (1, 5, "90KB", "1us"), (4, 2, "5KB", "2us"), (0, 1, "9KB", "3us")])
PATHS = (
    "# made by hand\nflow,direction,path\n0,both,spine1\n1,there,host1 tor0 spine2 tor1 host5\n1,back,spine3\n2,,tor1 > spine0\n"
)
TURNS = "switch,from,first\ntor0,host0,3\ntor0,host1,0\ntor1,host4,2\n"


@pytest.fixture
def file(tmp_path):
    def written(text, name="paths.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


def test_what_a_file_says(file):
    found = read_paths(file(PATHS), TOPO, FLOWS)
    tor0, tor1 = TOPO.node("tor0"), TOPO.node("tor1")
    up = 4  # the first uplink of a ToR
    hops = [[found.hops(int(at), back) for back in (0, 1)] for at in found.pin_of[:3]]
    assert hops == [
        [((tor0, up + 1),), ((tor1, up + 1),)],
        [((tor0, up + 2),), ((tor1, up + 3),)],
        [((tor1, up),), ((tor0, up),)],
    ]
    assert found.pin_of[3] == 0 and found.given == 3 and found.turns is None
    assert "1 of 4 flows have no path" in found.cautions(TOPO, FLOWS)[0]
    turns = read_paths(file(TURNS), TOPO, FLOWS).turns
    first = TOPO.first_port[tor0]
    assert turns[first : first + 3].tolist() == [3, 0, -1] and (turns >= 0).sum() == 3


def test_a_frame_is_read_as_its_file(file):
    frame = pl.read_csv(file(PATHS), comment_prefix="#")
    ours, theirs = read_paths(frame, TOPO, FLOWS), read_paths(file(PATHS), TOPO, FLOWS)
    assert np.array_equal(ours.pins, theirs.pins) and np.array_equal(ours.pin_of, theirs.pin_of)


ERRORS = [  # what stands below the header, and the error
    (
        "0,both,spine9",
        r':2: path = "spine9": no node is called "spine9"; from tor0 the shortest paths to host4 go to spine0, spine1',
    ),
    ("0,both,tor1", r':2: path = "tor1": "tor1" is not next: from tor0 the shortest paths to host4 go to spine0'),
    ("0,both,tor0", r":2: path = \"tor0\": does not say all of it: from tor0 .* name one of them"),
    ("0,both,", r":2: path = \"\": does not say all of it"),
    ("0,both,spine1 tor0", r'"tor0" is not on it, where the words before it lead: host0 tor0 spine1 tor1 host4; leave it out'),
    ("0,both,spine1#0 spine2", r'"spine2" is not on it'),
    ("0,both,spine1#1", r'"spine1#1" is not next'),
    ("3,both,spine1", r':2: path = "spine1": "spine1" is not on it'),
    ("9,both,spine1", r":2: flow = \"9\": must be between 0 and 3; nearest: 3"),
    ("x,both,spine1", r':2: flow = "x": is not a number'),
    ("0,up,spine1", r':2: direction = "up": must be one of both, there, back'),
    ("0,both,spine1\n0,back,spine2", r":3: flow = 0: it has a path back already, in .*:2; keep one of the rows"),
    ("0,there,spine1\n0,there,spine1", r":3: flow = 0: it has a path there already"),
    ("0,both", r":2: 2 columns, but the header has 3"),
    ("", r"no rows below the header line; is the file truncated\?"),
]


@pytest.mark.parametrize("rows, message", ERRORS)
def test_errors_name_the_value_the_rule_and_the_remedy(file, rows, message):
    with pytest.raises(SpecError) as error:
        read_paths(file("flow,direction,path\n" + rows + "\n"), TOPO, FLOWS)
    assert re.search(message, str(error.value)) and "paths.csv" in str(error.value), str(error.value)


@pytest.mark.parametrize(
    "text, message",
    [
        ("a,b\n1,2\n", "there is neither a column flow nor a column switch; the header must hold flow,path or switch,from,first"),
        ("flow,way\n0,spine1\n", "path: the column is missing; the header must hold flow,path"),
        ("switch,from\ntor0,host0\n", "first: the column is missing; the header must hold switch,from,first"),
        ("flow,path,path\n0,spine1,spine1\n", "path: the column occurs twice; keep one"),
        ("switch,from,first\nhost0,tor0,1\n", r'switch = "host0": no such switch'),
        ("switch,from,first\ntor0,host7,1\n", r'from = "host7": no link joins it to tor0; its neighbours: host0, host1'),
        ("switch,from,first\ntor0,host0,-1\n", r'first = "-1": must be between 0 and'),
        ("switch,from,first\ntor0,host0,1\ntor0,host0,2\n", r':3: from = "host0": what comes from there to tor0 has a first'),
        ("src,dst,bytes,start_ns\n0,1,5,0\n", "there is neither a column flow"),
        (
            "2\n0 1 3 100 5000 2.0\n1 0 3 100 5000 2.0\n",
            r"this is a flow file of the HPCC simulator; give it as file of a \[\[workload\]\]",
        ),
        ("", "the file is empty"),
    ],
)
def test_files_that_are_none(file, text, message):
    with pytest.raises(SpecError, match=message):
        read_paths(file(text), TOPO, FLOWS)


def test_other_kinds_of_input(file, tmp_path):
    for given_, message in (
        (3, "must be the path of a CSV file of paths, or a frame"),
        (tmp_path / "none.csv", "cannot be read"),
    ):
        with pytest.raises(SpecError, match=rf"run\.paths = .*{message}"):
            ps.simulate(TOPO, FLOWS, paths=given_)
    with pytest.raises(SpecError, match=r"this is paths of flows, or of packets, as CSV; give it as paths of \[run\]"):
        ps.flows_from_csv(file(PATHS), TOPO)
    flows = ps.flow_list(TOPO, [{"src": 2, "dst": 2, "bytes": 0}, (0, 4, 5000)])
    with pytest.raises(SpecError, match="flow = 0: is a computation, which sends nothing; remove the row"):
        read_paths(pl.DataFrame({"flow": [0], "path": ["spine1"]}), TOPO, flows)


def test_columns_that_mean_nothing_are_named_once(file):
    text = "flow,path,note,hash\n0,spine1,a,1\n1,spine2,b,2\n"
    with pytest.warns(UserWarning, match=r"paths\.csv: not read: columns: note \(2\), hash \(2\)") as warned:
        read_paths(file(text), TOPO, FLOWS)
    assert len(warned) == 1


CELLS = st.sampled_from(["0", "1", "3", "-1", "1e99", "", "both", "there", "back", "spine1", "spine1#0", "#", "spine1#",
                         "tor0 spine2",
                         "host0 tor0 spine0 tor1 host4", ">", "spine1 >", "tor1", "\u0660", "1.5", '"', "a b c"])  # fmt: skip
NAMES = st.sampled_from(["flow", "direction", "path", "switch", "from", "first", "x", ""])


@given(st.lists(NAMES, min_size=1, max_size=4), st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=4))
def test_any_text_is_read_or_refused(tmp_path_factory, names, rows):
    """No other error, and what is read is of the right size."""
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text("\n".join([",".join(names), *(",".join(row) for row in rows)]) + "\n")
    try:
        with pytest.warns() if set(names) - {"flow", "direction", "path", "switch", "from", "first"} else _nothing():
            found = read_paths(path, TOPO, FLOWS)
    except (SpecError, pytest.fail.Exception) as error:
        assert not isinstance(error, SpecError) or str(error)
        return
    assert (found.turns is None) != (found.pins is None)


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


# -- whose run it is ---------------------------------------------------------------------------------------------------------

SPEC = """
[run]
duration = "10us"
paths = "paths.csv"
[topology]
kind = "leaf_spine"
hosts = 8
tors = 2
spines = 4
[scheme]
name = "fifo"
[[workload]]
kind = "list"
flows = [[0, 4, "90KB"], [1, 5, "90KB", "1us"], [4, 2, "5KB", "2us"], [0, 1, "9KB", "3us"]]
"""


def test_the_content_of_the_file_is_part_of_the_run(file, tmp_path):
    spec_file = file(SPEC, "spec.toml")
    spec = load_spec(file(PATHS).parent / "spec.toml")
    before, topo = spec.key(), spec.build_topology()
    run = spec.simulate(spec.schemes[0], topo, spec.build_flows(topo))
    run.save(tmp_path / "out")
    kept = load_spec(tmp_path / "out")  # names its own copy
    assert kept.key() == before and kept.run.paths.startswith(str(tmp_path / "out"))
    file(PATHS.replace("spine1", "spine2"))
    assert load_spec(spec_file).key() != before
    assert parse_spec(SPEC.replace('paths = "paths.csv"', "")).key() != before
    again = kept.simulate(kept.schemes[0], topo, kept.build_flows(topo))
    assert again.flows.equals(run.flows)
    with pytest.raises(SpecError, match=r"paths\.csv was changed while the command was running|was changed"):
        spec.check(spec.schemes[0], topo, spec.build_flows(topo))


class Stopping(core.Runner):
    """Ends after some windows as by Ctrl-C."""

    def __init__(self, *given_):
        super().__init__(*given_)
        self.left = 6
        self.keeper.due = self.due

    def due(self):
        self.left -= 1
        self.stop = self.left == 0
        return False


@pytest.mark.parametrize("scheme, text", [("fifo", PATHS), ("spray", TURNS)])
def test_an_interrupted_run_goes_on(file, tmp_path, monkeypatch, scheme, text):
    paths = file(text)
    whole = ps.simulate(TOPO, FLOWS, scheme, paths=paths)
    state = tmp_path / "state"
    with monkeypatch.context() as patch:
        patch.setattr(core, "CHUNK_S", 1e-9)
        patch.setattr(core, "Runner", Stopping)
        assert ps.simulate(TOPO, FLOWS, scheme, paths=paths, checkpoint=state, on_interrupt="return").summary["interrupted"]
    with pytest.raises(SpecError, match="is the checkpoint of another run: paths differs"):
        ps.simulate(TOPO, FLOWS, scheme, checkpoint=state)
    resumed = ps.simulate(TOPO, FLOWS, scheme, paths=paths, checkpoint=state)
    for name in whole.frames:
        assert whole.frame(name).equals(resumed.frame(name)), name
