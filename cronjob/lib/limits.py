"""How often something may happen in a minute, counted in the database: all processes share it."""

from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django.db import connection, models

from cronjob.lib.instances import values

MINUTE = timedelta(minutes=1)
HITS_MAX = 2**31 - 2
# One statement, in which nobody comes between.
HIT = f"""UPDATE "{{}}" SET
    hits = CASE WHEN since > %s AND since < %s
        THEN CASE WHEN hits < {HITS_MAX} THEN hits + 1 ELSE hits END ELSE 1 END,
    since = CASE WHEN since > %s AND since < %s THEN since ELSE %s END
    WHERE "{{}}" = %s"""
FULL = 'SELECT since FROM "{}" WHERE "{}" = %s AND since > %s AND since < %s AND hits >= %s'


class Counted(models.Model):
    """A row whose uses are counted, from the first of each minute on."""

    since = models.DateTimeField(null=True)
    hits = models.PositiveIntegerField(default=0)

    class Meta:
        abstract = True


def hit(of: type[Counted], pk: str, most: int, *, now: datetime) -> int:
    """Count one more use of this row; 0, or in how many seconds there may be another."""
    recent = span(now)
    told = connection.ops.adapt_datetimefield_value(now)
    asked, given = HIT.format(*named(of)), [*recent, *recent, told, pk]
    if not connection.features.can_return_columns_from_insert:  # an old SQLite
        with connection.cursor() as cursor:
            cursor.execute(asked, given)
        return wait(of, pk, most + 1, now=now)
    with connection.cursor() as cursor:
        cursor.execute(f"{asked} RETURNING since, hits", given)
        found = values(of, ("since", "hits"), cursor.fetchall())
    return until(found[0][0], now) if found and found[0][1] > most else 0


def wait(of: type[Counted], pk: str, most: int, *, now: datetime) -> int:
    """0, or in how many seconds it may happen again, if it did so often in the last minute."""
    with connection.cursor() as cursor:
        cursor.execute(FULL.format(*named(of)), [pk, *span(now), most])
        found = values(of, ("since",), cursor.fetchall())
    return until(found[0][0], now) if found else 0


def until(since: datetime, now: datetime) -> int:
    return max(1, ceil((since + MINUTE - now).total_seconds()))


def span(now: datetime) -> list[Any]:
    # Somebody who came a little later may have been counted already.
    return [connection.ops.adapt_datetimefield_value(at) for at in (now - MINUTE, now + MINUTE)]


def named(of: type[Counted]) -> tuple[str, str]:
    return of._meta.db_table, of._meta.pk.attname
