"""What changes a task and its waiting runs together: one transaction, one function a verb."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from datetime import datetime

from django.db import IntegrityError, transaction

from cronjob.lib import masking, wakeup
from runs import pauses
from runs.claim import unpark
from runs.entries import missed, record, recorded_until
from runs.models import TaskRun
from tasks import misfire
from tasks.changes import Verb, note
from tasks.models import SCHEDULE_FIELDS, Task, TaskStatus

logger = logging.getLogger(__name__)

# Enabling and disabling are verbs of their own.
EDITABLE = [f.name for f in Task._meta.fields if f.editable and f.name not in ("id", "status")]


STANDING = ("status", "ended", "next_moment", "next_run_at")


class NameTaken(Exception):
    """Another live task has this name, or another one this id."""


def create(task: Task, *, now: datetime, by: str = "") -> None:
    """Save a new task."""
    task.created_at = task.updated_at = now
    task.set_anchor(now=now)
    task.rearm(now=now)
    usual = Task()
    given = [name for name in EDITABLE if getattr(task, name) != getattr(usual, name)]
    with saving(task):
        note(task, Verb.CREATE, by=by, now=now, changed=given)
        wakeup.schedulers()
    log("create", task)


@transaction.atomic
def edit(task: Task, *, now: datetime, by: str = "", reason: str = "") -> list[str]:
    """Save what was changed as the next version, which takes effect at once; the changed fields."""
    before = Task.objects.get(pk=task.pk)
    if masking.origin(task.target_url) != masking.origin(before.target_url):
        forget_secrets(task, before)
    changed = [name for name in EDITABLE if getattr(task, name) != getattr(before, name)]
    if not changed:
        return []
    task.version += 1
    task.updated_at = now
    if set(changed) & set(SCHEDULE_FIELDS):
        overdue = record_overdue(before, reason="edited", now=now)
        task.set_anchor(now=now)
        pending = None if overdue else before.next_moment
        task.rearm(now=recorded_until(task, now), pending=pending)
    with saving(task):
        note(task, Verb.EDIT, by=by, now=now, reason=reason, before=before, changed=changed)
    if {"max_concurrency", "concurrency_policy", "tags"} & set(changed):
        unpark([task.pk], now)
    if "tags" in changed:
        pauses.let_go([task], now)  # of a pause it may have left behind
    wakeup.schedulers()
    log("edit", task)
    return changed


def forget_secrets(task: Task, before: Task) -> None:
    """Secrets meant for one host do not go to another because somebody changed the URL."""
    shown = before.masked()["headers"]
    secret = {n.lower(): v for n, v in before.headers.items() if v != shown[n]}
    task.headers = {
        name: value for name, value in task.headers.items() if secret.get(name.lower()) != value
    }
    if paths := {*before.secret_paths, *task.secret_paths}:
        task.body_template = masking.forgotten(
            task.body_template, before.body_template, paths=sorted(paths)
        )


@contextmanager
def saving(task: Task) -> Iterator[None]:
    """Save it together with what is done within, or say that its name is taken."""
    try:
        with transaction.atomic():
            task.save()
            yield
    except IntegrityError as error:
        others = Task.objects.exclude(pk=task.pk)
        if not task.deleted and others.filter(live_name=task.name).exists():
            raise NameTaken(f"Another task is called “{task.name}”.") from error
        if others.filter(uuid=task.uuid).exists():
            raise NameTaken(f"The id {task.uuid} is taken.") from error
        raise


@transaction.atomic
def enable(task: Task, *, now: datetime, reason: str = "", by: str = "") -> None:
    """Let it fire again, from now on; what passed meanwhile is not made up for."""
    if held(task).deleted:
        return
    before = copy(task)
    if changed := stand(task, TaskStatus.ENABLED, reason="", now=now):
        how = {"by": by, "reason": reason}
        note(task, Verb.ENABLE, now=now, before=before, changed=changed, **how)
    wakeup.schedulers()
    log("enable", task)


@transaction.atomic
def disable(task: Task, *, reason: str, now: datetime, by: str = "") -> None:
    """Stop it from firing; what waits is canceled, what is under way ends by itself."""
    if held(task).deleted:
        return
    record_overdue(task, reason="disabled", now=now)
    before = copy(task)
    if changed := stand(task, TaskStatus.DISABLED, reason=reason, now=now):
        how = {"by": by, "reason": reason}
        note(task, Verb.DISABLE, now=now, before=before, changed=changed, **how)
    TaskRun.objects.filter(task=task).cancel_waiting(reason="disabled", now=now)
    log("disable", task)


@transaction.atomic
def delete(task: Task, *, now: datetime, by: str = "") -> None:
    """It never runs again; its runs stay to be read, and its name is free."""
    if held(task).deleted:
        return
    record_overdue(task, reason="deleted", now=now)
    task.deleted = True
    task.next_run_at = task.next_moment = None
    task.updated_at = now
    task.save(update_fields=("deleted", "next_run_at", "next_moment", "updated_at"))
    TaskRun.objects.filter(task=task).cancel_waiting(reason="deleted", now=now)
    note(task, Verb.DELETE, by=by, now=now)
    log("delete", task)


def miss(task: Task, moment: datetime, *, now: datetime) -> None:
    """A moment that had passed before anybody could know of it."""
    span = misfire.Span(moment, moment, 1)
    record([missed(task, span, schedule=task.schedule(), reason="misfire", now=now)])


def held(task: Task) -> Task:
    """The task as it stands by now, kept as it is until the transaction ends."""
    now = Task.objects.select_for_update().get(pk=task.pk)
    for field in Task._meta.concrete_fields:
        setattr(task, field.attname, getattr(now, field.attname))
    return task


def record_overdue(task: Task, *, reason: str, now: datetime) -> bool:
    """Moments that nobody turned into runs until now are told of in one entry, and are over."""
    if task.status != TaskStatus.ENABLED or task.next_moment is None:
        return False
    schedule = task.schedule()
    span = misfire.backlog(schedule, task.next_moment, now)
    if span is not None:
        record([missed(task, span, schedule=schedule, reason=reason, now=now)])
    return span is not None


def stand(task: Task, status: TaskStatus, *, reason: str, now: datetime) -> list[str]:
    """What of it that changed."""
    to = {"status": status, "disabled_reason": reason}
    changed = [name for name, value in to.items() if getattr(task, name) != value]
    if not changed:
        return changed
    if task.status != status:
        task.status = status
        task.rearm(now=recorded_until(task, now))
    task.disabled_reason = reason
    task.version += 1
    task.updated_at = now
    task.save(update_fields=(*STANDING, "disabled_reason", "version", "updated_at"))
    return changed


def log(action: str, task: Task) -> None:
    logger.info("%s task %s", action, task.name, extra={"action": action, "task_id": task.pk})
