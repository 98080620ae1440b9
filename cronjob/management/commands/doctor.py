"""Looks for what is wrong with this installation, and says what to do about it."""

import shutil
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.core.checks import WARNING, run_checks
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection

from cronjob import probes
from cronjob.lib import clock
from cronjob.lib.database import SNAPSHOT_MAX, oldest_snapshot, trouble
from cronjob.lib.environ import masked

SKEW_MAX = timedelta(seconds=2)
DISK_MIN = 512 * 2**20

# A finding is what was seen and, where something is wrong, the remedy.
Finding = tuple[str, str]


def database() -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    yield f"{connection.display_name} answers", ""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA quick_check")
            said = cursor.fetchone()[0]
        yield f"SQLite's integrity: {said}", "" if said == "ok" else "Restore the last backup."


def migrations() -> Iterator[Finding]:
    if probes.migrated():
        yield "all migrations are applied", ""
    else:
        yield "some migrations are not applied", "Run `manage.py migrate`."


def clocks() -> Iterator[Finding]:
    skew = abs(clock.now() - datetime.now(UTC))
    told = f"this machine's clock differs from the database's by {skew.total_seconds():.3f} s"
    yield told, "" if skew <= SKEW_MAX else "Let NTP set the clocks of both."


def scheduler() -> Iterator[Finding]:
    if probes.beating():
        yield "a scheduler is running", ""
    else:
        yield "no scheduler is running", "Start `manage.py runscheduler`, or `manage.py up`."


def snapshots() -> Iterator[Finding]:
    if connection.vendor == "postgresql":
        age = oldest_snapshot()
        remedy = "" if age < SNAPSHOT_MAX else "End the session: see pg_stat_activity, xact_start."
        yield f"the oldest transaction of the database is {age:.0f} s old", remedy


def disk() -> Iterator[Finding]:
    place = settings.CRONJOB_DATA_DIR if settings.CRONJOB_DATA_DIR.exists() else "."
    free = shutil.disk_usage(place).free
    remedy = "" if free >= DISK_MIN else "Make room, or shorten CRONJOB_KEEP_DAYS."
    yield f"{free // 2**20} MiB are free on the disk of {place}", remedy


def configuration() -> Iterator[Finding]:
    problems = [message for message in run_checks() if message.level >= WARNING]
    if not problems:
        yield "the settings are consistent", ""
    for problem in problems:
        yield problem.msg.rstrip("."), problem.hint or "See `manage.py check`."


def redis() -> Iterator[Finding]:
    urls = settings.CRONJOB_REDIS_URL or settings.CRONJOB_REDIS_CLUSTER_URLS
    if not urls:
        yield "no Redis is set, and none is needed without the gateway", ""
    for url in (part.strip() for part in urls.split(",") if part.strip()):
        said = ping(urlsplit(url))
        remedy = "Start it, or correct CRONJOB_REDIS_URL or CRONJOB_REDIS_CLUSTER_URLS."
        yield f"Redis at {masked(url)}: {said or 'answers'}", remedy if said else ""


def ping(url: SplitResult) -> str:
    """What is wrong with the Redis there; empty if it answers, even if it wants a password."""
    try:
        with socket.create_connection((url.hostname, url.port or 6379), timeout=3) as link:
            if url.scheme == "rediss":
                return ""  # whoever speaks TLS there is there
            link.sendall(b"PING\r\n")
            answer = link.recv(64)
    except OSError as error:
        return str(error)
    return "" if answer.startswith((b"+PONG", b"-NOAUTH", b"-DENIED")) else "is no Redis"


LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    configuration, database, migrations, clocks, scheduler, snapshots, disk, redis,
)  # fmt: skip


class Command(BaseCommand):
    help = "Look for what is wrong here; exits 1 with a remedy for each finding."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        bad = 0
        for look in LOOKS:
            for seen, remedy in self.findings(look):
                bad += bool(remedy)
                mark = self.style.ERROR("✘") if remedy else self.style.SUCCESS("✔")
                self.stdout.write(f"{mark} {seen}" + (f". {remedy}" if remedy else ""))
        if bad:
            raise SystemExit(1)

    def findings(self, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
        try:
            yield from look()
        except DatabaseError as error:
            yield look.__name__, trouble(error) or str(error)
