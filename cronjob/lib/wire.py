"""Connections that end when told: by a deadline in every phase, or cut off by another thread."""

import io
import os
import select
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from errno import EINPROGRESS
from functools import partial
from http.client import HTTPException, HTTPResponse
from math import ceil
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, cast

from cronjob.lib.addresses import Address, Place

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

IDLE_SECONDS = 1.5  # gunicorn hangs up after 2, Node and uvicorn after 5: we go first
LIFE_SECONDS = 60.0  # by then a name may lead elsewhere


class CutOff(Exception):
    """The line was cut before this began."""


def left(deadline: float) -> float:
    seconds = deadline - monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


class Line:
    """What another thread holds to cut a call off."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._end: Callable[[], object] | None = None
        self.is_cut = False

    def cut(self) -> None:
        """End the call, or let it never start. The target sees its connection closed at once."""
        with self._lock:
            self.is_cut = True
            if self._end:
                with suppress(OSError):
                    self._end()

    def hold(self, end: Callable[[], object]) -> None:
        """Remember what ends the wait that follows."""
        with self._lock:
            if self.is_cut:
                raise CutOff
            self._end = end

    def hold_socket(self, sock: socket.socket) -> None:
        # A shutdown wakes whoever waits for the socket, and that thread closes it. Were it closed
        # here, its number could be another connection's before the thread took notice.
        self.hold(partial(socket.socket.shutdown, sock, socket.SHUT_RDWR))

    def let_go(self) -> bool:
        """From here on nothing is ended any more. Says whether it was before."""
        with self._lock:
            self._end = None
            return self.is_cut


def dial(found: list[Address], deadline: float, line: Line) -> socket.socket:
    """Connect to the first address that answers; one that is silent gets its share of the time."""
    failure: OSError = TimeoutError()
    for number, address in enumerate(found):
        try:
            return dial_one(address, left(deadline) / (len(found) - number), line)
        except OSError as error:
            failure = error
    raise failure


def dial_one(address: Address, seconds: float, line: Line) -> socket.socket:
    family, where = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        error = sock.connect_ex(where)
        if error == EINPROGRESS:
            # Held only once it is under way: before that, a shutdown would go unnoticed.
            line.hold_socket(sock)
            poll = select.poll()
            poll.register(sock, select.POLLOUT)
            if not poll.poll(ceil(seconds * 1000)):
                raise TimeoutError
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
    except BaseException:
        line.let_go()
        sock.close()
        raise
    return sock


def encrypt(
    sock: socket.socket, tls: ssl.SSLContext, host: str, deadline: float, line: Line
) -> socket.socket:
    name = host.rstrip(".")  # no certificate ends a name with its dot
    try:
        if line.let_go():  # of a socket that changes hands
            raise CutOff
        wrapped = tls.wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False)
        sock = wrapped
        line.hold_socket(wrapped)
        wrapped.settimeout(left(deadline))
        wrapped.do_handshake()
    except BaseException:
        line.let_go()
        sock.close()
        raise
    return wrapped


class Stream(io.RawIOBase):
    """The bytes of a connection. Each read or write waits for what is left of the whole call."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.restart(deadline=None)

    def restart(self, *, deadline: float | None) -> None:
        """Before each call; without a deadline nothing is waited for."""
        self.deadline = deadline
        self.written = 0
        self.first_byte_at: float | None = None
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        self.sock.settimeout(0 if self.deadline is None else left(self.deadline))
        try:
            count = self.sock.recv_into(buffer)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        if not count:
            self.ended = True
        elif self.first_byte_at is None:
            self.first_byte_at = monotonic()
        return count

    def send(self, data: bytes, *, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            self.sock.settimeout(left(deadline))
            count = self.sock.send(rest)
            self.written += count
            rest = rest[count:]


class Reader(io.BufferedReader):
    def close(self) -> None:
        """Nothing: `http.client` closes it after an answer, we read the next one from it."""


class Connection:
    def __init__(self, sock: socket.socket, place: Place) -> None:
        self.stream = Stream(sock)
        self.reader = Reader(self.stream)
        self.place = place
        self.reused = False
        self.made_at = self.idle_since = monotonic()

    def makefile(self, _mode: str) -> io.BufferedReader:
        """All that `http.client` asks of a socket to read an answer from it."""
        return self.reader

    def is_good(self) -> bool:
        """It is young enough, still open, and nothing came unasked for."""
        now = monotonic()
        if now - self.idle_since > IDLE_SECONDS or now - self.made_at > LIFE_SECONDS:
            return False
        self.stream.restart(deadline=None)
        with suppress(OSError):
            return not self.reader.peek(1) and not self.stream.ended
        return False

    def answer(self, method: str) -> HTTPResponse:
        """The answer up to its body."""
        while True:
            response = HTTPResponse(cast(socket.socket, self), method=method)
            response.begin()
            if self.stream.ended:  # which `http.client` takes for the end of the headers
                raise HTTPException
            if response.status not in (102, 103):  # the answer proper is still to come
                return response

    def close(self) -> None:
        self.stream.sock.close()


class Pool:
    """Idle connections by origin. The newest is taken first, so that the rest can grow old."""

    def __init__(self, most: int) -> None:
        self._most, self._count, self._swept_at = most, 0, monotonic()
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}
        self._lock = Lock()

    def take(self, origin: tuple[str, str, int]) -> Connection | None:
        while True:
            with self._lock:
                idle = self._idle.get(origin)
                if not idle:
                    return None
                connection = idle.pop()
                self._count -= 1
            if connection.is_good():
                connection.reused = True
                return connection
            connection.close()

    def keep(self, connection: Connection) -> None:
        connection.idle_since = now = monotonic()
        unwanted: list[Connection] = []
        with self._lock:
            if now - self._swept_at > IDLE_SECONDS:
                self._swept_at = now
                unwanted = self._sweep(before=now - IDLE_SECONDS)
            if self._count < self._most:
                self._idle.setdefault(connection.place.origin, []).append(connection)
                self._count += 1
            else:
                unwanted.append(connection)
        for one in unwanted:
            one.close()

    def close(self) -> None:
        """Close what is idle, and from now on whatever comes back."""
        with self._lock:
            self._most = 0
            unwanted = self._sweep(before=monotonic())
        for one in unwanted:
            one.close()

    def _sweep(self, *, before: float) -> list[Connection]:
        """Take out what became idle before then."""
        every = [one for idle in self._idle.values() for one in idle]
        self._idle = {}
        for one in every:
            if one.idle_since > before:
                self._idle.setdefault(one.place.origin, []).append(one)
        old = [one for one in every if one.idle_since <= before]
        self._count -= len(old)
        return old
