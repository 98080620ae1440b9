"""How a change in one process wakes the schedulers in others: a hint, never what must be right."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from cronjob.lib.database import POSTGRESQL

logger = logging.getLogger(__name__)

CHANNEL = "cronjob_wake"
LOOK_SECONDS = 0.05  # how often SQLite is asked whether its file has changed
AGAIN_SECONDS = 5.0
BETWEEN_SECONDS = 0.1  # two hints of a process: an import of a thousand tasks is not a thousand
# A link that is dead on one side only must not be waited at for hours.
ALIVE = {name: value for name, value in POSTGRESQL.items() if name != "options"}

_here: list[Callable[[], None]] = []  # who sleeps in this process


def schedulers() -> None:
    """Once this transaction is done, whoever sleeps will look again; SQLite is watched anyway."""
    if not any(hint is notify for _, hint, *_ in connection.run_on_commit):
        transaction.on_commit(notify, robust=True)


def notify() -> None:
    for wake in _here:
        wake()
    if connection.vendor == "postgresql" and settings.CRONJOB_LISTEN_URL and limit.admits():
        tell_others(connection)


def tell_others(by: BaseDatabaseWrapper) -> None:
    try:
        with by.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])
    except DatabaseError:  # the change is safe; it is found at the next poll
        logger.warning("could not wake the schedulers", exc_info=True)


class Limit:
    """The first hint goes out at once; those that follow too soon are one, a little later."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.told_at = -BETWEEN_SECONDS
        self.later: threading.Timer | None = None

    def admits(self) -> bool:
        with self.lock:
            wait = self.told_at + BETWEEN_SECONDS - time.monotonic()
            if wait <= 0:
                self.told_at = time.monotonic()
                return True
            if self.later is None:
                own = connection.copy()  # for a thread of its own
                own.inc_thread_sharing()
                self.later = threading.Timer(wait, self.tell, [own])
                self.later.daemon = True
                self.later.start()
            return False

    def tell(self, by: BaseDatabaseWrapper) -> None:
        with self.lock:
            self.later, self.told_at = None, time.monotonic()
        tell_others(by)
        by.close()


limit = Limit()


class Listener(threading.Thread):
    """Calls `wake` when another process may have changed something."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__(name="listener", daemon=True)
        self.wake = wake
        self.stopping = threading.Event()
        self.vendor, self.file = connection.vendor, Path(str(connection.settings_dict["NAME"]))

    def run(self) -> None:
        _here.append(self.wake)
        try:
            self.listen_on()
        finally:
            _here.remove(self.wake)

    def listen_on(self) -> None:
        listen = self.watch_file if self.vendor == "sqlite" else self.listen
        if self.vendor == "postgresql" and not settings.CRONJOB_LISTEN_URL:
            self.stopping.wait()
        while not self.stopping.is_set():
            try:
                listen()
            except (psycopg.Error, sqlite3.Error) as error:
                logger.warning("no wake-ups for now, polling: %s", error)
                self.stopping.wait(AGAIN_SECONDS)

    def listen(self) -> None:
        with psycopg.connect(settings.CRONJOB_LISTEN_URL, autocommit=True, **ALIVE) as listening:
            listening.execute(f"LISTEN {CHANNEL}")
            self.wake()  # for what came while nobody listened
            while not self.stopping.is_set():
                for _ in listening.notifies(timeout=1, stop_after=1):
                    self.wake()

    def watch_file(self) -> None:
        looking = sqlite3.connect(f"{self.file.absolute().as_uri()}?mode=ro", uri=True)
        try:
            before = None
            while not self.stopping.wait(LOOK_SECONDS):
                (version,) = looking.execute("PRAGMA data_version").fetchone()
                if version != before:
                    before = version
                    self.wake()
        finally:
            looking.close()
