"""Many connections that are waited for at once, each until its time is over."""

import select
from collections import deque
from math import inf
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from time import monotonic
from typing import Generic, TypeVar

from cronjob.lib.bell import Bell
from cronjob.lib.wire import Stream

T = TypeVar("T")
FINE_SECONDS = 0.05  # a shorter sleep ends on time, where a longer one may last a millisecond more


class Watch(Generic[T]):
    """One thread sleeps in `wait`; any thread may `add` a stream, or `wake` it."""

    def __init__(self) -> None:
        self.selector = DefaultSelector()
        self.bell = Bell()
        self.selector.register(self.bell.reader, EVENT_READ)
        self.added: deque[tuple[Stream, T]] = deque()
        self.watched: dict[int, tuple[Stream, T]] = {}
        self.over_at = inf  # no deadline is before that

    def add(self, stream: Stream, whose: T) -> None:
        self.added.append((stream, whose))

    def wait(self, seconds: float) -> list[T]:
        """Whose streams are ready, or out of time; none if woken, or when the seconds are over."""
        self.take_in()
        seconds = max(0.0, min(seconds, self.over_at - monotonic()))
        if 0 < seconds < FINE_SECONDS:
            select.select([self.selector.fileno()], [], [], seconds)
            seconds = 0.0
        found = self.selector.select(None if seconds == inf else seconds)
        ready = [key.fd for key, _ in found]
        if self.bell.reader in ready:
            ready.remove(self.bell.reader)
            self.bell.hush()
        if (now := monotonic()) >= self.over_at:
            late = [fd for fd, (stream, _) in self.watched.items() if over_at(stream) <= now]
            ready += [fd for fd in late if fd not in ready]
            left = [over_at(stream) for fd, (stream, _) in self.watched.items() if fd not in ready]
            self.over_at = min(left, default=inf)
        return [self.let_go(fd) for fd in ready]

    def take_in(self) -> None:
        while self.added:
            stream, whose = self.added.popleft()
            fd = stream.sock.fileno()
            event = EVENT_WRITE if stream.wants == select.POLLOUT else EVENT_READ
            self.selector.register(fd, event)
            self.watched[fd] = stream, whose
            self.over_at = min(self.over_at, over_at(stream))

    def let_go(self, fd: int) -> T:
        self.selector.unregister(fd)
        return self.watched.pop(fd)[1]

    def close(self) -> None:
        self.selector.close()
        self.bell.close()


def over_at(stream: Stream) -> float:
    return inf if stream.deadline is None else stream.deadline
