"""The server of the metrics page: no client delays another one, whatever it sends, does not send, or does not take."""

import contextlib
import http.client
import logging
import socket
import threading

import pytest
from daemons import A, running
from drawn import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from waiting import until

from penstock_net.errors import SpecError
from penstock_net.vswitch.daemon import page_server
from penstock_net.vswitch.daemon.page_server import PageServer

NEVER = 1e6  # s


@contextlib.contextmanager
def serving(text=lambda: "page\n", address="127.0.0.1:0"):
    server = PageServer(address, "text/x", text)
    server.start()
    try:
        yield server
    finally:
        server.close()
        assert not server.thread.is_alive()


def get(server, path="/metrics", method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def client(server, data=b"", **options):
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=120)
    connection.sendall(data)
    return connection


def closed(connection):
    """Wait until the server has closed a connection."""
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(4096):
            pass


@pytest.mark.parametrize("data", [b"", b"GET /metrics HTTP/1.1\r\nHost: x\r\n", b"GET /metr"])
def test_half_sent_requests_delay_nobody(monkeypatch, data):
    """Also when they never end: they have no deadline here, so that waiting for one of them would last for ever."""
    monkeypatch.setattr(page_server, "REQUEST_S", NEVER)
    with serving() as server, contextlib.ExitStack() as stack:
        held = [stack.enter_context(client(server, data)) for _ in range(200)]
        for _ in range(3):
            assert get(server) == (200, "page\n")
        for connection in held[: 200 - page_server.MOST_CONNECTIONS]:
            closed(connection)
        assert len(server.connections) <= page_server.MOST_CONNECTIONS


def test_a_request_has_a_deadline(monkeypatch):
    """Of the whole request: a byte now and then does not keep the connection open."""
    monkeypatch.setattr(page_server, "REQUEST_S", 0.1)
    with serving() as server, client(server) as silent, client(server) as slow:
        with pytest.raises(OSError):
            while True:
                slow.sendall(b"X")
                slow.settimeout(0.01)
                with contextlib.suppress(TimeoutError):
                    if not slow.recv(1):
                        raise ConnectionResetError
        closed(silent)


def test_who_takes_no_answer_delays_nobody(monkeypatch):
    """Its answer is dropped after a while, or when others want to come."""
    monkeypatch.setattr(page_server, "ANSWER_S", NEVER)
    page = "x" * 8_000_000
    with serving(lambda: page) as server, contextlib.ExitStack() as stack:
        for _ in range(2 * page_server.MOST_CONNECTIONS):
            stack.enter_context(client(server, b"GET /metrics HTTP/1.1\r\n\r\n"))
        assert get(server) == (200, page)
    monkeypatch.setattr(page_server, "ANSWER_S", 0.05)
    with serving(lambda: page) as server, client(server, b"GET /metrics HTTP/1.1\r\n\r\n") as slow:
        until(lambda: len(server.connections) == 1)
        until(lambda: not server.connections)
        assert slow.fileno() >= 0


def test_the_page_is_written_for_all_who_wait(monkeypatch):
    """However many ask, its cost is bounded; and nobody gets one that was written before it asked."""
    monkeypatch.setattr(page_server, "PAGE_S", 0.5)
    written = []
    with serving(lambda: written.append(len(written)) or f"{len(written)}\n") as server:
        assert get(server) == (200, "1\n")
        found = []
        threads = [threading.Thread(target=lambda: found.append(get(server))) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert len(found) == 30 and {status for status, _ in found} == {200}
        assert all(int(text) > 1 for _, text in found) and len(written) < 15


def test_what_is_not_the_page():
    def fail():
        raise RuntimeError("the worker has ended")

    with serving(fail) as server:
        assert get(server) == (503, "the worker has ended\n")
        assert get(server, "/")[0] == 404 and get(server, method="PUT")[0] == 501
        assert get(server, method="HEAD") == (503, "")
        with client(server, b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 20_000) as connection:
            closed(connection)
        with client(server, b"GET /metrics HTTP/1.1\r\n" + b"x: y\r\n" * 5000) as connection:
            closed(connection)


@given(data=st.one_of(st.binary(max_size=300), st.from_regex(rb"(GET|HEAD|P[A-Z]*) [^\n]* HTTP/1\.[01x]\r?\n(.*\n){0,5}")))
@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_request_may_be_anything(shared, data):
    with client(shared, data) as connection:
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                answer += part
        assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
    assert get(shared) == (200, "page\n")


@pytest.fixture(scope="module")
def shared():
    with serving() as server:
        yield server


def test_an_address_that_is_taken_and_a_server_that_never_started():
    with serving() as server, pytest.raises(SpecError, match=r"switch\.metrics = .*cannot listen there"):
        PageServer(f"127.0.0.1:{server.port}", "text/x", str)
    PageServer("127.0.0.1:0", "text/x", str).close()


@pytest.mark.parametrize("address, local", [("127.0.0.1:0", True), ("127.8.8.8:0", True), ("0.0.0.0:0", False)])
def test_an_open_address_is_warned_of(tmp_path, address, local):
    """In one line of the log; an address of this machine only is not."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append((record.levelname, record.getMessage()))
    logger = logging.getLogger("penstock_net.vswitch")
    logger.addHandler(handler)
    try:
        with running(tmp_path / "s", {"switch": {"metrics": address}, "port": [{"name": "a", "addresses": [A]}]}) as daemon:
            until(lambda: daemon.metrics.thread.is_alive())
    finally:
        logger.removeHandler(handler)
    found = [text for level, text in lines if level == "WARNING"]
    assert (found == []) if local else (len(found) == 1 and "every host that reaches" in found[0])
