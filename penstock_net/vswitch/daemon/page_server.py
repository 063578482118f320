"""An HTTP server for one page, /metrics. No client can block it: connections, their duration and the page's cost are bounded.

connections     at most MOST_CONNECTIONS; one more closes the oldest
a connection    REQUEST_S for its whole request, of at most REQUEST_BYTES; ANSWER_S to take the answer; one answer
the page        written at most once per PAGE_S; requests in between get the next one
"""

import contextlib
import http
import ipaddress
from collections.abc import Callable

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.daemon.config import parse_address
from penstock_net.vswitch.world import asyncio, socket, threading

MOST_CONNECTIONS = 64
REQUEST_BYTES = 8192
REQUEST_S = 2.0
ANSWER_S = 10.0
PAGE_S = 0.05
PATH = "/metrics"


class PageServer:
    """Serves /metrics in its own thread.  SpecError: the address cannot be bound.

    text       writes the page; called in the server's thread
    listener   a socket that listens there already
    """

    def __init__(self, address: str, content_type: str, text: Callable[[], str], listener: socket.socket | None = None) -> None:
        host, port = parse_address(address)
        self.content_type, self.text = content_type, text
        self.local = ipaddress.ip_address(host).is_loopback  # only this machine can read the page
        self.listener = listener or _listen(host, port, address)
        self.port: int = self.listener.getsockname()[1]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.loop = asyncio.new_event_loop()
        self.over = asyncio.Event()
        self.connections: dict[asyncio.Task[None], None] = {}  # the oldest first
        self.page: asyncio.Task[tuple[http.HTTPStatus, bytes]] | None = None  # that is written next
        self.page_after = 0.0  # time of the loop from which it may be
        self.thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def close(self) -> None:
        """Stop serving, if it was started."""
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.over.set)
            self.thread.join(5)
        else:
            self.loop.close()
        self.listener.close()

    def _run(self) -> None:
        with contextlib.closing(self.loop):
            self.loop.set_exception_handler(lambda loop, context: None)  # a client that closed the connection early
            self.loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, sock=self.listener, limit=REQUEST_BYTES)
        await self.over.wait()
        server.close()
        for task in list(self.connections):
            task.cancel()
        await asyncio.gather(*self.connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections[task] = None
        if len(self.connections) > MOST_CONNECTIONS:
            oldest = next(iter(self.connections))
            del self.connections[oldest]
            oldest.cancel()
        try:
            async with asyncio.timeout(REQUEST_S):
                request = await _request(reader)
            async with asyncio.timeout(ANSWER_S):
                writer.write(await self._answer(*request))
                await writer.drain()
                writer.write_eof()
                writer.close()
                await writer.wait_closed()
        except (OSError, ValueError, EOFError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self.connections.pop(task, None)
            writer.transport.abort()

    async def _answer(self, method: str, target: str) -> bytes:
        status, kind, body = http.HTTPStatus.OK, "text/plain; charset=utf-8", b""
        if method not in ("GET", "HEAD"):
            status = http.HTTPStatus.NOT_IMPLEMENTED
        elif target.split("?")[0] != PATH:
            status, body = http.HTTPStatus.NOT_FOUND, f"only {PATH} is here\n".encode()
        else:
            status, body = await self._next_page()
            kind = self.content_type if status == http.HTTPStatus.OK else kind
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        return "\r\n".join([*head, "\r\n"]).encode() + (b"" if method == "HEAD" else body)

    async def _next_page(self) -> tuple[http.HTTPStatus, bytes]:
        """The page, written after this call and shared by all requests that wait for it."""
        if self.page is None:
            self.page = asyncio.create_task(self._write_page())
        return await asyncio.shield(self.page)

    async def _write_page(self) -> tuple[http.HTTPStatus, bytes]:
        await asyncio.sleep(self.page_after - self.loop.time())
        self.page = None  # whoever asks from now on gets a later one
        try:
            return http.HTTPStatus.OK, self.text().encode()
        except (PenstockError, RuntimeError) as error:
            return http.HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode()
        finally:
            self.page_after = self.loop.time() + PAGE_S


def _listen(host: str, port: int, address: str) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise SpecError(
            f"cannot listen there ({error.strerror})", path="switch.metrics", value=address, remedy="choose another"
        ) from None
    return listener


async def _request(reader: asyncio.StreamReader) -> tuple[str, str]:
    """Method and target of a request.  ValueError: it is not a request, or is too long; EOFError: it ends early."""
    first = ""
    size = 0
    while line := await reader.readline():
        size += len(line)
        if size > REQUEST_BYTES:
            raise ValueError("a request that is too long")
        if not line.strip():
            method, target, version = first.split(" ")
            if not version.startswith("HTTP/1."):
                raise ValueError("not HTTP")
            return method, target
        first = first or line.decode("ascii").strip()
    raise EOFError
