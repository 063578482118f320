"""Checkpoints: what they must know of, their file, and what they refuse."""

import errno
import hashlib
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import penstock_net as ps
from penstock_net import pxd
from penstock_net.cli import main
from penstock_net.composition import parse
from penstock_net.errors import InvariantError, SpecError
from penstock_net.sim import checkpoint, checkpoint_file, checkpoint_key
from penstock_net.sim import simulate as core
from penstock_net.sim.builder import compose
from penstock_net.sim.checkpoint import KEPT, REBUILT, Checkpoint, note_of
from penstock_net.sim.settings import Settings

TOPO = ps.leaf_spine(hosts=8, tors=2, spines=2)
FLOWS = ps.poisson(TOPO, sizes="google", load=0.5, duration="100us", seed=1)
WALK = (pxd.PACKAGE / "sim/core/checkpoint.py").read_text()


class Stopping(core.Runner):
    """Ends after 20 windows as by Ctrl-C."""

    def __init__(self, *given):
        super().__init__(*given)
        self.left = 20
        self.keeper.due = self.due

    def due(self):
        self.left -= 1
        self.stop = self.left == 0
        return False


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The checkpoint of an interrupted run of FLOWS over TOPO with bfc."""
    with monkeypatch.context() as patch:
        patch.setattr(core, "CHUNK_S", 1e-9)
        patch.setattr(core, "Runner", Stopping)
        run = ps.simulate(TOPO, FLOWS, "bfc", checkpoint=tmp_path / "state", on_interrupt="return")
    assert run.summary["interrupted"]
    return tmp_path / "state"


# -- nothing is forgotten ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("struct", KEPT)
def test_every_pointer_is_known(struct):
    """A pointer, or a struct with pointers, is walked or rebuilt; what is walked is named in the walk."""
    fields = {field.name: field for field in pxd.read("fabric/state.pxd").structs[struct]}
    known = KEPT[struct] | REBUILT.get(struct, set())
    assert known <= fields.keys()
    structs = {*pxd.read("fabric/state.pxd").structs, "Log", "Guard"}
    refer = {name for name, field in fields.items() if field.pointer or not field.type or field.type in structs}
    if struct not in ("Worker", "World"):
        assert refer <= known
    for name in KEPT[struct] - {
        "waiting",
        "pending",
        "connections",
        "messages",
        "seats",
        "parts",
        "turns",
        "unsent",
        "missing",
        "results",
        "rankings",
        "outboxes",
        "items",
        "rings",
        "parked",
        "paced",
        "ranked",
        "timers",
    }:
        if not name.endswith("_rows"):
            assert re.search(rf"\.{name}\b|{name.rstrip('s')}_at\(", WALK), f"{struct}.{name} is not in sim/core/checkpoint.py"


def test_every_field_of_a_worker_is_known():
    """They are not copied: a worker of another number of threads has others."""
    fields = {field.name for field in pxd.read("fabric/state.pxd").structs["Worker"]}
    assert fields == KEPT["Worker"] | REBUILT["Worker"] and not KEPT["Worker"] & REBUILT["Worker"]


def test_a_world_changes_where_it_is_known_to():
    """All else in it is set before the first event: no compiled function that runs then assigns to it."""
    fields = {field.name for field in pxd.read("fabric/state.pxd").structs["World"]}
    running = [*(pxd.PACKAGE / "fabric").glob("*.py"), *(pxd.PACKAGE / "sim/core").glob("*.py")]
    texts = [path.read_text() for path in running if path.name not in ("build.py", "nodes.py", "checkpoint.py")]
    assigned = {name for text in texts for name in re.findall(r"world\.(\w+)(?:\[.*?\]|\.\w+)* [+\-|&]?= ", text)}
    assert assigned & fields <= KEPT["World"], assigned
    assert {"results", "pending"} <= assigned


def test_a_new_pointer_is_not_forgotten(monkeypatch):
    more = (*checkpoint.STATE.structs["Flow"], pxd.Field("other", "Flow", pointer=True))
    monkeypatch.setitem(checkpoint.STATE.structs, "Flow", more)
    checkpoint.dtype_of.cache_clear()
    with pytest.raises(InvariantError, match=r"^Flow.other: no checkpoint knows what it points to"):
        checkpoint.copied("Flow")
    checkpoint.dtype_of.cache_clear()


def test_every_attribute_is_known():
    runner = core.Runner(Settings(TOPO, FLOWS, parse("bfc")))
    kept = checkpoint
    assert vars(runner).keys() == kept.KEPT_OF_RUNNER | kept.MADE_OF_RUNNER
    assert vars(runner.starts).keys() == kept.KEPT_OF_STARTS | kept.MADE_OF_STARTS
    assert vars(runner.window).keys() == kept.KEPT_OF_WINDOW | kept.MADE_OF_WINDOW
    simulation = re.search(r"cdef class Simulation:\n((?: +.*\n?)+)", (pxd.PACKAGE / "sim/core/build.pxd").read_text())
    assert re.findall(r"\w+", simulation[1]) == [
        "cdef",
        "World",
        "world",
        "cdef",
        "object",
        "kept",
        "kept_starts",
        "kept_routes",
        "installed",
    ]


def test_layouts_are_those_of_the_compiler():
    """Every byte of a struct with schemes is copied, walked, or a table's."""
    settings = Settings(TOPO, FLOWS, parse("dqa+bfc"))
    made = compose(settings)
    for (spans, tables), struct in zip(checkpoint.layouts(made), checkpoint.WALKED):
        assert spans.dtype == np.int64 and (spans[:, 1] > 0).all() and (np.diff(spans[:, 0]) > 0).all()
        hand = [checkpoint.dtype_of(struct).fields[name][1] for name in KEPT.get(struct, set()) | REBUILT.get(struct, set())]
        for at in [*hand, *tables[:, 0].tolist()]:
            assert not any(low <= at < low + size for low, size in spans.tolist()), f"{struct} at {at}"


def test_ranks_are_copied_and_their_pointers_are_not():
    made = compose(Settings(TOPO, FLOWS, parse("pfabric")))
    from penstock_net.sim.core.checkpoint import struct_bytes

    rank = checkpoint.dtype_of("Ranked")
    assert rank.itemsize == struct_bytes("Ranked")
    for spans, _ in checkpoint.layouts(made)[:2]:
        copied = [made.rank_at <= at < at + size <= made.rank_at + rank.itemsize for at, size in spans.tolist()]
        assert copied
        for name in rank.names:
            at = made.rank_at + rank.fields[name][1]
            inside = any(low <= at < low + size for low, size in spans.tolist())
            assert inside == (name not in REBUILT["Ranked"]), name


def test_spans():
    assert checkpoint.joined([(8, 8), (0, 8), (24, 0), (32, 4)]) == [(0, 16), (32, 4)]
    assert checkpoint.without([(0, 16), (32, 32)], [(40, 16)]) == [(0, 16), (32, 8), (56, 8)]
    assert checkpoint.without([(0, 16)], [(0, 16)]) == []


# -- what is refused ---------------------------------------------------------------------------------------------------


def refused(path, topo=TOPO, flows=FLOWS, scheme="bfc", **settings) -> str:
    with pytest.raises(SpecError) as found:
        ps.simulate(topo, flows, scheme, checkpoint=path, **settings)
    return str(found.value)


@pytest.mark.parametrize(
    "other, what",
    [
        ({"seed": 2}, "seed differs"),
        ({"scheme": ps.BFC(queues=16)}, "scheme differs"),
        ({"measure": ps.Measure(sample="1us")}, "measure differs"),
        ({"host": ps.HostConfig(mtu=1500)}, "host differs"),
        ({"control_loss": 0.1}, "control_loss differs"),
        ({"link_clock": "ns"}, "link_clock differs"),
        ({"duration": "1ms"}, "duration differs"),
        ({"topo": ps.leaf_spine(hosts=8, tors=2, spines=2, delay="2us")}, "topology differs"),
        (
            {"flows": ps.poisson(TOPO, sizes="google", load=0.5, duration="100us", seed=2), "seed": 5},
            "flows, seed, duration differ",
        ),
    ],
)
def test_another_run(path, other, what):
    before = path.read_bytes()
    found = refused(path, **other)
    assert found == f"{path}: is the checkpoint of another run: {what}; give another file, or remove it to begin anew"
    assert path.read_bytes() == before


def test_other_sources(path, monkeypatch):
    ours = checkpoint.code(frozenset(["bfc", "dqa"]))
    monkeypatch.setattr(checkpoint, "code", lambda schemes: ours | {"fabric": "other", "schemes/bfc.py": "other"})
    said = "cannot go on: it was made by another version of the simulator: the code of fabric, schemes/bfc.py differs; go on with"
    assert said in refused(path)


def test_no_checkpoint(tmp_path):
    for content in (b"", b"penstock", b"PK\3\4" * 100, b"penstock checkpoint 1 " + b"0" * 200):
        (tmp_path / "state").write_bytes(content)
        assert "is not a checkpoint of this version of penstock; remove it to begin anew" in refused(tmp_path / "state")
    assert "is not a file; give another name" in refused(tmp_path)
    (tmp_path / "file").write_text("")
    assert "cannot be written (" in refused(tmp_path / "file" / "state")
    with pytest.raises(SpecError, match=r'checkpoint.every = "soon": '):
        Checkpoint(tmp_path, "soon")


def test_damaged(path):
    """Any byte that was changed, and any end that is missing."""
    content, draw = path.read_bytes(), np.random.default_rng(1)
    places = [*range(22, 120), *draw.integers(0, len(content), 300).tolist()]
    for at in places:
        path.write_bytes(content[:at] + bytes([content[at] ^ int(draw.integers(1, 256))]) + content[at + 1 :])
        found = refused(path)
        said = "is damaged: its content does not have the seal that it names; remove it", "is not a checkpoint", "another key"
        assert any(text in found for text in said), found
    for size in draw.integers(0, len(content), 30).tolist():
        path.write_bytes(content[:size])
        assert "remove it to begin anew" in refused(path)
    path.write_bytes(content)
    assert not ps.simulate(TOPO, FLOWS, "bfc", checkpoint=path).summary["interrupted"]


def test_only_what_was_sealed_with_the_key_of_this_user_is_loaded(path, tmp_path, monkeypatch):
    """However right its checksum is: a crafted checkpoint would be memory that the process trusts."""
    content = path.read_bytes()
    archive = content[checkpoint_file.AT :]
    path.write_bytes(b"penstock checkpoint 1 " + hashlib.sha256(archive).hexdigest().encode() + b"\n" + archive)
    assert "is not a checkpoint of this version" in refused(path)
    path.write_bytes(content)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user's"))
    found = refused(path)
    assert "was sealed with another key than" in found and "set XDG_STATE_HOME to the folder that it was made with" in found
    key = checkpoint_key.path()
    assert key.stat().st_mode & 0o777 == 0o600 and os.listdir(key.parent) == ["checkpoint.key"]
    with open(path, "wb+") as file:
        file.write(b" " * checkpoint_file.AT + archive)
        line = checkpoint_file._sealed(file, checkpoint_key.key())
    path.write_bytes(line + archive)
    assert not ps.simulate(TOPO, FLOWS, "bfc", checkpoint=path).summary["interrupted"]
    key.chmod(0o640)
    assert "other users can read the key of checkpoints; remove it" in refused(path)
    key.chmod(0o600)
    key.write_bytes(b"short")
    assert "is not a key of checkpoints" in refused(path)
    monkeypatch.setenv("XDG_STATE_HOME", str(path))
    assert "cannot be read or written (Not a directory); set XDG_STATE_HOME" in refused(path)


def test_a_node_of_another_shape_does_not_fit(path):
    """Where a checksum is right and the content is not."""
    runner = core.Runner(Settings(TOPO, FLOWS, parse("bfc")), None, Checkpoint(path.with_name("other")))
    archive = runner.keeper._archive(runner)
    node = archive.save_node(8)
    for wrong in (node[:-1], node + b"1", node[:100], b"", b"\xff" * len(node), archive.save_node(0)):
        with pytest.raises(ValueError, match="it does not fit this simulation"):
            archive.load_node(9, wrong)


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_a_warning(path, monkeypatch):
    """The run goes on, and the checkpoint before is still there."""
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(RuntimeWarning, match=r"state: no checkpoint: cannot be written \(No space left on device\)"):
        run = ps.simulate(TOPO, FLOWS, "bfc", checkpoint=Checkpoint(path, every="1ps"))
    assert not run.summary["interrupted"] and path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["state"]


def test_wall_time_adds_up(path):
    """The time of all parts of a run counts, so that progress and speed are right."""
    saved = checkpoint_file.Reader(path)
    earlier = saved.json("run.json")["wall_s"]
    seen = []
    run = ps.simulate(TOPO, FLOWS, "bfc", checkpoint=path, progress=seen.append)
    assert seen[0].wall_s > earlier > 0 and run.summary["wall_s"] > earlier
    assert seen[0].flows_total == len(FLOWS) and seen[-1].flows_done == len(FLOWS)


def test_note(path, tmp_path):
    assert note_of(path) == "" and note_of(tmp_path / "nothing") is None
    path.write_bytes(b"x")
    assert note_of(path) is None


# -- the command -------------------------------------------------------------------------------------------------------


SPEC = """
[run]
duration = "100us"
[topology]
kind = "leaf_spine"
hosts = 8
tors = 2
spines = 2
[[workload]]
kind = "poisson"
sizes = "google"
load = 0.5
[[scheme]]
name = "bfc"
[[scheme]]
name = "hpcc"
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(core, "CHUNK_S", 1e-9)
    Path("small.toml").write_text(SPEC)
    return "small.toml"


def test_the_same_command_goes_on(spec, monkeypatch, capsys):
    assert main(["run", spec, "--out", "whole"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(core, "Runner", Stopping)
        assert main(["run", spec, "--checkpoint", "600s"]) == 128 + signal.SIGINT
    assert "next: the same command goes on from the checkpoint" in capsys.readouterr().err
    assert Path("runs/small/bfc.checkpoint").exists() and ps.Run.load("runs/small/bfc").summary["interrupted"]
    shutil.rmtree("runs/small/bfc")  # as if it had been killed
    begun = []
    monkeypatch.setattr(
        checkpoint.Keeper,
        "restore",
        lambda keeper, runner, f=checkpoint.Keeper.restore: begun.append(keeper.saved is not None) or f(keeper, runner),
    )
    assert main(["run", spec, "--checkpoint", "600s", "--threads", "2"]) == 0
    assert begun == [True, False], "the first one goes on, the second one begins"
    assert sorted(p.name for p in Path("runs").iterdir()) == ["small"] and not list(Path("runs").rglob("*.checkpoint"))
    for scheme in ("bfc", "hpcc"):
        assert ps.Run.load(f"runs/small/{scheme}") == ps.Run.load(f"whole/{scheme}")


def test_another_run_in_the_way(spec, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(core, "Runner", Stopping)
        main(["run", spec, "--scheme", "bfc", "--out", "out", "--checkpoint", "600s"])
    shutil.rmtree("out")
    command = ["run", spec, "--scheme", "bfc", "--out", "out", "--seed", "7", "--checkpoint", "600s"]
    assert main(command) == 2
    assert (
        "out.checkpoint: is the checkpoint of another run: flows, seed differ; give another file, or" in capsys.readouterr().err
    )
    assert main([*command, "--force"]) == 0 and not Path("out.checkpoint").exists()


def test_not_with_a_sweep(spec, capsys):
    assert main(["run", spec, "--seeds", "2", "--checkpoint", "600s"]) == 2
    assert "--checkpoint: cannot be given with --seeds 2" in capsys.readouterr().err
    assert main(["run", spec, "--checkpoint", "often"]) == 2
    assert 'checkpoint.every = "often"' in capsys.readouterr().err
