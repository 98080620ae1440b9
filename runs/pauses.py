"""Stopping everything, or what carries a tag, for a while: nothing fires, nothing is lost of it."""

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import transaction

from cronjob.lib import wakeup
from runs.entries import missed, record, recorded_until
from runs.models import Pause, TaskRun
from runs.states import UNPLANNED
from tasks import misfire
from tasks.models import Task

EVERYTHING = ""


def tags() -> set[str]:
    return set(Pause.objects.values_list("tag", flat=True))


def holds(paused: set[str], task: Task) -> bool:
    return EVERYTHING in paused or not paused.isdisjoint(task.tags)


def split(tasks: Iterable[Task]) -> tuple[list[Task], list[Task]]:
    """Those that a pause holds, and those that fire."""
    paused = tags()
    held = [task for task in tasks if holds(paused, task)] if paused else []
    return held, [task for task in tasks if task not in held]


def hold(tasks: Iterable[Task]) -> None:
    """Leave the moment where it is, but let it not be due: the poll costs what it did before."""
    for task in tasks:
        same = Task.objects.filter(pk=task.pk, next_run_at=task.next_run_at, version=task.version)
        same.update(next_run_at=None)


@transaction.atomic
def pause(*, tag: str, reason: str, until: datetime | None, now: datetime) -> Pause:
    values = {"reason": reason, "until": until}
    made, _ = Pause.objects.update_or_create(
        tag=tag, defaults=values, create_defaults=values | {"created_at": now}
    )
    return made


def resume(*, tag: str | None, now: datetime) -> bool:
    """Fire again from now on; without a tag every pause ends. What passed is recorded once."""
    ending = Pause.objects.all() if tag is None else Pause.objects.filter(tag=tag)
    ended, _ = ending.delete()
    release(now)
    return ended > 0


def end_due(now: datetime) -> None:
    """Pauses that were to last until now."""
    Pause.objects.filter(until__lte=now).delete()
    release(now)


def release(now: datetime) -> None:
    """Let go of what no pause holds any more, batch by batch: it may be much."""
    paused = tags()
    last = 0
    while tasks := list(
        Task.objects.filter(next_run_at=None, next_moment__isnull=False, pk__gt=last)
        .order_by("pk")[: settings.CRONJOB_BATCH_MAX]
    ):  # fmt: skip
        last = tasks[-1].pk
        with transaction.atomic():
            locked = Task.objects.select_for_update().filter(pk__in=[t.pk for t in tasks])
            for task in locked.filter(next_run_at=None, next_moment__isnull=False):
                if not holds(paused, task):
                    release_task(task, now)
    last = 0
    while runs := list(
        TaskRun.objects.parked().filter(pk__gt=last).order_by("pk")
        .select_related("task").only("id", "task__tags")[: settings.CRONJOB_BATCH_MAX]
    ):  # fmt: skip
        last = runs[-1].pk
        free = [run.pk for run in runs if not holds(paused, run.task)]
        TaskRun.objects.parked().filter(pk__in=free).update(ready_at=now)
    wakeup.schedulers()


def release_task(task: Task, now: datetime) -> None:
    assert task.next_moment is not None
    schedule = task.schedule()
    if span := misfire.backlog(schedule, task.next_moment, now):
        record([missed(task, span, schedule=schedule, reason="paused", now=now)])
    task.rearm(now=recorded_until(task, now))
    task.save(update_fields=("ended", "next_moment", "next_run_at"))


def held_run(paused: set[str], run: TaskRun) -> bool:
    """Whether a pause holds it; what somebody asked for still runs."""
    return run.trigger not in UNPLANNED and holds(paused, run.task)
