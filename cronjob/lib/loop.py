"""What a long-running command sleeps in: until its time, until somebody wakes it, or a signal."""

import select
import signal
from types import TracebackType
from typing import Any, Self

from cronjob.lib.bell import Bell

STOPS = (signal.SIGTERM, signal.SIGINT)


class Loop:
    """Signals and threads ring a bell; nothing else is done in a signal handler."""

    def __init__(self) -> None:
        self.asked_to_stop = 0
        self.bell = Bell()

    def __enter__(self) -> Self:
        self.before_fd = signal.set_wakeup_fd(self.bell.writer, warn_on_full_buffer=False)
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
        self.bell.close()

    def wake(self) -> None:
        """From any thread."""
        self.bell.ring()

    def wait(self, seconds: float) -> None:
        select.select([self.bell.reader], [], [], max(0.0, seconds))
        said = self.bell.hush()
        self.asked_to_stop += sum(said.count(number) for number in STOPS)

    def pause(self, seconds: float) -> None:
        """A moment in which nobody is heard; what was said is heard afterwards."""
        select.select([], [], [], max(0.0, seconds))
