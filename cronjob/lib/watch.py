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
    """One thread sleeps in `wait`; any may `add` a stream, and then ring the bell."""

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
        """Whose streams are ready, or out of time; none if it rang, or the seconds are over."""
        found = self.take_in()
        seconds = 0.0 if found else max(0.0, min(seconds, self.over_at - monotonic()))
        if 0 < seconds < FINE_SECONDS:
            select.select([self.selector.fileno()], [], [], seconds)
            seconds = 0.0
        for key, _ in self.selector.select(None if seconds == inf else seconds):
            if key.fd == self.bell.reader:
                self.bell.hush()
            else:
                found.append(self.let_go(key.fd))
        if (now := monotonic()) >= self.over_at:
            late = [fd for fd, (stream, _) in self.watched.items() if over_at(stream) <= now]
            found += [self.let_go(fd) for fd in late]
            self.over_at = min(
                (over_at(stream) for stream, _ in self.watched.values()), default=inf
            )
        return found

    def take_in(self) -> list[T]:
        """Watch what was added; whose streams cannot be, which they have to find out themselves."""
        failed = []
        while self.added:
            stream, whose = self.added.popleft()
            event = EVENT_WRITE if stream.wants == select.POLLOUT else EVENT_READ
            try:
                fd = self.selector.register(stream.sock, event).fd
            except (OSError, ValueError, KeyError):
                failed.append(whose)
            else:
                self.watched[fd] = stream, whose
                self.over_at = min(self.over_at, over_at(stream))
        return failed

    def let_go(self, fd: int) -> T:
        self.selector.unregister(fd)
        return self.watched.pop(fd)[1]

    def close(self) -> None:
        self.selector.close()
        self.bell.close()


def over_at(stream: Stream) -> float:
    return inf if stream.deadline is None else stream.deadline
