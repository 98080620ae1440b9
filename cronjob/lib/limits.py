"""How often something may happen in a minute, counted in the database: all processes share it."""

from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Case, F, QuerySet, When
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
    recent = When(since__gt=now - MINUTE, since__lte=now, then=Least(F("hits") + 1, HITS_MAX))
    began = When(since__gt=now - MINUTE, since__lte=now, then=F("since"))
    one.update(hits=Case(recent, default=1), since=Case(began, default=now))
    since, hits = one.values_list("since", "hits").get()
    return 0 if hits <= most else max(1, round((since + MINUTE - now).total_seconds()))
