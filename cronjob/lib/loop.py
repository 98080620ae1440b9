"""What a long-running command sleeps in: until its time, until somebody wakes it, or a signal."""

import os
import select
import signal
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

STOPS = (signal.SIGTERM, signal.SIGINT)


class Loop:
    """Signals and threads write a byte into a pipe; nothing else is done in a signal handler."""

    def __init__(self) -> None:
        self.asked_to_stop = 0
        self.woken = False
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self.writer, False)

    def __enter__(self) -> Self:
        self.before_fd = signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        self.before: dict[int, Any] = {n: signal.signal(n, lambda *_: None) for n in STOPS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self.before_fd)
        os.close(self.reader)
        writer, self.writer = self.writer, -1  # a late word must not reach another file
        os.close(writer)

    def wake(self) -> None:
        """From any thread; once is enough however often."""
        if not self.woken:
            self.woken = True
            with suppress(OSError):  # full: it wakes anyway; closed: nobody sleeps
                os.write(self.writer, b"\0")

    def wait(self, seconds: float) -> None:
        select.select([self.reader], [], [], max(0.0, seconds))
        self.woken = False  # before what was said is read: later words wake again
        try:
            said = os.read(self.reader, 65536)
        except BlockingIOError:
            return
        self.asked_to_stop += sum(said.count(number) for number in STOPS)

    def pause(self, seconds: float) -> None:
        """A moment in which nobody is heard; what was said is heard afterwards."""
        select.select([], [], [], max(0.0, seconds))
