"""Files are whole or not there: at every call of whoever writes them, on a full disk, and after a kill."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import fake_simulator
import polars as pl
import pytest
from whole import check_whole, contents, disk_of, full, history

import penstock_net as ps
from penstock_net import files, identity
from penstock_net.cli import main
from penstock_net.errors import SpecError

RUN = ["run", "quickstart", "--scheme", "bfc"]
TRACE = "num_ranks 2\nrank 0 {\nl1: send 900000b to 1\n}\nrank 1 {\nl1: recv 900000b from 0\n}\n"


@pytest.fixture
def fake(monkeypatch, tmp_path: Path) -> Path:
    fake_simulator.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, "--out", "made"]) == 0
    (tmp_path / "t.goal").write_text(TRACE)
    return tmp_path


COMMANDS = {
    "run": [*RUN, "--out", "out/r"],
    "again": [*RUN, "--out", "made", "--force", "--seed", "5"],
    "several": ["run", "quickstart", "--scheme", "bfc", "--scheme", "hpcc", "--out", "out/r"],
    "sweep": ["sweep", "quickstart", "--param", "scheme=bfc", "--seeds", "2", "--workers", "1", "--out", "out/sweep"],
    "csv": ["convert", "t.goal", "out/flows.csv"],
    "parquet": ["convert", "t.goal", "out/flows.parquet"],
    "report": ["report", "made", "-o", "out/report.html"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_is_never_half_written(fake: Path, name: str, capsys):
    states = history(fake, lambda: main(COMMANDS[name]))
    assert capsys.readouterr().err.count("error:") == 0 and len(states) > 1
    check_whole(states)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_leaves_what_was_there(fake: Path, name: str, capsys):
    before = contents(fake)
    for most in (0, 2000):
        with disk_of(most):
            status = main(COMMANDS[name])
        said = capsys.readouterr().err
        assert contents(fake) == before if status else contents(fake).items() >= before.items(), said
        assert status == 0 or ("error: " in said and "Traceback" not in said)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_earlier_file_survives_an_error_at_any_call(tmp_path: Path, call: str, monkeypatch):
    path = tmp_path / "f"
    path.write_bytes(b"earlier")
    monkeypatch.setattr(os, call, full)
    with pytest.raises(SpecError, match=r"f: cannot be written \(No space left on device\); give another name with -o"):
        files.write_file(path, b"new")
    assert path.read_bytes() == b"earlier" and os.listdir(tmp_path) == ["f"]


def test_several_files_take_their_places_together(tmp_path: Path):
    (tmp_path / "a").write_text("earlier")
    (tmp_path / "mine").write_text("mine")

    def write() -> None:
        with files.new_files(tmp_path) as folder:
            (folder / "below").mkdir()
            for name in ("a", "b", "below/c"):
                (folder / name).write_text("new")

    check_whole(history(tmp_path, write))
    assert sorted(contents(tmp_path)) == ["a", "b", "below/c", "mine"] and (tmp_path / "a").read_text() == "new"
    with pytest.raises(RuntimeError), files.new_files(tmp_path) as folder:
        (folder / "a").write_text("half")
        raise RuntimeError
    assert (tmp_path / "a").read_text() == "new" and sorted(os.listdir(tmp_path)) == ["a", "b", "below", "mine"]


def test_links_permissions_and_long_names(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/f").touch(0o640)
    (tmp_path / "link").symlink_to("real/f")
    files.write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real/f").read_bytes() == b"new"
    assert (tmp_path / "real/f").stat().st_mode & 0o777 == 0o640
    for name in ("x" * 255, "ä" * 127, os.fsdecode(b"b\xff\xfe")):
        assert files.write_file(tmp_path / name, b"new").read_bytes() == b"new"


WRITER = """
import os, sys
from pathlib import Path
from penstock_net.files import new_file, new_files
with new_files(Path("folder")) as folder, new_file(Path("file")) as out:
    out.write(b"half")
    print("writing", flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path: Path, monkeypatch):
    """But not while it is at work."""
    monkeypatch.chdir(tmp_path)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITER], cwd=tmp_path, **pipes) as writer:  # type: ignore[call-overload]
        assert writer.stdout.readline() == b"writing\n"

        def write() -> None:
            files.write_file(Path("file"), b"new")
            with files.new_files(Path("folder")) as folder:
                (folder / "a").write_text("new")

        write()
        assert len(list(Path().glob(".file.*"))) == 1 and len(list(Path("folder").glob(".*"))) == 1
    assert Path("file").read_bytes() == b"new"
    write()
    assert sorted(os.listdir()) == ["file", "folder"] and os.listdir("folder") == ["a"]


def test_two_folders_trade_their_names(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert files.exchange(tmp_path / "a", tmp_path / "b")
    assert os.listdir(tmp_path / "a") == ["b"] and os.listdir(tmp_path / "b") == ["a"]
    assert not files.exchange(tmp_path / "a", tmp_path / "missing")


def test_a_user_without_a_home_folder_simulates_and_is_told_what_a_checkpoint_needs(tmp_path, monkeypatch):
    """As in a container whose user has no line in /etc/passwd."""
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    identity.hash_below.cache_clear()
    assert len(identity.hash_below("units.py")) == 16
    with pytest.raises(SpecError, match="this user has no home folder; set XDG_CACHE_HOME to a folder of your own"):
        identity.home()
    topo = ps.star(hosts=2)
    flows = ps.flow_list(topo, [(0, 1, "1KB")])
    with pytest.raises(SpecError, match="this user has no home folder; set XDG_STATE_HOME to a folder of your own"):
        ps.simulate(topo, flows, checkpoint=tmp_path / "c")


def test_a_parquet_file_whose_end_does_not_fit(tmp_path: Path):
    """Of a footer that cannot be written polars says "Invalid thrift: transport error" only, whatever the system said."""
    frame, metadata = pl.DataFrame({"a": [1, 2, 3]}), {"about": "x" * 20_000}
    frame.write_parquet(tmp_path / "whole.parquet", metadata=metadata)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(SpecError) as error, files.new_file(tmp_path / "a.parquet") as out:
            frame.write_parquet(out, metadata=metadata)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot be written (its end does not fit; is there space left on the device?)" in str(error.value)
    assert os.listdir(tmp_path) == ["whole.parquet"]
