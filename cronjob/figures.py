"""Where the figures of /metrics come from: one cheap query each."""

from collections.abc import Iterable

from django.db.models import Count

from cronjob.lib import clock
from cronjob.lib.database import oldest_snapshot
from cronjob.lib.metrics import Sample, source
from runs.models import Process, TaskRun
from runs.states import TRANSITIONS, Status
from tasks.models import Task, TaskStatus


@source("cronjob_task_total")
def tasks_by_status() -> Iterable[Sample]:
    counted = dict(Task.objects.live().values_list("status").annotate(Count("id")))
    return [((status,), counted.get(status, 0)) for status in TaskStatus.values]


@source("cronjob_run_open")
def runs_by_status() -> Iterable[Sample]:
    running = TaskRun.objects.filter(end_time=None)
    counted = dict(running.values_list("status").annotate(Count("id")))
    return [((status.value,), counted.get(status.value, 0)) for status in TRANSITIONS]


@source("cronjob_callback_pending")
def callbacks_pending() -> Iterable[Sample]:
    return [((), TaskRun.objects.filter(status=Status.CALLBACK_PENDING).count())]


@source("cronjob_scheduler_processes")
def schedulers() -> Iterable[Sample]:
    return [((), Process.objects.filter(lease_until__gt=clock.now()).count())]


@source("cronjob_oldest_snapshot_seconds")
def snapshot_age() -> Iterable[Sample]:
    return [((), oldest_snapshot())]
