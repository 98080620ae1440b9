"""What spoils one row spoils no other; a task whose schedule cannot be computed is set aside."""

import logging
from datetime import datetime

from django.db import DataError, IntegrityError, transaction

from tasks.changes import Verb, note
from tasks.models import Task, TaskStatus

logger = logging.getLogger(__name__)

# What comes of a row that cannot be: alone, it fails alone.
SPOILT = (
    DataError, IntegrityError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError,
)  # fmt: skip


@transaction.atomic
def give_up(task: Task, *, now: datetime) -> None:
    """Nothing that would compute its schedule again: it would fail again."""
    logger.exception("task %s cannot be scheduled", task.name, extra={"task_id": task.pk})
    reason = "its schedule could not be computed; the log says why"
    given_up = Task.objects.filter(pk=task.pk, version=task.version).update(
        status=TaskStatus.DISABLED,
        disabled_reason=reason,
        version=task.version + 1,
        next_moment=None,
        next_run_at=None,
        updated_at=now,
    )
    if given_up:
        note(Task.objects.get(pk=task.pk), Verb.DISABLE, by="scheduler", now=now, reason=reason)
