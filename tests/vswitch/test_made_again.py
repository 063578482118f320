"""The control socket of a switch whose file is removed, and when the file has its name."""

import contextlib
import socket

from daemons import running
from waiting import until

from penstock_net.vswitch.daemon import protocol, server
from penstock_net.vswitch.daemon.server import Daemon


def test_a_control_socket_that_was_removed_is_made_again(tmp_path):
    path = tmp_path / "s.sock"
    with running(path, {"port": [{"name": "a", "addresses": ["10.0.0.1"]}]}) as daemon:
        until(path.exists)
        path.unlink()
        until(path.exists)
        assert protocol.ask(str(path), {"show": "ports"})["ports"] == []
        until(lambda: [each["text"] for each in daemon.events.rows()] == [f"{path} was removed, and was made again"])
        path.unlink()
        with running(path, {"port": [{"name": "b", "addresses": ["10.0.0.1"]}]}) as other:  # it was faster, or is refused
            until(lambda: len(daemon.events.rows()) == 2)
            assert "is listening there" in daemon.events.rows()[-1]["text"]
            other.over.set()
        until(lambda: path.exists() and len(daemon.events.rows()) == 3)
    assert not path.exists()


def test_a_control_socket_has_its_name_once_somebody_listens(tmp_path, monkeypatch):
    """Whoever found it between was refused, both when a switch began and when it made its socket again."""
    path, named = tmp_path / "s.sock", []

    class Watched(socket.socket):
        def listen(self, *backlog):
            named.append(path.exists())
            super().listen(*backlog)

    monkeypatch.setattr(server.socket, "socket", Watched)
    daemon = Daemon({"port": [{"name": "a", "addresses": ["10.0.0.1"]}]}, str(path))
    with contextlib.closing(daemon.switch):
        assert path.is_socket()
        path.unlink()
        daemon._stay_reachable()
        assert path.is_socket() and named == [False, False]
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
        daemon._unbind()
    assert list(tmp_path.iterdir()) == []
