"""What a comparison stands on: servers of its own, the peers' virtualenv, the clock of the CPU."""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from typing import TypeVar
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "var" / "bench"
PEERS = ROOT / "bench" / "peers"
NODE = PLACE / "node"
NODE_LEAST = 20
USUAL = 0.0487  # seconds in which such a core adds a million numbers in CPython 3.11
Variables = dict[str, str]
T = TypeVar("T")


def pause(seconds: float) -> None:
    threading.Event().wait(max(0.0, seconds))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def machine() -> str:
    names = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((n.split(":")[1].strip() for n in names if n.startswith("model name")), "?")
    return (
        f"{os.cpu_count()} cores ({model}), {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, Node.js {node()}"
    )


def node() -> str:
    """Which version; 0 if there is none."""
    program = shutil.which("node")
    told = program and subprocess.run([program, "--version"], capture_output=True, text=True)
    return told.stdout.strip()[1:] if told else "0"


def pace(numbers: int = 1_000_000) -> float:
    """How many times longer this core takes right now than one of 2.5 GHz that is all ours.

    Virtual machines differ by that from minute to minute.
    """
    begun, total = time.perf_counter(), 0
    for number in range(numbers):
        total += number
    return (time.perf_counter() - begun) / (USUAL * numbers / 1_000_000)


def python() -> Path:
    """Of the peers; ourselves and the limit run without their virtualenv, too."""
    own = PLACE / "venv" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)


def virtualenv() -> None:
    """Of the peers, made once and again whenever what they need has changed."""
    wanted = (ROOT / "bench/requirements.txt").read_text()
    made = PLACE / "venv" / "requirements.txt"
    if made.exists() and made.read_text() == wanted:
        return
    say(f"installing the peers into {PLACE / 'venv'} …")
    subprocess.run([sys.executable, "-m", "venv", PLACE / "venv"], check=True)
    quiet = ["-q", "--disable-pip-version-check", "-r", ROOT / "bench/requirements.txt"]
    subprocess.run([python(), "-m", "pip", "install", *quiet], check=True)
    made.write_text(wanted)


def node_modules() -> Path:
    """Of the peers on Node.js, as `virtualenv` for the others."""
    wanted = (PEERS / "package.json").read_text()
    place, made = NODE / "node_modules", NODE / "installed.json"
    if made.exists() and made.read_text() == wanted:
        return place
    npm, told = shutil.which("npm"), node()
    if not npm or int(told.partition(".")[0]) < NODE_LEAST:
        raise SystemExit(
            f"graphile-worker, pg-boss and BullMQ need npm and Node.js {NODE_LEAST}, "
            f"not {told}; others do without: --only WORD"
        )
    say(f"installing the peers on Node.js into {NODE} …")
    NODE.mkdir(parents=True, exist_ok=True)
    shutil.copy(PEERS / "package.json", NODE)
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    subprocess.run([npm, "install", *quiet], cwd=NODE, check=True)
    made.write_text(wanted)
    return place


class Group:
    """Processes that were started together, each in a session: what they use, and their end."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        PLACE.mkdir(parents=True, exist_ok=True)
        self.log = open(PLACE / "log", "wb")  # noqa: SIM115  closed at the end

    def start(self, *command: object, variables: Variables, directory: Path = ROOT) -> None:
        self.started.append(
            subprocess.Popen(
                [*map(str, command)], cwd=directory, env=surroundings(variables),
                start_new_session=True, stdout=subprocess.DEVNULL, stderr=self.log,
            )
        )  # fmt: skip

    def seconds(self) -> float:
        """Of CPU, with those that they started and that have ended since."""
        return sum(used for _, used in self.family())

    def memory(self) -> float:
        """MiB that belong to these processes, what they share counted in shares."""
        return sum(proportional(pid) for pid, _ in self.family())

    def family(self) -> Iterator[tuple[int, float]]:
        found = {process.pid for process in self.started}
        for parent, pid, used in sorted(processes(), key=lambda one: one[1]):
            if pid in found or parent in found:
                found.add(pid)
                yield pid, used

    def end(self) -> None:
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
        self.log.close()


def surroundings(variables: Variables) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"PYTHONWARNINGS": "ignore"} | variables


def processes() -> Iterator[tuple[int, int, float]]:
    """Parent, pid and seconds of CPU of everything that runs, with those of its dead children."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            used = sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
            yield int(fields[1]), int(entry.name), used


def proportional(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def named(name: str) -> float:
    """Seconds of CPU of all processes of this name."""
    total = 0.0
    for _, pid, used in processes():
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                total += used
    return total


class Sink:
    def __init__(self, slow: float = 0.0) -> None:
        self.process = subprocess.Popen(
            [python(), ROOT / "bench/sink.py", str(slow)], stdout=subprocess.PIPE
        )
        assert self.process.stdout
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/"

    def count(self) -> int:
        return int(self.ask("count"))

    def report(self) -> list[tuple[str, float, str]]:
        return [(due, at, job) for due, at, job in self.ask("report")]

    def ask(self, what: str) -> "list | int":  # type: ignore[type-arg]
        with urlopen(self.url + what, timeout=30) as answer:
            return json.load(answer)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


@contextmanager
def sink(slow: float = 0.0) -> Iterator[Sink]:
    made = Sink(slow)
    try:
        yield made
    finally:
        made.end()


@contextmanager
def postgres() -> Iterator[str]:
    """A new server with default durability."""
    from tests.servers import Postgres

    server = Postgres()
    try:
        with server.connect() as connection:
            connection.execute("ALTER SYSTEM RESET fsync")
            connection.execute("SELECT pg_reload_conf()")
        yield server.url
    finally:
        server.stop()


@contextmanager
def redis(place: Path) -> Iterator[str]:
    command = shutil.which("redis-server")
    if not command:
        raise SystemExit("Celery, huey and BullMQ need a Redis: apt-get install redis-server")
    socket = place / "redis.sock"
    server = subprocess.Popen(
        [command, "--port", "0", "--unixsocket", socket, "--dir", place], stdout=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 10
        while not socket.exists() and time.monotonic() < until:
            pause(0.05)
        yield f"unix://{socket}"
    finally:
        server.terminate()
        server.wait(10)


@contextmanager
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cronjob-bench-", dir="/tmp") as place:
        yield Path(place)


def middle(numbers: Iterable[float]) -> float:
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]


def share(ordered: Sequence[float], part: float) -> float:
    """The least that so large a part is no more than."""
    return ordered[max(0, ceil(len(ordered) * part) - 1)]


def by_turns(rounds: int, each: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """All of them, and all again: whatever the machine does meanwhile, it does to each alike."""
    found: dict[str, list[T]] = {name: [] for name in each}
    for number in range(rounds):
        for name, measure in each.items():
            found[name].append(measure())
            say(f"  round {number + 1}: {name}: {found[name][-1]}")
    return found
