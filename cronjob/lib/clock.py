"""The only clock. Replicas agree on the time because they ask the same database."""

from datetime import UTC, datetime

from django.db import connection


def now() -> datetime:
    """The database's time where it has a clock of its own, else this machine's."""
    if connection.vendor == "sqlite":
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        told: datetime = cursor.fetchone()[0]
    return told.astimezone(UTC)
