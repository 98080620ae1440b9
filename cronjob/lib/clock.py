"""The only clock. Replicas agree on the time because they ask the same database."""

from datetime import UTC, datetime
from functools import lru_cache

from django.db import connection

from cronjob.lib import prepared


def now() -> datetime:
    """The database's time where it has a clock of its own, else this machine's."""
    if connection.vendor == "sqlite":
        return read(None)
    with prepared.cursor() as cursor:
        cursor.execute(f"SELECT {column()}")
        return read(cursor.fetchone()[0])


def column() -> str:
    """For a statement that brings along what time it is; `read` says it."""
    return "NULL" if connection.vendor == "sqlite" else "clock_timestamp()"


def read(told: datetime | None) -> datetime:
    return datetime.now(UTC) if told is None else told.astimezone(UTC)


def text(at: datetime | None) -> str | None:
    """RFC 3339 in UTC, as the API tells times."""
    return None if at is None else told(at.astimezone(UTC))


@lru_cache(maxsize=256)  # many things happen at the same moment
def told(at: datetime) -> str:
    return at.isoformat().removesuffix("+00:00") + "Z"
