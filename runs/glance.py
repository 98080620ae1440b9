"""Everything a scheduler must know to decide whether there is anything to do, in one statement."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from cronjob.lib import clock, prepared
from cronjob.lib.instances import in_utc
from tasks.models import Priority

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
SLACK = timedelta(seconds=2)  # a transaction may commit what was ready a little before
FORGET_SECONDS = 5.0
NOT_AHEAD = timedelta(0)  # what is due is due

# Each part is one look at the beginning of a partial index; the conditions are those of the index.
PARTS = {
    "due": "SELECT min(next_run_at) FROM tasks"
    " WHERE status = 'ENABLED' AND NOT deleted AND next_run_at IS NOT NULL AND next_run_at >= %s",
    **{
        f"ready_{p.value}": "SELECT min(ready_at) FROM task_runs"
        f" WHERE ready_at IS NOT NULL AND priority = {p.value} AND ready_at >= %s"
        for p in Priority
    },
    "overdue": "SELECT min(deadline_at) FROM task_runs"
    " WHERE deadline_at IS NOT NULL AND deadline_at >= %s",
    "unanswered": "SELECT min(callback_deadline) FROM task_runs"
    " WHERE callback_deadline IS NOT NULL AND callback_deadline >= %s",
    "dead": "SELECT min(lease_until) FROM processes",
    "unpause": "SELECT min(until) FROM pauses",
    "paused": "SELECT min(created_at) FROM pauses",
}


@dataclass(frozen=True, slots=True)
class Glance:
    now: datetime
    due: datetime | None  # when the first task is due
    ready: dict[int, datetime]  # when the first run of each priority may be claimed
    overdue: datetime | None  # when the first call should have come back
    unanswered: datetime | None  # when the first callback should have come
    dead: datetime | None  # when the first lease runs out
    unpause: datetime | None  # when the first pause ends by itself
    paused: datetime | None = None  # since when anything is
    told_at: float = field(default_factory=time.monotonic)

    @property
    def age(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self.told_at)

    @property
    def present(self) -> datetime:
        """What time it is by the clock that `now` was read from."""
        return self.now + self.age

    def ready_by(self, now: datetime) -> list[int]:
        """The priorities in which something can be claimed, the most urgent first."""
        return sorted(p for p, at in self.ready.items() if at <= now)

    @property
    def longest(self) -> int | None:
        """The priority whose oldest run has waited longest."""
        return min(self.ready, key=self.ready.__getitem__, default=None)


class LowWater:
    """Where looking begins: below it nothing was found a moment ago.

    What left an index stays in it for as long as some old snapshot (a dump, a forgotten session)
    may want to see it, and whoever starts at the beginning steps over all of that each time.
    """

    def __init__(self) -> None:
        self.marks: dict[str, datetime] = {}
        self.forgotten_at = time.monotonic()
        self.doubted = False

    def doubt(self) -> None:
        """Something may have appeared anywhere; called by any thread."""
        self.doubted = True

    def refresh(self) -> None:
        """Whatever comes in below the marks is found a few seconds later."""
        now = time.monotonic()
        if self.doubted or now - self.forgotten_at >= FORGET_SECONDS:
            self.doubted, self.forgotten_at, self.marks = False, now, {}

    def of(self, part: str) -> datetime:
        return self.marks.get(part, BEGINNING)

    def learn(self, seen: Glance) -> None:
        ready = {f"ready_{p.value}": seen.ready.get(p.value) for p in Priority}
        first = {"due": seen.due, "overdue": seen.overdue, "unanswered": seen.unanswered, **ready}
        self.marks = {part: min(at or seen.now, seen.now) - SLACK for part, at in first.items()}

    def ready(self) -> dict[int, datetime]:
        return {p.value: self.of(f"ready_{p.value}") for p in Priority}

    def lower(self, at: datetime) -> None:
        """What was due at this time becomes runs that are ready since then."""
        for p in Priority:
            self.marks[f"ready_{p.value}"] = min(at, self.of(f"ready_{p.value}"))


def glance(low_water: LowWater | None = None) -> Glance:
    low_water = low_water or LowWater()
    low_water.refresh()
    parts = ", ".join(f"({part})" for part in PARTS.values())
    since = [low_water.of(name) for name, part in PARTS.items() if "%s" in part]
    with prepared.cursor() as cursor:
        given = [connection.ops.adapt_datetimefield_value(at) for at in since]
        cursor.execute(f"SELECT {clock.column()}, {parts}", given)
        told, *times = cursor.fetchone()
    found = dict(zip(PARTS, map(read, times), strict=True))
    ready = {p.value: at for p in Priority if (at := found.pop(f"ready_{p.value}"))}
    seen = Glance(now=clock.read(told), ready=ready, told_at=time.monotonic(), **found)
    low_water.learn(seen)
    return seen


def read(value: Any) -> datetime | None:
    return in_utc(value) if isinstance(value, str) else value
