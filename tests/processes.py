"""Real processes of the product: started with an environment of their own, watched, and ended."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

ROOT = Path(__file__).resolve().parent.parent
HANG_SECONDS = 120  # how long a test waits before it says that something hangs


def environment(data_dir: Path, **variables: str) -> dict[str, str]:
    """Nothing of the machine's settings; the data directory is what its processes are known by."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"CRONJOB_DATA_DIR": str(data_dir), "PYTHONUNBUFFERED": "1"} | variables


def free_port(count: int = 1) -> int:
    """The first of so many ports in a row that nobody has, nor is given while we look away.

    Those that the system gives to whoever asks for any begin at 32768.
    """
    while True:
        first = random.randrange(20_000, 32_000)
        with ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(closing(socket.socket())).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first


def run(*command: str, data_dir: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment(data_dir, **variables),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )


class Running:
    """A command that goes on; what it prints is read at once and kept."""

    def __init__(
        self, *command: str, data_dir: Path, directory: Path = ROOT, **variables: str
    ) -> None:
        self.data_dir = data_dir
        self.output, self.ended = "", False
        self.told = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=directory,
            env=environment(data_dir, **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def listen(self) -> None:
        """Until the last process that holds the other end of the pipe is gone."""
        assert self.process.stdout is not None
        while chunk := os.read(self.process.stdout.fileno(), 65536):
            with self.told:
                self.output += chunk.decode(errors="replace")
                self.told.notify_all()
        with self.told:
            self.ended = True
            self.told.notify_all()

    def until(self, pattern: str) -> re.Match[str]:
        """Wait until the pattern shows up in what was printed."""
        with self.told:
            self.told.wait_for(lambda: self.ended or re.search(pattern, self.output), HANG_SECONDS)
            found = re.search(pattern, self.output)
        assert found, f"no {pattern!r} in:\n{self.output}"
        return found

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send the signal and wait for the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Until it and all that it started have ended; its exit code."""
        self.reader.join(HANG_SECONDS)
        assert self.ended, f"still running after {HANG_SECONDS} s:\n{self.output}"
        return self.process.wait(HANG_SECONDS)

    def family(self) -> dict[int, str]:
        """Every living process that was started with our data directory, and its command."""
        mark = f"CRONJOB_DATA_DIR={self.data_dir}".encode()
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(entry.name)] = command
            except (OSError, ValueError):  # it has ended meanwhile, or is not ours to look at
                continue
        return found

    def close(self) -> None:
        for pid in self.family():
            os.kill(pid, signal.SIGKILL)
        self.reader.join(HANG_SECONDS)
        self.process.wait(HANG_SECONDS)
        if self.process.stdout:
            self.process.stdout.close()


@contextmanager
def running(
    *command: str, data_dir: Path, directory: Path = ROOT, **variables: str
) -> Iterator[Running]:
    process = Running(*command, data_dir=data_dir, directory=directory, **variables)
    try:
        yield process
    finally:
        process.close()


@contextmanager
def up(data_dir: Path, *arguments: str, **variables: str) -> Iterator[Running]:
    """`manage.py up` on a port of its own, ready to be asked."""
    command = ("manage.py", "up", "--port", "0", *arguments)
    with running(*command, data_dir=data_dir, **variables) as process:
        assert answering(origin(process))
        yield process


def answering(base: str) -> bool:
    """Ask until somebody answers there."""
    with requests.Session() as session:
        patient = Retry(total=None, connect=HANG_SECONDS, backoff_factor=0.05, backoff_max=1)
        session.mount("http://", HTTPAdapter(max_retries=patient))
        return session.get(f"{base}/healthz", timeout=HANG_SECONDS).ok


def origin(process: Running) -> str:
    return process.until(r"Console +(http://\S+)/admin/\n")[1]
