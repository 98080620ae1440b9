"""What need not wait begins as it is made: the statement that records a run claims it, too."""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter

from cronjob.lib.instances import new
from cronjob.lib.rows import fields_of, insert_if
from runs.claim import RUN_NEEDS, start, starts_at, too_late
from runs.entries import NAMES, Entry
from runs.models import TaskRun
from runs.places import parallel
from runs.states import Status, Trigger
from tasks.models import Task

logger = logging.getLogger(__name__)

# What a claim would look at, in the transaction that moved these tasks on: so they are locked, and
# still what they were. The first status of the open runs of a task is one look at run_open_of_task;
# asked whether there is any, PostgreSQL would rather read those of all tasks.
NOTHING_AGAINST_IT = """EXISTS (SELECT 1 FROM processes WHERE name = {owner})
    AND NOT EXISTS (SELECT 1 FROM pauses)
    AND ({slot} IS NULL OR (SELECT min(other.status) FROM task_runs other
        WHERE other.task_id = {task_id} AND other.end_time IS NULL) IS NULL)"""
MADE = tuple(field.attname for field in fields_of(TaskRun, NAMES))
SETS = (
    *MADE, "attempt", "fence", "owner", "slot", "start_time", "deadline_at", "lateness_ms",
    "template", "trace_id",
)  # fmt: skip
OTHERS = tuple(name for name in RUN_NEEDS if name not in (*NAMES, "id"))
UNTOUCHED = {field.attname: field.get_default() for field in fields_of(TaskRun, OTHERS)}

what_is_set = attrgetter(*SETS)

Planned = tuple[Task, Sequence[Entry]]  # what is to be recorded of a task


def begin(
    planned: Iterable[Planned], *, now: datetime, ahead: timedelta, owner: str
) -> dict[int, TaskRun]:
    """Runs of these tasks that are to be called, by task, in this order; no others are made."""
    runs = {}
    for task, entries in planned:
        if run := started_or_none(task, entries, now=now, ahead=ahead, owner=owner):
            runs[task.id] = run
    if not runs:
        return {}
    rows = [what_is_set(run) for run in runs.values()]
    made = insert_if(TaskRun, rows, SETS, condition=NOTHING_AGAINST_IT, key="task_id")
    for task_id, pk in made.items():
        runs[task_id].id = pk
    return {task_id: run for task_id, run in runs.items() if task_id in made}


def started_or_none(
    task: Task, entries: Sequence[Entry], *, now: datetime, ahead: timedelta, owner: str
) -> TaskRun | None:
    """Its one run, if that needs no choice; a row that spoils it is left to its claim."""
    if len(entries) != 1:
        return None
    values = UNTOUCHED | dict(zip(MADE, entries[0], strict=True), attempts=[])
    run = new(TaskRun, values, task._state.db)
    if (run.status, run.trigger) != (Status.SCHEDULED, Trigger.SCHEDULE):
        return None
    run._state.fields_cache["task"] = task
    if too_late(run, now):
        return None
    if not parallel(run):
        if not task.max_concurrency:
            return None
        run.slot = 1
    try:
        start(run, now=starts_at(run, now, ahead), owner=owner)
    except Exception:
        logger.debug("a run of task %s cannot be started", task.id, exc_info=True)
        return None
    return run
