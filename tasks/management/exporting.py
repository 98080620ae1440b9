"""All tasks as text."""

import json
from collections.abc import Sequence
from typing import Any

from cronjob.lib import clock
from runs.models import TaskRun
from tasks import crontab, exchange
from tasks.changes import told
from tasks.ksana import told as job_told
from tasks.models import ExecType, ScheduleKind, Task

NAME = "cronjob"  # of a bundle that holds everything


def text(form: str, *, secrets: bool, bundle: str) -> tuple[str, list[str]]:
    """The text, and what could not be said in it."""
    found = Task.objects.live().order_by("name")
    tasks = list(found.filter(bundle=bundle) if bundle else found)
    match form:
        case "ksana":
            return as_ksana(tasks, secrets=secrets)
        case "crontab":
            said = [told(task, secrets=secrets) | {"status": task.status} for task in tasks]
            return crontab.write(said), []
    name = bundle or NAME
    entries = [exchange.in_bundle(task, bundle=name, secrets=secrets) for task in tasks]
    return exchange.written(name, entries, form=form), []


def as_ksana(tasks: Sequence[Task], *, secrets: bool) -> tuple[str, list[str]]:
    ended = TaskRun.objects.ended_of(tasks)
    begun = TaskRun.objects.begun_of(tasks)
    jobs: list[Any] = []
    left_out = []
    for task in tasks:
        if task.exec_type != ExecType.SYNC or task.schedule_kind == ScheduleKind.MANUAL:
            what = f"{task.exec_type}, {task.schedule_kind}"
            left_out.append(f"left out: {task.name}: the dialect has no words for it ({what})")
            continue
        jobs.append(job_told(task, ended.get(task.pk), begun.get(task.pk), whole=secrets))
    file = {"version": 1, "updated_at": clock.text(clock.now()), "jobs": jobs}
    return json.dumps(file, ensure_ascii=False, indent=2) + "\n", left_out
