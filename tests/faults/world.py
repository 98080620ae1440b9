"""A world for faults: a database, a target, tasks, and schedulers that come and go by force."""

import itertools
import os
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.utils import load_backend
from psycopg.rows import dict_row

from cronjob.lib import clock, wakeup
from cronjob.lib import database as databases
from runs import pauses, standing
from tasks.models import Task
from tests.faults import audit
from tests.faults.hurried import ONCE, STEP
from tests.processes import Running, run
from tests.target import Target

SEEDS = int(os.environ.get("FAULT_SEEDS", "1"))
LONG = SEEDS > 1  # the long form: also bigger, where that matters
LEASE = 2.0
SETTINGS = {
    "CRONJOB_SECRET_KEY": "k" * 50,
    "CRONJOB_BEAT_SECONDS": "0.5",
    "CRONJOB_LEASE_SECONDS": str(LEASE),
    "CRONJOB_POLL_SECONDS": "0.5",
    "CRONJOB_LOG_FORMAT": "text",
}
MODULE = "tests.faults.hurried"
NEVER = threading.Event()
NUMBERS = itertools.count(1)
TIMES = {"start_at", "end_at", "run_at"}
Unblock = Callable[[], AbstractContextManager[None]]
A_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")
OPEN = "SELECT count(*) AS n FROM task_runs WHERE end_time IS NULL"
AHEAD = (
    "SELECT count(*) AS n FROM tasks"
    " WHERE status = 'ENABLED' AND NOT deleted AND next_moment IS NOT NULL"
)


def until(true: Callable[[], Any], *, seconds: float = 60, what: Any = "") -> Any:
    """Look again and again; what was found once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        told = what() if callable(what) else what
        assert time.monotonic() < deadline, f"not within {seconds} s: {told}"
        NEVER.wait(0.05)
    return found


def migrate(url: str, data_dir: Path) -> None:
    """An empty database gets our tables, and triggers that watch them."""
    settings = SETTINGS | ({"DATABASE_URL": url} if url else {})
    done = run("manage.py", "migrate", data_dir=data_dir, **settings)
    assert done.returncode == 0, done.stderr
    if url:
        audit.on_postgresql(url)
    else:
        audit.on_sqlite(str(data_dir / "cronjob.sqlite3"))


class World:
    """Its database is at `url`, or, without one, the SQLite file in its directory."""

    def __init__(self, directory: Path, url: str = "", *, unblock: Unblock) -> None:
        self.directory, self.url, self.unblock = directory, url, unblock
        self.target = Target()
        self.schedulers: list[Running] = []
        self.others: list[Running] = []
        self.asleep: list[Running] = []
        self.clock = directory / "clock"
        self.step(0)
        self.asking: psycopg.Connection[dict[str, Any]] | None = None

    def __enter__(self) -> "World":
        self.target.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        everybody = self.schedulers + self.others
        for one in everybody:
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGKILL)
        for one in everybody:
            one.close()
        self.target.stop()
        if self.asking:
            self.asking.close()

    def step(self, seconds: float) -> None:
        """By so much the clock is wrong from now on."""
        # In one: who reads while it is written anew takes the first byte of what was and the
        # others of what comes, and his clock is wrong by an hour that is neither.
        new = self.clock.with_name("clock.new")
        new.write_text(str(seconds))
        new.replace(self.clock)

    # --- schedulers ---------------------------------------------------------------------------

    def start(
        self, failpoints: str = "", *, once: bool = False, url: str = "", **variables: str
    ) -> Running:
        """One more scheduler; with `once` each of its failpoints works a single time."""
        own = SETTINGS | {STEP: str(self.clock), "FAILPOINTS": failpoints, ONCE: "1" * once}
        if url or self.url:
            own["DATABASE_URL"] = url or self.url
        one = Running("-m", MODULE, data_dir=self.directory, **(own | variables))
        self.schedulers.append(one)
        return one

    def process(self, module: str, *arguments: str, **variables: str) -> Running:
        """Another process of the product; it ends with the world."""
        own = SETTINGS | ({"DATABASE_URL": self.url} if self.url else {}) | variables
        one = Running("-m", module, *arguments, data_dir=self.directory, **own)
        self.others.append(one)
        return one

    def started(self, count: int, **variables: str) -> list[Running]:
        """So many schedulers, all of them alive for the others."""
        new = [self.start(**variables) for _ in range(count)]
        until(lambda: {one.process.pid for one in new} <= self.registered(), what=self.said)
        return new

    def alive(self) -> list[Running]:
        """Those that do something."""
        there = [one for one in self.schedulers if one not in self.asleep]
        return [one for one in there if one.process.poll() is None]

    def stop(self, one: Running) -> None:
        """It does not notice, and nothing of it goes on."""
        one.process.send_signal(signal.SIGSTOP)
        self.stopped(one)

    def stopped(self, one: Running) -> None:
        """Wait until it has stopped."""
        until(lambda: state(one.process.pid) == "T", what=self.said)
        self.asleep.append(one)

    def wake(self, one: Running) -> None:
        self.asleep.remove(one)
        one.process.send_signal(signal.SIGCONT)

    def registered(self) -> set[int]:
        return {row["pid"] for row in self.rows("SELECT pid FROM processes")}

    def said(self) -> str:
        return "\n".join(one.output[-3000:] for one in self.schedulers)

    # --- the database -------------------------------------------------------------------------

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        if self.url:
            return self.asked(sql.replace("?", "%s"), values)
        asked = sqlite3.connect(self.directory / "cronjob.sqlite3", timeout=60)
        try:
            asked.row_factory = sqlite3.Row
            rows = asked.execute(sql, values).fetchall()
            return [{name: read(row[name]) for name in row.keys()} for row in rows]  # noqa: SIM118
        finally:
            asked.close()

    def asked(self, sql: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
        """On one connection as long as it lives: who waits asks often."""
        with suppress(psycopg.OperationalError):
            if self.asking:
                return self.asking.execute(sql, values or None).fetchall()
        self.asking = psycopg.connect(
            self.url, autocommit=True, row_factory=dict_row, prepare_threshold=None
        )
        return self.asking.execute(sql, values or None).fetchall()

    def alter(self, sql: str) -> None:
        """Something else than asking."""
        if self.url:
            with psycopg.connect(self.url, autocommit=True) as done:
                done.execute(sql)
            return
        done = sqlite3.connect(self.directory / "cronjob.sqlite3", timeout=60)
        done.execute(sql)
        done.close()

    def number(self, sql: str, *values: Any) -> int:
        return int(next(iter(self.rows(sql, *values)[0].values())))

    def runs(self, where: str = "1 = 1") -> list[dict[str, Any]]:
        return self.rows(f"SELECT * FROM task_runs WHERE {where} ORDER BY id")

    def run(self) -> dict[str, Any]:
        """The only one."""
        (only,) = self.runs()
        return only

    # --- tasks --------------------------------------------------------------------------------

    @contextmanager
    def inside(self) -> Iterator[None]:
        """As if this were a process of that world."""
        config = databases.configured(
            self.url or f"sqlite:///{self.directory}/cronjob.sqlite3", data_dir=self.directory
        )
        config = connections.configure_settings({DEFAULT_DB_ALIAS: config})[DEFAULT_DB_ALIAS]
        outside = connections[DEFAULT_DB_ALIAS]
        inner = load_backend(config["ENGINE"]).DatabaseWrapper(config, DEFAULT_DB_ALIAS)
        connections[DEFAULT_DB_ALIAS] = inner
        try:
            with self.unblock():
                yield
                for thread in threading.enumerate():  # a hint that is still to be given
                    if getattr(thread, "function", None) == wakeup.limit.tell:
                        thread.join()
        finally:
            inner.close()
            connections[DEFAULT_DB_ALIAS] = outside

    def plant(
        self, count: int = 1, *, path: str = "/status/200", apart: float = 0, **fields: Any
    ) -> list[Task]:
        """So many tasks; times are in seconds from now, a `run_at` makes them fire once.

        `apart`: how many seconds after the one before.
        """
        kind = fields.pop("schedule_kind", "ONCE" if "run_at" in fields else "EVERY")
        every = {"every_seconds": 1} if kind == "EVERY" else {}
        made = []
        with self.inside(), transaction.atomic():
            now = clock.now()
            for name in TIMES & fields.keys():
                fields[name] = now + timedelta(seconds=fields[name])
            for number in range(count):
                own = {"name": f"task {next(NUMBERS)}", "target_url": self.target.url(path)}
                later = number * timedelta(seconds=apart)
                at = {"run_at": fields["run_at"] + later} if apart else {}
                task = Task(**({"schedule_kind": kind} | every | own | fields | at))
                standing.create(task, now=now)
                made.append(task)
        return made

    def claim_apart(self) -> None:
        """By a pause of something else: no run begins as it is made from here on."""
        with self.inside():
            pauses.pause(tag="something else", reason="", until=None, now=clock.now())

    def quiet(self, *, seconds: float = 120) -> None:
        """Until nothing will happen any more: no moment ahead, no run open, no dead process."""
        until(self.is_quiet, seconds=seconds, what=self.unrest)

    def is_quiet(self) -> bool:
        living = {one.process.pid for one in self.alive()}
        return not (self.number(AHEAD) or self.number(OPEN) or self.registered() - living)

    def unrest(self) -> str:
        shown = "id, status, attempt, fence, owner, ready_at, deadline_at"
        runs = self.rows(f"SELECT {shown} FROM task_runs WHERE end_time IS NULL LIMIT 5")
        who = self.rows("SELECT * FROM processes")
        return f"{self.number(AHEAD)} ahead, {runs}, {who}\n{self.said()}"


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def read(value: Any) -> Any:
    """SQLite keeps times as text in UTC."""
    if isinstance(value, str) and A_TIME.fullmatch(value):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value
