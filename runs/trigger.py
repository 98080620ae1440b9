"""What a person or a client asks of runs: one now, one again, this one not."""

import hashlib
import json
import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from cronjob.lib import wakeup
from cronjob.lib.rows import insert_one
from runs.claim import unpark
from runs.models import TaskRun
from runs.places import Places, needs_place
from runs.states import FINAL, Status, Trigger
from tasks.models import ConcurrencyPolicy, ExecType, Task

logger = logging.getLogger(__name__)

KEY_KEPT = timedelta(hours=24)
NO_WAY_BACK = "CRONJOB_BASE_URL is not set, so no callback would find its way."
NEEDED = (
    "id", "name", "deleted", "exec_type", "priority", "retry_policy", "max_concurrency",
    "concurrency_policy",
)  # fmt: skip
ASKED = (
    "uuid", "task_id", "trigger", "scheduled_time", "due_at", "ready_at", "priority",
    "max_attempts", "slot", "override_body", "force_async", "request_key", "request_hash",
    "created_at", "updated_at",
)  # fmt: skip


class LimitReached(Exception):
    """The task already has as many runs under way as it may."""


class NotPossible(Exception):
    """The run is in a state that does not allow it."""


class Gone(NotPossible):
    """The task was deleted, or never made."""


class KeyReused(Exception):
    """The key of a request came back with another request."""


@transaction.atomic
def trigger(
    task_id: int, *, now: datetime, override_body: str | None = None, force_async: bool = False,
    key: str = "",
) -> TaskRun:  # fmt: skip
    """One run now, also of a disabled task; with a key, the same one for the next 24 hours."""
    task = locked(task_id)
    if force_async and task.exec_type in (ExecType.JOB, ExecType.NODE):
        raise ValueError(f"{task.exec_type} tasks cannot be called asynchronously.")
    if force_async and not settings.CRONJOB_BASE_URL:
        raise ValueError(NO_WAY_BACK)
    run = TaskRun(
        trigger=Trigger.MANUAL, scheduled_time=now,
        override_body=override_body, force_async=force_async,
    )  # fmt: skip
    asked = ["trigger", override_body, force_async]
    return ask_for(run, task, now=now, key=key, asked=asked)


@transaction.atomic
def replay(
    old: TaskRun, *, now: datetime, override_body: str | None = None, key: str = ""
) -> TaskRun:
    """The task as it is now, for the time that the old run was for."""
    if old.status not in FINAL:
        raise NotPossible(f"The run is {old.status}; only a run that is over can be replayed.")
    if old.force_async and not settings.CRONJOB_BASE_URL:
        raise NotPossible(NO_WAY_BACK)
    run = TaskRun(
        trigger=Trigger.REPLAY, scheduled_time=old.scheduled_time, force_async=old.force_async,
        override_body=old.override_body if override_body is None else override_body,
    )  # fmt: skip
    asked = ["replay", old.pk, override_body]
    return ask_for(run, locked(old.task_id), now=now, key=key, asked=asked)


def locked(pk: int) -> Task:
    """As it is now, until the transaction ends."""
    found = Task.objects.some_of(pk, *NEEDED, lock=True)
    if found is None or found.deleted:
        raise Gone("The task was deleted.")
    return found


def ask_for(run: TaskRun, task: Task, *, now: datetime, key: str, asked: list[Any]) -> TaskRun:
    """Under SKIP it takes its place at once, or there is none and nothing is made."""
    run.task = task
    if key:
        run.request_key = key
        run.request_hash = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        if earlier := asked_before(run, now=now):
            return earlier
    run.due_at = run.ready_at = run.created_at = run.updated_at = now
    run.priority, run.max_attempts = task.priority, task.retry_policy["max_retries"] + 1
    run.slot = slot_for(run)
    run.id = insert_one(TaskRun, **{name: getattr(run, name) for name in ASKED})
    run._state.adding = False
    wakeup.schedulers()
    extra = {"action": run.trigger.lower(), "task_id": task.pk, "run_id": run.pk}
    logger.info("%s run of %s", run.trigger.lower(), task.name, extra=extra)
    return run


def slot_for(run: TaskRun) -> int | None:
    """The place it takes under SKIP; under other policies its claim gives it one."""
    task = run.task
    if task.concurrency_policy != ConcurrencyPolicy.SKIP or not needs_place(run):
        return None
    places = Places([task.pk])
    if not places.admits(run):
        raise LimitReached(f"All {task.max_concurrency} slots of the task are taken.")
    return places.free_slot(run)


def try_out(task: Task, kind: Trigger, *, force_async: bool = False) -> None:
    """Refuse what asking for a run would be refused; nothing is made."""
    if task.deleted:
        raise NotPossible("The task was deleted.")
    if force_async and not settings.CRONJOB_BASE_URL:
        raise NotPossible(NO_WAY_BACK)
    slot_for(TaskRun(task=task, trigger=kind))


def asked_before(run: TaskRun, *, now: datetime) -> TaskRun | None:
    """The run that the same request made; its task is locked, so that it is found or not made."""
    same = TaskRun.objects.filter(task_id=run.task_id, request_key=run.request_key)
    earlier = same.only("id", "uuid", "request_hash", "created_at").first()
    if earlier is None:
        return None
    if now - earlier.created_at > KEY_KEPT:
        same.update(request_key=None)
        return None
    if earlier.request_hash != run.request_hash:
        raise KeyReused(f"This Idempotency-Key made run {earlier.pk} by another request.")
    return earlier


def cancel(run: TaskRun, *, reason: str, now: datetime) -> None:
    """From any state that is not final; a call in flight is cut off by whoever makes it."""
    with transaction.atomic():
        mine = TaskRun.objects.select_for_update().only(
            "id", "task_id", "status", "fence", "trigger"
        )
        now_is = mine.get(pk=run.pk)
        if now_is.status in FINAL:
            raise NotPossible(f"The run is {now_is.status} already.")
        now_is.transition(Status.CANCELED, now=now, reason=reason)
        run.status, run.reason, run.end_time = now_is.status, reason, now
    unpark([run.task_id], now)
    wakeup.schedulers()
    extra = {"action": "cancel", "task_id": run.task_id, "run_id": run.pk}
    logger.info("cancel run %s", run.pk, extra=extra)
