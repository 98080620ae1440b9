"""New rows of the ledger: a moment that will run, and moments that will not."""

from datetime import datetime

from runs.models import TaskRun
from runs.states import Status
from tasks.misfire import Span
from tasks.models import Task


def run_of(
    task: Task, moment: datetime, *, due_at: datetime, now: datetime, **fields: object
) -> TaskRun:
    values = {
        "moment": moment,
        "scheduled_time": moment,
        "max_attempts": task.retry_policy["max_retries"] + 1,
        "priority": task.priority,
        "created_at": now,
        "updated_at": now,
    }
    return TaskRun(task=task, due_at=due_at, **(values | fields))


def missed(task: Task, span: Span, *, status: Status, reason: str, now: datetime) -> TaskRun:
    """One entry for all of them, at the last."""
    return run_of(
        task, span.last, due_at=task.schedule().fires_at(span.last), now=now,
        status=status, reason=reason, end_time=now,
        missed_from=span.first, missed_to=span.last, missed_count=span.count,
    )  # fmt: skip
