"""New rows of the ledger: a moment that will run, and moments that will not."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from cronjob.lib import uuids
from cronjob.lib.rows import insert_new
from runs.models import TaskRun
from runs.states import Status, Trigger
from tasks.misfire import Span
from tasks.models import Task
from tasks.schedule import Schedule

NAMES = (
    "uuid", "task", "moment", "scheduled_time", "due_at", "ready_at", "trigger", "status", "reason",
    "priority", "max_attempts", "end_time", "missed_from", "missed_to", "missed_count",
    "created_at", "updated_at",
)  # fmt: skip

Entry = tuple[Any, ...]  # the values of NAMES


def record(entries: Sequence[Entry]) -> None:
    """A moment that is recorded already is not recorded again."""
    insert_new(TaskRun, entries, NAMES)


def planned(
    task: Task, moment: datetime, *, schedule: Schedule, trigger: Trigger, now: datetime
) -> Entry:
    """A moment that becomes a run."""
    due_at = schedule.fires_at(moment)
    return (
        uuids.fresh(), task.id, moment, moment, due_at, due_at, trigger, Status.SCHEDULED, "",
        task.priority, task.retry_policy["max_retries"] + 1, None, None, None, None, now, now,
    )  # fmt: skip


def missed(
    task: Task, span: Span, *, schedule: Schedule, reason: str, now: datetime,
    status: Status = Status.MISSED,
) -> Entry:  # fmt: skip
    """One entry for all of them, at the last."""
    return (
        uuids.fresh(), task.id, span.last, span.last, schedule.fires_at(span.last), None,
        Trigger.SCHEDULE, status, reason, task.priority, task.retry_policy["max_retries"] + 1,
        now, span.first, span.last, span.count, now, now,
    )  # fmt: skip


def recorded_until(task: Task, now: datetime) -> datetime:
    """Now, or later if the clock went back since a moment was recorded: it is over for good."""
    moments = TaskRun.objects.filter(task=task, moment__isnull=False).order_by("-moment")
    newest = moments.values_list("moment", flat=True).first()
    return max(now, newest) if newest else now
