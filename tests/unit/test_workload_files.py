"""Flows as CSV: round trips, and every malformed input with its line."""

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_net.errors import SpecError
from penstock_net.topology import leaf_spine
from penstock_net.workload import flow_list, flows_from_csv, flows_to_csv
from penstock_net.workload.flows import Flows

TOPO = leaf_spine(hosts=16, tors=4, spines=2)
HEADER = "src,dst,bytes,start_ns\n"


def read(tmp_path, text):
    path = tmp_path / "f.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return flows_from_csv(path, TOPO)


def test_columns_in_any_order_names_and_numbers_fractions_and_defaults(tmp_path):
    flows = read(
        tmp_path, "# made by hand\nstart_ns,src,dst,bytes,class,priority\n10.5,0,host7,1000,rpc,3\n\n0.001,host2,3,1e6,,\n"
    )
    assert flows.start_ps.tolist() == [1, 10500]
    assert flows.src.tolist() == [2, 0]
    assert flows.dst.tolist() == [3, 7]
    assert flows.bytes.tolist() == [1_000_000, 1000]
    assert [flows.classes[i] for i in flows.class_id] == ["flows", "rpc"]
    assert flows.priority.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (HEADER + "0,1,10,0\n3,3,10,0\n", 3, 'dst = "3": must differ from src, a flow needs two hosts'),
        (HEADER + "0,16,10,0\n", 2, "dst = 16: hosts are 0 to 15"),
        (HEADER + "-1,1,10,0\n", 2, 'src = "-1": no such host'),
        (HEADER + "hots3,1,10,0\n", 2, 'did you mean "host3"?'),
        (HEADER + "tor0,1,10,0\n", 2, "no such host"),
        (HEADER + "0,1,0,0\n", 2, 'bytes = "0": must be between 1 and 1000000000000'),
        (HEADER + "0,1,-10,0\n", 2, 'bytes = "-10": must be between 1 and 1000000000000'),
        (HEADER + "0,1,1.5,0\n", 2, 'bytes = "1.5": must be a whole number, such as 2'),
        (HEADER + "0,1,1e30,0\n", 2, "must be between 1"),
        (HEADER + "0,1,many,0\n", 2, "is not a number"),
        (HEADER + "0,1,10,-1\n", 2, 'start_ns = "-1": must not be negative'),
        (HEADER + "0,1,10,0.0005\n", 2, "not a whole number of ps"),
        (HEADER + "0,1,10,1e30\n", 2, "is more than"),
        (HEADER + "0,1,10,inf\n", 2, "finite"),
        (HEADER + "0,1,10,\n", 2, "start_ns: is empty"),
        (HEADER + "0,1,10,0\n0,1,10\n", 3, "is the file truncated?"),
        (HEADER + "0,1,10,0,9\n", 2, "5 columns"),
        ("src,dst,bytes\n0,1,10\n", 1, "start_ns: the column is missing"),
        ("src,dst,byte,start_ns\n0,1,10,0\n", 1, 'byte: unknown column; did you mean "bytes"?'),
        ("src,src,dst,bytes,start_ns\n", 1, "src: the column occurs twice"),
        ("0,1,10,0\n", 1, "header line is missing"),
        ("src,dst,bytes,start_ns,priority\n0,1,10,0,8\n", 2, 'priority = "8": must be between 0 and 7'),
        ('src,dst,bytes,start_ns,class\n0,1,10,0,"a,b"\n', 2, 'class = "a,b": must be 1 to 64 letters, digits'),
        (HEADER.encode() + b"0,1,10,\xfe\n", 2, "UTF-8"),
    ],
)
def test_malformed_files_are_refused_with_the_line(tmp_path, text, line, says):
    with pytest.raises(SpecError) as error:
        read(tmp_path, text)
    assert f"f.csv:{line}:" in str(error.value)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", HEADER])
def test_empty_files_are_refused(tmp_path, text):
    with pytest.raises(SpecError, match=r"f\.csv"):
        read(tmp_path, text)


def test_too_many_classes(tmp_path):
    rows = "".join(f"0,1,10,0,c{i}\n" for i in range(128))
    with pytest.raises(SpecError, match=r'f\.csv:129: class = "c127": the 128th class'):
        read(tmp_path, "src,dst,bytes,start_ns,class\n" + rows)


def test_flows_that_wait_for_others_by_row_and_by_id(tmp_path):
    rows = "0,1,5,0,,\n0,1,7,1.5,,\n1,2,6,0,0 1,2.001\n2,3,6,9,2,\n"
    by_row = read(tmp_path, "src,dst,bytes,start_ns,after,gap_ns\n" + rows)
    ids = "src,dst,bytes,start_ns,after,gap_ns,id\n0,1,5,0,,,a\n0,1,7,1.5,,,b\n1,2,6,0,a b,2.001,sum\n2,3,6,9,sum,,host3\n"
    by_id = read(tmp_path, ids)
    for flows in (by_row, by_id):
        frame = flows.to_frame().sort("dst", "bytes")
        assert frame["bytes"].to_list() == [5, 7, 6, 6]
        number = frame["flow_id"].to_list()
        assert [sorted(parents) for parents in frame["after"]] == [[], [], sorted(number[:2]), [number[2]]]
        assert frame["gap_ns"].to_list() == [0, 0, 2.001, 0]
    flows_to_csv(by_id, tmp_path / "back.csv")
    assert flows_from_csv(tmp_path / "back.csv", TOPO).to_frame().equals(by_id.to_frame())


@pytest.mark.parametrize(
    ("header", "rows", "says"),
    [
        ("after", "0,1,5,0,\n1,2,5,0,2\n", "f.csv:3: after"),
        ("after", "0,1,5,0,\n1,2,5,0,x\n", "is not a number"),
        ("after", "0,1,5,0,\n2,3,5,0,0\n", "can only wait for flows that its own host receives"),
        (
            "after",
            "0,1,5,0,1\n1,0,5,0,0\n",
            'f.csv:2: after = "1": waits for itself: line 2 after 3 after 2; remove one of these',
        ),
        ("after", "0,1,5,9,\n# the second\n0,2,5,0,1\n", 'f.csv:4: after = "1": waits for itself: line 4 after 4; remove'),
        (  # the last row waits for a circle and is in none; rows are not in the order of their starts
            "after,id",
            "0,1,5,9,c,a\n1,0,5,7,a,b\n0,1,5,5,d b,c\n1,0,5,0,,d\n1,0,5,0,c,e\n",
            'f.csv:2: after = "c": waits for itself: line 2 after 4 after 3 after 2; remove one of these dependencies',
        ),
        (
            "after",
            "".join(f"{i % 2},{1 - i % 2},5,0,{(i + 1) % 12}\n" for i in range(12)),
            "line 2 after 3 after 4 after 5 after 6 after 7 after ... after 13 after 2;",
        ),
        ("gap_ns", "0,1,5,0,7\n", "column after, which is empty"),
        ("after,gap_ns", "0,1,5,0,,\n1,2,5,0,0,-3\n", "must not be negative"),
        ("after,id", "0,1,5,0,,a\n1,2,5,0,b,c\n", 'f.csv:3: after = "b": no flow has this id'),
        ("id", "0,1,5,0,a\n1,2,5,0,a\n", "different in every row"),
        ("id", "0,1,5,0,\n", "must be one word"),
    ],
)
def test_bad_dependencies_in_a_file(tmp_path, header, rows, says):
    with pytest.raises(SpecError) as refused:
        read(tmp_path, f"src,dst,bytes,start_ns,{header}\n{rows}")
    assert says in str(refused.value)


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match=r"f\.csv: cannot be written \(a file is in the place of its folder\); check the path"):
        flows_to_csv(flow_list(TOPO, [(0, 1, 5)]), tmp_path / "file" / "f.csv")


def test_a_file_that_penstock_wrote_is_refused_when_it_was_cut(tmp_path):
    """Wherever it was: the first line names the number of flows, and the last one has an end."""
    flows_to_csv(flow_list(TOPO, [(0, 1, 5), (0, 2, 5000, "1ns"), (3, 1, 70, "20us")]), tmp_path / "f.csv")
    whole = (tmp_path / "f.csv").read_bytes()
    assert (
        whole.startswith(b"# 3 flows, written by penstock\nsrc,dst,bytes,start_ns") and len(read(tmp_path, whole.decode())) == 3
    )
    for length in range(len(whole)):
        with pytest.raises(SpecError):
            read(tmp_path, whole[:length].decode())
    with pytest.raises(SpecError, match="has 4 flows and not the 3 that its first line names; is the file truncated"):
        read(tmp_path, whole.decode() + whole.decode().splitlines()[-1] + "\n")
    assert len(read(tmp_path, whole.decode().replace("\n", "\r\n"))) == 3
    assert len(read(tmp_path, whole.split(b"\n", 1)[1].decode()[:-1])) == 3  # a user's file need not have an end


one_flow = st.tuples(
    st.integers(0, 2**62), st.integers(0, 15), st.integers(1, 15), st.integers(1, 10**12), st.integers(0, 2), st.integers(0, 7)
)


@given(st.lists(one_flow, min_size=1, max_size=20))
@settings(deadline=None)
def test_round_trip_is_exact_to_the_picosecond(tmp_path_factory, rows):
    start, src, shift, size, class_id, priority = (np.array(column) for column in zip(*rows))
    flows = Flows(start, src, (src + shift) % 16, size, class_id, priority, ("rpc", "bulk data", "x+y/z"))
    path = tmp_path_factory.getbasetemp() / "round_trip.csv"
    flows_to_csv(flows, path)
    back = flows_from_csv(path, TOPO)
    for name in ("start_ps", "src", "dst", "bytes", "priority"):
        assert np.array_equal(getattr(back, name), getattr(flows, name))
    assert [back.classes[i] for i in back.class_id] == [flows.classes[i] for i in flows.class_id]


@given(
    st.one_of(
        st.binary(max_size=200), st.text('0123456789.,-+e#"\n host', max_size=200).map(lambda text: (HEADER + text).encode())
    )
)
@examples(400)
def test_arbitrary_bytes_give_flows_or_a_spec_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes(content)
    try:
        assert len(flows_from_csv(path, TOPO).check(TOPO)) > 0
    except SpecError as error:
        assert "fuzz.csv" in str(error)
