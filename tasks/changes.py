"""The change log: who changed what of a task, and when; secrets masked."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Index

from cronjob.lib import clock, duration
from cronjob.lib.fields import one_of
from cronjob.lib.rows import insert_one
from tasks.rules import PUBLIC, RETRY_DEFAULTS

if TYPE_CHECKING:
    from tasks.models import Task

SYSTEM = "system"
WHO_MAX = 160


class Verb(models.TextChoices):
    CREATE = "CREATE", "Created"
    EDIT = "EDIT", "Edited"
    ENABLE = "ENABLE", "Enabled"
    DISABLE = "DISABLE", "Disabled"
    DELETE = "DELETE", "Deleted"


class Change(models.Model):
    """One step from a version of a task to the next."""

    task = models.ForeignKey("tasks.Task", models.PROTECT, related_name="changes", db_index=False)
    at = models.DateTimeField()
    who = models.CharField(max_length=WHO_MAX)  # such as "key ci" or "user anna"
    verb = models.CharField(max_length=8, choices=Verb)
    reason = models.CharField(max_length=256, blank=True)
    version = models.PositiveIntegerField()  # that it led to
    old = models.JSONField(default=dict)  # what was changed, under the names of the API
    new = models.JSONField(default=dict)
    values = models.JSONField(default=dict)  # the whole task as of this version

    class Meta:
        db_table = "task_changes"
        default_permissions = ()  # who may see a task may see what was changed of it
        constraints = (one_of("verb", Verb.values, name="change_verb"),)
        indexes = (Index(fields=("task", "-id"), name="change_of_task"),)  # the log of a task

    def __str__(self) -> str:
        return f"version {self.version}"


def note(
    task: Task, verb: Verb, *, by: str, now: datetime, reason: str = "",
    before: Task | None = None, changed: Iterable[str] = (),
) -> None:  # fmt: skip
    """Write down what was just done to a task; who may read it does not see its secrets."""
    values = told_or_nothing(task, before) if before else told_or_nothing(task)
    names = [PUBLIC.get(name, name) for name in changed]
    # What is secret now was it before, too.
    old = standing(before) | told_or_nothing(before, task) if before else {}
    new = standing(task) | values
    insert_one(
        Change, task=task.pk, at=now, who=(by or SYSTEM)[:WHO_MAX], verb=verb, version=task.version,
        reason=reason[:256], old={name: old.get(name) for name in names},
        new={name: new.get(name) for name in names},
        values=values and values | {"anchor": clock.text(task.anchor)},
    )  # fmt: skip


def standing(task: Task) -> dict[str, str]:
    """What only enabling and disabling change; it is no part of a version to go back to."""
    return {"status": str(task.status), "disabled_reason": task.disabled_reason}


def told_or_nothing(task: Task, *also: Task) -> dict[str, Any]:
    """A row that somebody spoilt can be disabled, and that is written down all the same."""
    try:
        return told(task, *also)
    except (TypeError, ValueError, AttributeError, LookupError):
        return {}


def as_of(task: Task, values: dict[str, Any]) -> Task:
    """The task with the schedule that it had when these were its values."""
    then = copy(task)
    for name in ("run_at", "start_at", "end_at", "anchor"):
        at = values[name]
        setattr(then, name, datetime.fromisoformat(at) if at else None)
    for name in ("every_seconds", "jitter_seconds"):
        span = values[PUBLIC[name]]
        setattr(then, name, duration.parse(span, zero=True) if span else None)
    for name in ("schedule_kind", "cron_expr", "timezone"):
        setattr(then, name, values[name])
    return then


def told(task: Task, *also: Task, secrets: bool = False) -> dict[str, Any]:
    """What people say of a task, in the words of the API; without its secrets unless asked."""
    masked = {} if secrets else task.masked(*also)
    return {
        PUBLIC.get(field.name, field.name): in_words(
            field.name, masked.get(field.name, getattr(task, field.name)), task
        )
        for field in task._meta.concrete_fields
        if field.editable and field.name not in ("id", "status")
    }


def in_words(name: str, value: Any, task: Task) -> Any:
    if isinstance(value, datetime):
        return clock.text(value)
    if name == "retry_policy":
        return RETRY_DEFAULTS | value
    if name == "priority":
        return task.priority_name
    if name in PUBLIC and value is not None:
        return duration.format(value)
    return value
