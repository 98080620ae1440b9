"""The other side of a connection where `tests.target` is too well behaved, or speaks no TLS."""

import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Any

from cronjob.lib import http
from cronjob.lib.watch import Watch

PATIENCE = 20  # seconds after which something that must happen did not
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Serve = Callable[[socket.socket], object]


def request(url: str, method: str = "GET", **fields: Any) -> http.Request:
    limits = {"connect_seconds": PATIENCE, "total_seconds": PATIENCE, "bytes_max": 1 << 20}
    return http.Request(**({"method": method, "url": url, "headers": {}} | limits | fields))


class Watched(http.Line):
    """A line that counts what the call waits for: to be connected, for TLS, for an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.holds, self.change = 0, Condition()

    def hold(self, end: Callable[[], object]) -> None:
        super().hold(end)
        with self.change:
            self.holds += 1
            self.change.notify_all()

    def cut_at(self, holds: int, *, after: Event | None = None) -> None:
        """Cut as soon as the call is that far, and the event came."""
        with self.change:
            assert self.change.wait_for(lambda: self.holds >= holds, PATIENCE)
        assert after is None or after.wait(PATIENCE)
        self.cut()


class WatchedClient(http.Client):
    """Calls as a scheduler makes them: whatever can be waited for along with others is."""

    def send(self, request: http.Request, line: http.Line | None = None) -> http.Reply:
        watch, steps = Watch[None](), self.steps(request, line)
        try:
            while True:
                if stream := next(steps):
                    watch.add(stream, None)
                    while not watch.wait(PATIENCE):
                        pass
        except StopIteration as end:
            reply: http.Reply = end.value
            return reply
        finally:
            watch.close()


class Peer:
    """A server that does with each connection what it is told, and closes it when that returns."""

    def __init__(self, serve: Serve, *, certificate: Path | None = None) -> None:
        self.serve, self.connections = serve, 0
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if certificate else None
        if self.tls and certificate:
            self.tls.load_cert_chain(certificate)
        self.ended = Event()  # a connection was served to its end
        self.stack = ExitStack()

    def __enter__(self) -> "Peer":
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/"
        self.accepting = Thread(target=self.accept, daemon=True)
        self.accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join(PATIENCE)
        self.listener.close()
        self.stack.close()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.connections += 1
                if self.tls:
                    sock = self.tls.wrap_socket(
                        sock, server_side=True, do_handshake_on_connect=False
                    )
                thread = Thread(target=self.handle, args=(sock,), daemon=True)
                self.stack.callback(thread.join, PATIENCE)
                self.stack.callback(hang_up, sock)
                thread.start()

    def handle(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            self.serve(sock)
        self.ended.set()


def hang_up(sock: socket.socket) -> None:
    with suppress(OSError):  # of the raw socket: TLS is for the thread that reads it
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def read_head(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            raise ConnectionResetError
        data += piece
    return data


def read_on(sock: socket.socket) -> None:
    """Until the other side is gone."""
    while sock.recv(65536):
        pass


def saying(*answers: bytes) -> Serve:
    """Give each request the next answer, and hang up after the last."""

    def serve(sock: socket.socket) -> None:
        for answer in answers:
            read_head(sock)
            sock.sendall(answer)

    return serve


@contextmanager
def full() -> Iterator[int]:
    """The port of a server that answers to no attempt to connect any more."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def certificate(folder: Path) -> Path:
    """A file with a key and a certificate for localhost and 127.0.0.1, signed by itself."""
    file = folder / "localhost.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", file, "-out", f"{file}.crt",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


def relay(port: int) -> Serve:
    """Pass everything to and from that port."""

    def serve(outer: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", port)) as inner:
            back = Thread(target=pump, args=(inner, outer), daemon=True)
            back.start()
            pump(outer, inner)
            back.join(PATIENCE)

    return serve


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
    hang_up(source)
    hang_up(sink)
