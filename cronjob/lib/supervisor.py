"""Runs several processes as one: they start together, and the end of one is the end of all."""

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_SECONDS = 30  # from asking the children to stop to killing what is left
PR_SET_PDEATHSIG = 1

Process = subprocess.Popen[bytes]


@dataclass(frozen=True, kw_only=True)
class Child:
    name: str
    command: Sequence[str]
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    keeps: tuple[int, ...] = ()  # file descriptors it inherits


def supervise(children: Sequence[Child]) -> int:
    """Run them until one ends or we are told to stop; the exit code to leave with."""
    with wakeups() as woken:
        running = {child.name: start(child) for child in children}
        try:
            asked = wait(running.values(), woken)
            failed = next((p for p in running.values() if p.poll() is not None), None)
            if failed is not None and not asked:
                name = next(name for name, p in running.items() if p is failed)
                print(f"error: {name} ended with exit code {failed.returncode}", file=sys.stderr)  # noqa: T201  a person is looking on
        finally:
            stop(running.values(), woken)
    if asked or failed is None:
        return 0
    return failed.returncode if failed.returncode > 0 else 1


@contextmanager
def wakeups() -> Iterator[int]:
    """A pipe that gets a byte for each SIGINT, SIGTERM and SIGCHLD: nothing is done in handlers."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    pipe = signal.set_wakeup_fd(writer)
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
    before = {number: signal.signal(number, lambda *_: None) for number in signals}
    try:
        yield reader
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(pipe)
        os.close(reader)
        os.close(writer)


def start(child: Child) -> Process:
    # A session of its own: Ctrl-C reaches us alone, and we tell the children in order.
    return subprocess.Popen(
        child.command,
        cwd=child.directory,
        env=os.environ | dict(child.environment),
        pass_fds=child.keeps,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )


def end_with_parent() -> None:
    """Where the system can, a child does not outlive a supervisor that was killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def wait(running: Collection[Process], woken: int) -> bool:
    """Until a signal asks us to stop (True) or a child has ended (False)."""
    while all(process.poll() is None for process in running):
        select.select([woken], [], [], 60)
        if asked_to_stop(woken):
            return True
    return False


def asked_to_stop(woken: int) -> bool:
    try:
        numbers = os.read(woken, 4096)
    except BlockingIOError:
        return False
    return signal.SIGINT in numbers or signal.SIGTERM in numbers


def stop(running: Collection[Process], woken: int) -> None:
    """Ask, wait, and kill what does not listen; asked a second time, kill at once."""
    for process in running:
        if process.poll() is None:
            process.terminate()
    left = PATIENCE_SECONDS
    while left > 0 and any(process.poll() is None for process in running):
        select.select([woken], [], [], 1)
        left -= 1
        if asked_to_stop(woken):
            break
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()
