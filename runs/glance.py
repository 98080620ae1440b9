"""Everything a scheduler must know to decide whether there is anything to do, in one statement."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from cronjob.lib import clock
from tasks.models import Priority

# Each part is one look at the beginning of a partial index; the conditions are those of the index.
PARTS = {
    "due": "SELECT min(next_run_at) FROM tasks"
    " WHERE status = 'ENABLED' AND NOT deleted AND next_run_at IS NOT NULL",
    **{
        f"ready_{p.value}": "SELECT min(ready_at) FROM task_runs"
        f" WHERE ready_at IS NOT NULL AND priority = {p.value}"
        for p in Priority
    },
    "overdue": "SELECT min(deadline_at) FROM task_runs WHERE deadline_at IS NOT NULL",
    "unanswered": "SELECT min(callback_deadline) FROM task_runs"
    " WHERE callback_deadline IS NOT NULL",
    "dead": "SELECT min(lease_until) FROM processes",
    "unpause": "SELECT min(until) FROM pauses",
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

    def ready_by(self, now: datetime) -> list[int]:
        """The priorities in which something can be claimed, the most urgent first."""
        return sorted(p for p, at in self.ready.items() if at <= now)


def glance() -> Glance:
    parts = ", ".join(f"({part})" for part in PARTS.values())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {clock.column()}, {parts}")
        told, *times = cursor.fetchone()
    found = dict(zip(PARTS, map(read, times), strict=True))
    ready = {p.value: at for p in Priority if (at := found.pop(f"ready_{p.value}"))}
    return Glance(now=clock.read(told), ready=ready, **found)


def read(value: Any) -> datetime | None:
    """SQLite keeps times as text in UTC."""
    return datetime.fromisoformat(value).replace(tzinfo=UTC) if isinstance(value, str) else value
