"""Connections that end when told: by a deadline in every phase, or cut off by another thread.

Whoever would have to wait for one yields it instead: a thread of its own waits then and there, or
one thread for all of them.
"""

import io
import os
import select
import socket
import ssl
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from errno import EINPROGRESS
from functools import partial
from itertools import takewhile
from math import ceil
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from cronjob.lib.addresses import Address, Origin
from cronjob.lib.answer import length_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

IDLE_SECONDS = 1.5  # gunicorn hangs up after 2, Node and uvicorn after 5: we go first
LIFE_SECONDS = 60.0  # by then a name may lead elsewhere
STEP = 65536  # bytes, read at once
MOST = 65536  # bytes of an answer that are waited for before any of them is looked at

T = TypeVar("T")
# On the way to its result it yields what it waits for: a stream, until it is ready for what it
# `wants` or its time is over. None: from here on nobody knows what it will have to wait for.
Steps = Generator["Stream | None", None, T]


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

    @contextmanager
    def holding(self, sock: socket.socket) -> Iterator[None]:
        self.hold_socket(sock)
        try:
            yield
        finally:
            self.let_go()

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
            with line.holding(sock):
                if not poll_for(sock, select.POLLOUT).poll(ceil(seconds * 1000)):
                    raise TimeoutError
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
    except BaseException:
        sock.close()
        raise
    return sock


class Stream(io.RawIOBase):
    """The bytes of a connection. Each read or write waits for what is left of the whole call."""

    def __init__(self, sock: socket.socket) -> None:
        # The waiting is ours: the socket's own asks the system before each word, and once more.
        sock.setblocking(False)
        self.sock, self.encrypted = sock, isinstance(sock, ssl.SSLSocket)
        self.polls = {event: poll_for(sock, event) for event in (select.POLLIN, select.POLLOUT)}
        self.wants = select.POLLIN
        self.early = b""  # what came before anybody read it
        self.failure: OSError | None = None  # what came after that
        self.restart(deadline=None)

    def restart(self, *, deadline: float | None) -> None:
        """Before each call; without a deadline nothing is waited for."""
        self.deadline = deadline
        self.written = 0
        self.first_byte_at: float | None = None
        self.ended = False

    def ready(self, event: int) -> bool:
        """Wait until it is; without a deadline, say whether it is."""
        if self.deadline is None:
            return bool(self.polls[event].poll(0))
        while not self.polls[event].poll(left(self.deadline) * 1000):
            pass
        return True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        if self.early:
            whole = memoryview(buffer)
            count = min(len(whole), len(self.early))
            whole[:count], self.early = self.early[:count], self.early[count:]
            return count
        if self.failure:
            raise self.failure
        # Nothing is there yet, most often; of what is encrypted some may have been read before.
        event = 0 if self.encrypted else select.POLLIN
        while True:
            if self.deadline is not None:
                left(self.deadline)  # also of a sender for whom nobody ever has to wait
            if event and not self.ready(event):
                return None
            try:
                count = self.sock.recv_into(buffer)
                break
            except (BlockingIOError, ssl.SSLWantReadError):
                event = select.POLLIN
            except ssl.SSLWantWriteError:
                event = select.POLLOUT
        if not count:
            self.ended = True
        elif self.first_byte_at is None:
            self.first_byte_at = monotonic()
        return count

    def fill(self) -> int | None:
        """Keep what is there for whoever reads: how much, 0 at the end; None if nothing is yet."""
        try:
            piece = self.sock.recv(STEP)
        except (BlockingIOError, ssl.SSLWantReadError):
            self.wants = select.POLLIN
            return None
        except ssl.SSLWantWriteError:
            self.wants = select.POLLOUT
            return None
        except OSError as error:  # what came before it counts
            self.failure = error
            return 0
        if piece and self.first_byte_at is None:
            self.first_byte_at = monotonic()
        self.early += piece
        return len(piece)

    def whole(self, method: str) -> Steps[None]:
        """Until the answer is there, or it shows that only reading tells where it ends."""
        assert self.deadline is not None
        length = 1
        self.wants = select.POLLIN
        while monotonic() < self.deadline:  # what came until then is read all the same
            yield self
            count = self.fill()
            if count == 0:
                return
            if count and len(self.early) >= length:
                told = length_of(self.early, method=method)
                if told is None or told > MOST:
                    yield None
                    return
                if told <= len(self.early):
                    return
                length = told

    def send(self, data: bytes) -> Steps[bool]:
        """False if the other side did not want to hear all of it."""
        assert self.deadline is not None
        rest = memoryview(data)
        while rest:
            left(self.deadline)
            try:
                self.written += self.sock.send(rest)
                rest = memoryview(data)[self.written :]
                continue
            except (BlockingIOError, ssl.SSLWantWriteError):
                self.wants = select.POLLOUT
            except ssl.SSLWantReadError:
                self.wants = select.POLLIN
            except ConnectionError:
                if not self.written:
                    raise
                return False  # it may have said why before it hung up, such as 413
            yield self
        return True


def poll_for(sock: socket.socket, event: int) -> "select.poll":
    poll = select.poll()
    poll.register(sock, event)
    return poll


class Wire(io.BufferedReader):
    """A connection, as urllib3 sees it: a socket, and the file that is made of one to read it."""

    def __init__(self, sock: socket.socket, origin: Origin) -> None:
        self.stream = Stream(sock)
        super().__init__(self.stream)
        self.origin = origin
        self.reused = False
        self.made_at = self.idle_since = monotonic()

    def settimeout(self, seconds: float | None) -> None:
        """Nothing: there is a deadline."""

    def makefile(self, _mode: str) -> "Wire":
        return self  # whatever was read too much must not get lost with a file of one answer

    def close(self) -> None:
        """Nothing: urllib3 closes file and socket in the middle of things. `hang_up` does it."""

    def hang_up(self) -> None:
        self.stream.sock.close()

    def is_good(self) -> bool:
        """It is young enough, still open, and nothing came unasked for."""
        now = monotonic()
        if now - self.idle_since > IDLE_SECONDS or now - self.made_at > LIFE_SECONDS:
            return False
        self.stream.restart(deadline=None)
        with suppress(OSError):
            return not self.peek(1) and not self.stream.ended
        return False


class Pool:
    """Idle connections. The newest is taken first, so that the rest can grow old."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: list[Wire] = []  # the newest last
        self._lock = Lock()

    def take(self, origin: Origin) -> Wire | None:
        while True:
            with self._lock:
                newest_first = range(len(self._idle) - 1, -1, -1)
                at = next((n for n in newest_first if self._idle[n].origin == origin), None)
                if at is None:
                    return None
                wire = self._idle.pop(at)
            if wire.is_good():
                wire.reused = True
                return wire
            wire.hang_up()

    def keep(self, wire: Wire) -> None:
        wire.idle_since = monotonic()
        with self._lock:
            if room := len(self._idle) < self._most:
                self._idle.append(wire)
        if not room:
            wire.hang_up()

    def tidy(self) -> None:
        """Close what has been idle for too long; to be asked now and then."""
        now = monotonic()
        with self._lock:
            unwanted = [*takewhile(lambda one: now - one.idle_since > IDLE_SECONDS, self._idle)]
            del self._idle[: len(unwanted)]
        for one in unwanted:
            one.hang_up()

    def close(self) -> None:
        """Close what is idle, and from now on whatever comes back."""
        with self._lock:
            self._most, unwanted = 0, self._idle
            self._idle = []
        for one in unwanted:
            one.hang_up()
