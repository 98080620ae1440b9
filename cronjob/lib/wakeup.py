"""How a change in one process wakes the schedulers in others: a hint, never what must be right."""

import logging
import sqlite3
import threading
from collections.abc import Callable

import psycopg
from django.conf import settings
from django.db import DatabaseError, connection, transaction

logger = logging.getLogger(__name__)

CHANNEL = "cronjob_wake"
LOOK_SECONDS = 0.05  # how often SQLite is asked whether its file has changed
AGAIN_SECONDS = 5.0


def schedulers() -> None:
    """Once this transaction is done, whoever sleeps will look again; SQLite is watched anyway."""
    if connection.vendor == "postgresql" and settings.CRONJOB_LISTEN_URL:
        transaction.on_commit(notify, robust=True)


def notify() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])
    except DatabaseError:  # the change is safe; it is found at the next poll
        logger.warning("could not wake the schedulers", exc_info=True)


class Listener(threading.Thread):
    """Calls `wake` when another process may have changed something."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__(name="listener", daemon=True)
        self.wake = wake
        self.stopping = threading.Event()
        self.vendor, self.file = connection.vendor, str(connection.settings_dict["NAME"])

    def run(self) -> None:
        listen = self.watch_file if self.vendor == "sqlite" else self.listen
        if self.vendor == "postgresql" and not settings.CRONJOB_LISTEN_URL:
            return
        while not self.stopping.is_set():
            try:
                listen()
            except (psycopg.Error, sqlite3.Error) as error:
                logger.warning("no wake-ups for now, polling: %s", error)
                self.stopping.wait(AGAIN_SECONDS)

    def listen(self) -> None:
        url = settings.CRONJOB_LISTEN_URL
        with psycopg.connect(url, autocommit=True, connect_timeout=3) as listening:
            listening.execute(f"LISTEN {CHANNEL}")
            self.wake()  # for what came while nobody listened
            while not self.stopping.is_set():
                for _ in listening.notifies(timeout=1, stop_after=1):
                    self.wake()

    def watch_file(self) -> None:
        looking = sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)
        try:
            before = None
            while not self.stopping.wait(LOOK_SECONDS):
                (version,) = looking.execute("PRAGMA data_version").fetchone()
                if version != before:
                    before = version
                    self.wake()
        finally:
            looking.close()
