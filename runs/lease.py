"""A process's claim to be alive: renewed by a thread of its own, so that no work holds it up."""

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.db import Error as DBError
from django.db import connection, transaction

from cronjob.lib import clock
from runs.models import Process

logger = logging.getLogger(__name__)


class Lease(threading.Thread):
    """Without one nobody may own a run; who lost it must stop, since others take its runs."""

    def __init__(self, *, slots: int, wake: Callable[[], None]) -> None:
        super().__init__(name="lease", daemon=True)
        self.host, self.slots, self.wake = socket.gethostname()[:64], slots, wake
        self.length = timedelta(seconds=settings.CRONJOB_LEASE_SECONDS)
        self.stopping = threading.Event()
        self.lost = False
        self.register()

    def register(self) -> None:
        """Under a new name each time: nobody takes the runs of the one before for ours."""
        begun = time.monotonic()
        now = clock.now()
        boot = secrets.token_hex(4)
        self.process = Process.objects.create(
            name=f"{self.host}:{os.getpid()}:{boot}", host=self.host, pid=os.getpid(),
            slots=self.slots, started_at=now, last_seen=now, lease_until=now + self.length,
        )  # fmt: skip
        self.lost = False
        self.held_since = self.renewed_at = begun

    @property
    def age(self) -> float:
        """Seconds since it was renewed."""
        return time.monotonic() - self.renewed_at

    def share(self) -> tuple[int, int]:
        """Which of the schedulers at work it is, and of how many."""
        at_work = Process.objects.filter(draining=False).order_by("name")
        names = list(at_work.values_list("name", flat=True))
        if self.process.name not in names:
            return 0, 1
        return names.index(self.process.name), len(names)

    def holds(self) -> bool:
        """Whether others must still believe us alive; by our own clock, and a beat early."""
        spare = min(settings.CRONJOB_BEAT_SECONDS, settings.CRONJOB_LEASE_SECONDS / 4)
        return not self.lost and self.age < settings.CRONJOB_LEASE_SECONDS - spare

    def settled_in(self) -> bool:
        """Whether we saw the database for a whole lease: only then may we judge silence."""
        now, length = time.monotonic(), settings.CRONJOB_LEASE_SECONDS
        return now - self.renewed_at < length / 2 and now - self.held_since >= length

    def run(self) -> None:
        while not self.stopping.wait(settings.CRONJOB_BEAT_SECONDS):
            try:
                self.renew()
            except DBError as error:
                logger.warning("the lease could not be renewed: %s", error)
                connection.close()
        connection.close()

    def renew(self) -> None:
        begun = time.monotonic()
        now = clock.now()
        mine = Process.objects.filter(name=self.process.name)
        if not mine.update(last_seen=now, lease_until=now + self.length):
            self.lost = True
            self.wake()
            return
        if begun - self.renewed_at > settings.CRONJOB_LEASE_SECONDS / 2:
            self.held_since = begun  # we were away, and so may all others have been
        self.renewed_at = begun

    def drain(self) -> None:
        Process.objects.filter(name=self.process.name).update(draining=True)

    def end(self) -> None:
        """The very last: until then everybody waits for what we still write."""
        self.stopping.set()
        if self.is_alive():
            self.join(timeout=settings.CRONJOB_BEAT_SECONDS + 5)
        with transaction.atomic():
            Process.objects.filter(name=self.process.name).delete()
