"""The first page: how things stand, what needs a look, and what to do next."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count
from django.http import HttpRequest

from cronjob.lib import clock
from runs.models import Process, TaskRun
from runs.states import FINAL, SUCCEEDED, TRANSITIONS, Status
from tasks.models import Task, TaskStatus

DAY = timedelta(days=1)
FAILED = (Status.FAILED, Status.TIMEOUT, Status.FAILED_TIMEOUT)


def context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Adds `console_*` to what the page knows; only what this person may see."""
    now = clock.now()
    if request.user.has_perm("tasks.view_task"):
        tasks = dict(Task.objects.live().values_list("status").annotate(Count("id")))
        context["console_tasks"] = {
            "total": sum(tasks.values()),
            "enabled": tasks.get(TaskStatus.ENABLED, 0),
            "disabled": tasks.get(TaskStatus.DISABLED, 0),
        }
        firing = Task.objects.live().filter(status=TaskStatus.ENABLED, next_run_at__isnull=False)
        context["console_coming"] = firing.order_by("next_run_at", "id")[:5]
    if request.user.has_perm("runs.view_taskrun"):
        context["console_runs"] = last_day(now)
        failing = TaskRun.objects.filter(status__in=FAILED, end_time__gte=now - DAY)
        shown = ("id", "status", "end_time", "task__name")
        newest = failing.select_related("task").order_by("-end_time").only(*shown)
        context["console_failing"] = newest[:5]
    context["console_schedulers"] = Process.objects.filter(lease_until__gt=now).count()
    return context


def last_day(now: datetime) -> dict[str, int]:
    ended = TaskRun.objects.filter(status__in=FINAL, end_time__gte=now - DAY).values_list("status")
    waiting = TaskRun.objects.filter(end_time=None).values_list("status")
    done, still = dict(ended.annotate(Count("id"))), dict(waiting.annotate(Count("id")))
    return {
        "total": total(done, FINAL),
        "good": total(done, SUCCEEDED),
        "bad": total(done, FAILED),
        "passed_over": total(done, (Status.SKIPPED, Status.MISSED, Status.CANCELED)),
        "open": total(still, TRANSITIONS),
    }


def total(counted: dict[str, int], statuses: Iterable[Status]) -> int:
    return sum(counted.get(status.value, 0) for status in statuses)
