"""A real HTTP server on loopback that behaves as well, or as badly, as a test asks it to."""

from __future__ import annotations

import json
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPMessage, parse_headers, responses
from itertools import chain, repeat
from threading import Condition, Event, Thread
from typing import Self
from urllib.parse import parse_qs


@dataclass(frozen=True)
class Received:
    """A request as it came: `query` is raw, `headers` ignore case, `at` is monotonic."""

    method: str
    path: str
    query: str
    headers: HTTPMessage
    body: bytes
    at: float
    connection: int

    def parameter(self, name: str, *, default: str = "") -> str:
        """Return the decoded query parameter of that name, or the default."""
        return parse_qs(self.query, keep_blank_values=True).get(name, [default])[-1]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer: a body of bytes gets a Content-Length, an iterable is sent piece by piece."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Iterable[bytes] = b""


Handler = Callable[[Received], Answer]


def _behave(request: Received) -> Answer | None:
    """Answer the paths where nothing goes wrong."""
    match request.path.split("/")[1:]:
        case ["echo"]:
            text, headers = str(request.body, errors="replace"), dict(request.headers.items())
            seen = json.dumps(vars(request) | {"headers": headers, "body": text}).encode()
            return Answer(headers={"Content-Type": "application/json"}, body=seen)
        case ["status", status]:
            wait, body = request.parameter("retry_after"), request.parameter("body").encode()
            headers = {"Retry-After": wait} if wait else {}
            return Answer(status=int(status), headers=headers, body=body)
        case ["redirect"]:
            status = request.parameter("status", default="302")
            return Answer(status=int(status), headers={"Location": request.parameter("to")})
        case ["redirect-loop"]:
            return Answer(status=302, headers={"Location": request.path})
        case ["set-cookie"]:
            return Answer(headers={"Set-Cookie": "flavour=oatmeal; Path=/"})
    return None


class _Connection:
    """An accepted connection, which answers its requests until either side is done with it."""

    def __init__(self, sock: socket.socket, *, target: Target, number: int) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._target, self._number = target, number
        self._sock, self._reader = sock, sock.makefile("rb")

    def serve(self) -> None:
        # A client that gives up breaks the connection, which is its right and no news.
        with self._sock, self._reader, suppress(ConnectionError):
            # Every method starts with a letter, and a TLS hello may never end its line.
            while self._reader.peek(1)[:1].isalpha():
                self._serve_one()

    def _serve_one(self) -> None:
        words, at = self._reader.readline().decode("latin-1").split(), time.monotonic()
        if len(words) != 3:
            raise ConnectionAbortedError
        method, (path, _, query), version = words[0], words[1].partition("?"), words[2]
        headers = parse_headers(self._reader)
        size = 0 if path == "/early-close" else int(headers.get("Content-Length", 0))
        body = self._reader.read(size)
        if len(body) < size:
            raise ConnectionAbortedError
        request = Received(method, path, query, headers, body, at, self._number)
        gate = self._target._record(request)
        handler = self._target._handlers.get(path, _behave)
        answer = handler(request) or self._misbehave(request, gate=gate)
        if version != "HTTP/1.1" or headers["Connection"] == "close":
            answer = replace(answer, headers={**answer.headers, "Connection": "close"})
        self._send(answer, headless=method == "HEAD")
        if answer.headers.get("Connection") == "close":
            raise ConnectionAbortedError

    def _misbehave(self, request: Received, *, gate: Event) -> Answer:
        """Answer the paths where something is slow, large or wrong."""
        size = int(request.parameter("bytes", default="100"))
        interval = float(request.parameter("interval", default="0.1"))
        length = {"Content-Length": str(size)}
        match request.path:
            case "/slow":
                self._pause(float(request.parameter("seconds", default="1")))
                return Answer(body=b"slow")
            case "/hold":
                gate.wait()
                self._pause(0)
                return Answer(body=b"released")
            case "/drip":
                return Answer(headers=length, body=self._pieces(size, step=1, pause=interval))
            case "/drip-headers":
                self._sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Drip: ")
                for piece in self._pieces(size, step=1, pause=interval):
                    self._sock.sendall(piece)
                self._sock.sendall(b"\r\n\r\n")
            case "/huge" if request.parameter("chunked") == "1":
                chunks = (b"%x\r\n%b\r\n" % (len(piece), piece) for piece in self._pieces(size))
                body = chain(chunks, [b"0\r\n\r\n"])
                return Answer(headers={"Transfer-Encoding": "chunked"}, body=body)
            case "/huge":
                return Answer(headers=length, body=self._pieces(size))
            case "/gzip-bomb":
                return Answer(headers={"Content-Encoding": "gzip"}, body=self._squeezed(size))
            case "/silent":
                self._pause(None)
            case "/wrong":
                self._sock.sendall(b"This is not HTTP.\r\n")
            case "/half":
                return Answer(headers=length | {"Connection": "close"}, body=[b"x" * (size // 2)])
            case "/early-close":
                # What the reader has buffered, the kernel no longer counts as left unread.
                reset = struct.pack("ii", 1, 0)
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            case _ if request.path != "/close":
                return Answer(status=404)
        raise ConnectionAbortedError

    def _send(self, answer: Answer, *, headless: bool) -> None:
        bare = answer.status < 200 or answer.status in (204, 304)
        headers, body = answer.headers, [] if bare else answer.body
        if isinstance(body, bytes):
            headers, body = {"Content-Length": str(len(body)), **headers}, [body]
        lines = [f"HTTP/1.1 {answer.status} {responses.get(answer.status, 'Unheard Of')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._sock.sendall("\r\n".join([*lines, "\r\n"]).encode("latin-1"))
        for piece in [] if headless else body:
            self._sock.sendall(piece)

    def _pause(self, seconds: float | None) -> None:
        if self._target._stopping.wait(seconds):
            raise ConnectionAbortedError

    def _pieces(self, size: int, *, step: int = 65536, pause: float = 0) -> Iterator[bytes]:
        for start in range(0, size, step):
            self._pause(pause)
            yield b"x" * min(step, size - start)

    def _squeezed(self, size: int) -> bytes:
        gzip = zlib.compressobj(wbits=31)  # 31 is how zlib spells the gzip format.
        return b"".join([gzip.compress(piece) for piece in self._pieces(size)]) + gzip.flush()


class Target:
    """A server that runs inside its `with` block and remembers what it received."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.connections = 0
        self._handlers: dict[str, Handler] = {}
        self._accepted: list[tuple[socket.socket, Thread]] = []
        self._arrival = Condition()
        self._gate, self._stopping = Event(), Event()

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._address = self._listener.getsockname()
        self._acceptor = Thread(target=self._accept, name="target", daemon=True)
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def url(self, path: str) -> str:
        """Return the absolute URL of a path, which may carry a query."""
        return f"http://127.0.0.1:{self._address[1]}{path}"

    def answers(self, path: str, script: Handler | Sequence[Answer]) -> None:
        """Script a path: with a handler, or with answers used in turn, the last one for ever."""
        if callable(script):
            self._handlers[path] = script
        else:
            turns = chain(script, repeat(script[-1]))
            self._handlers[path] = lambda _: next(turns)

    def wait_for(self, count: int, *, timeout: float = 60) -> list[Received]:
        """Return the first so many requests once they are here, or fail and say which are."""
        with self._arrival:
            self._arrival.wait_for(lambda: len(self.requests) >= count, timeout)
            came = [f"{request.method} {request.path}" for request in self.requests]
        assert len(came) >= count, f"{len(came)} of {count} came in {timeout} seconds: {came}"
        return self.requests[:count]

    def release(self) -> None:
        """Let /hold answer every request received so far; it goes on to hold later ones."""
        with self._arrival:
            self._gate.set()
            self._gate = Event()

    def stop(self) -> None:
        """Close every connection and wait for its thread; stopping twice does no harm."""
        self._stopping.set()
        # Only something to accept wakes an accept on every platform.
        with suppress(OSError), socket.create_connection(self._address, timeout=1):
            self._acceptor.join()
        with self._arrival:
            self._gate.set()
        for sock, thread in self._accepted:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=5)
            assert not thread.is_alive(), "A scripted handler did not return."

    def _accept(self) -> None:
        with self._listener:
            while True:
                sock, _ = self._listener.accept()
                if self._stopping.is_set():
                    return sock.close()
                self.connections += 1
                connection = _Connection(sock, target=self, number=self.connections)
                thread = Thread(target=connection.serve, name="target", daemon=True)
                self._accepted.append((sock, thread))
                thread.start()

    def _record(self, request: Received) -> Event:
        with self._arrival:
            self.requests.append(request)
            self._arrival.notify_all()
            return self._gate
