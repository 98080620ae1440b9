"""How often something may happen in a minute, counted in the database: all processes share it."""

from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django.db import models
from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import Least

MINUTE = timedelta(minutes=1)
HITS_MAX = 2**31 - 2


class Counted(models.Model):
    """A row whose uses are counted, from the first of each minute on."""

    since = models.DateTimeField(null=True)
    hits = models.PositiveIntegerField(default=0)

    class Meta:
        abstract = True


def hit(one: QuerySet[Any], most: int, *, now: datetime) -> int:
    """Count one more use of this row; 0, or in how many seconds there may be another."""
    # Somebody who came a little later may have been counted already.
    recent = Q(since__gt=now - MINUTE, since__lt=now + MINUTE)
    hits = Case(When(recent, then=Least(F("hits") + 1, HITS_MAX)), default=1)
    one.update(hits=hits, since=Case(When(recent, then=F("since")), default=now))
    return wait(one, most + 1, now=now)


def wait(one: QuerySet[Any], most: int, *, now: datetime) -> int:
    """0, or in how many seconds it may happen again, if it did so often in the last minute."""
    found = one.filter(since__gt=now - MINUTE, since__lt=now + MINUTE, hits__gte=most)
    since = found.values_list("since", flat=True).first()
    return max(1, ceil((since + MINUTE - now).total_seconds())) if since else 0
