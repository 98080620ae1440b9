"""Runs whose time has come get an owner: as many as there is room for, and as tasks allow."""

import logging
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet, Value, Window
from django.db.models.functions import Coalesce, Greatest, Least, RowNumber
from django.utils.module_loading import import_string

from cronjob.lib import metrics, prepared, wakeup
from cronjob.lib.failpoints import failpoint
from cronjob.lib.instances import columns, instances
from cronjob.lib.rows import compare_and_set
from runs import calls, held
from runs.glance import NOT_AHEAD, LowWater
from runs.models import TaskRun
from runs.places import Places, needs_place
from runs.states import FINAL, UNPLANNED, Status, Trigger
from tasks.models import ConcurrencyPolicy

logger = logging.getLogger(__name__)

CALLBACKS = "callbacks.target.issue"  # an app above us
AGED = 5  # one slot in so many goes by age, whatever the priority, so that all move
FROM_THE_FIRST = LowWater().ready()
MILLISECOND = timedelta(milliseconds=1)
GRACE = timedelta(seconds=10)  # between the deadline of a call and its being given up for lost

# What an attempt needs of its run and task; never the bodies of the attempt before.
RUN_NEEDS = (
    "id", "uuid", "task", "trigger", "status", "reason", "attempt", "max_attempts", "lost", "fence",
    "priority", "moment", "scheduled_time", "due_at", "ready_at", "next_retry_time", "start_time",
    "lateness_ms", "end_time", "owner", "slot", "deadline_at", "override_body", "force_async",
    "template", "attempts", "progress", "progress_message", "trace_id", "updated_at",
)  # fmt: skip
CALL_NEEDS = (
    "uuid", "name", "tags", "timezone", "exec_type", "http_method", "target_url", "headers",
    "body_template", "connect_timeout_seconds", "timeout_seconds", "follow_redirects",
    "secret_headers", "secret_paths", "retry_policy", "max_concurrency", "concurrency_policy",
    "start_deadline_seconds", "on_lost", "callback_method", "callback_timeout_sec", "status",
    "deleted",
)  # fmt: skip
NEEDS = (*RUN_NEEDS, *(f"task__{name}" for name in CALL_NEEDS))

# Plain SQL where every claim and every settle passes: the ORM takes longer to say it than it takes.
# What is ready, as run_ready knows it; a process that others gave up finds nothing any more.
READY = """SELECT {columns}, (SELECT count(*) FROM pauses)
    FROM task_runs JOIN tasks ON tasks.id = task_runs.task_id
    WHERE EXISTS (SELECT 1 FROM processes WHERE name = %s) AND task_runs.ready_at IS NOT NULL
    AND task_runs.priority = %s AND task_runs.ready_at >= %s AND task_runs.ready_at <= %s
    AND task_runs.id {but}
    ORDER BY task_runs.priority, task_runs.ready_at, task_runs.id LIMIT %s {locks}"""
LOCKS = "FOR NO KEY UPDATE OF task_runs, tasks SKIP LOCKED"
# Of these tasks, those with runs that wait, as run_parked knows them.
PARKED = """SELECT DISTINCT task_id FROM task_runs WHERE task_id {among} AND end_time IS NULL
    AND ready_at IS NULL AND deadline_at IS NULL AND callback_deadline IS NULL"""
PLACE_NEEDS = (
    "id", "status", "slot", "trigger", "due_at", "task__tags", "task__max_concurrency",
    "task__concurrency_policy", "task__start_deadline_seconds",
)  # fmt: skip
SETS = (
    "status", "reason", "end_time", "attempt", "fence", "owner", "slot", "start_time",
    "deadline_at", "lateness_ms", "template", "trace_id", "ready_at", "next_retry_time",
    "progress", "progress_message", "updated_at",
)  # fmt: skip


what_is_set = attrgetter(*SETS)


class Claimed(NamedTuple):
    runs: list[TaskRun]  # to be called, the most urgent first
    moved: int  # these, and those that cannot start now


def claim(
    now: datetime, *, owner: str, room: int, priorities: list[int], reach: int = 0,
    ahead: timedelta = NOT_AHEAD, first: tuple[int, int] | None = None,
    since: Mapping[int, datetime] = FROM_THE_FIRST,
) -> Claimed:  # fmt: skip
    """Take up to `room` runs; no other process can take the same, nor go past a task's limit.

    Of these priorities, in their order; `first` is one of which some go before all others. With a
    `reach` beyond the room, more are looked at: some may have to wait for a slot of their task.
    What is ready a moment `ahead` is taken now, to start when it is due; unless there is no place
    for it, since by then there may be.
    """
    reach = max(reach, room)
    shares = [*([first] if first else []), *((priority, reach) for priority in priorities)]
    with transaction.atomic():
        runs, pauses = candidates(now + ahead, owner, reach, shares, since)
        if not runs:
            return Claimed([], 0)
        failpoint("claim.locked")
        paused = held.tags() if pauses else set()
        tasks = {run.task_id for run in runs if needs_place(run)}
        places = Places(tasks, behind=runs, paused=paused)
        seen = {run.id: (run.fence, run.status) for run in runs}
        decided = []
        for run in runs:
            before = (run.status, run.ready_at)
            decide_or_end(run, places, paused, now=now, ahead=ahead, owner=owner)
            if (run.status, run.ready_at) != before:
                decided.append(run)
            room -= run.status == Status.RUNNING
            if not room:
                break  # the others stay as they were
        moved = write(decided, seen, now=now)
    failpoint("claim.committed")
    measure(run for run in decided if run.id in moved)
    if others := {run.task_id for run in decided if run.status != Status.RUNNING}:
        unpark(others, now)  # a slot may have become free while we looked, or a pause have ended
    called = [run for run in decided if run.status == Status.RUNNING and run.id in moved]
    return Claimed(called, len(moved))


def measure(runs: Iterable[TaskRun]) -> None:
    for run in runs:
        if run.status in FINAL:
            metrics.count("cronjob_run_total", run.status)
        elif run.attempt == 1 and run.status == Status.RUNNING:
            late = (run.lateness_ms or 0) / 1000
            metrics.observe("cronjob_run_lateness_seconds", late)


def candidates(
    now: datetime, owner: str, room: int, shares: Iterable[tuple[int, int]],
    since: Mapping[int, datetime],
) -> tuple[list[TaskRun], int]:  # fmt: skip
    """Locked together with their tasks: who else claims runs of these tasks passes them by.

    And how many pauses there are.
    """
    found: dict[int, TaskRun] = {}
    pauses = 0
    locks = LOCKS if connection.vendor == "postgresql" else ""
    told = connection.ops.adapt_datetimefield_value
    for priority, most in shares:
        if most := min(most, room - len(found)):
            ready = prepared.said(READY, columns=columns(TaskRun, NEEDS), locks=locks)
            times = told(since[priority]), told(now)
            asked: list[Any] = [owner, priority, *times, prepared.ids(found), most]
            with prepared.cursor() as cursor:
                cursor.execute(ready, asked)
                oldest = cursor.fetchall()
            pauses = oldest[0][-1] if oldest else pauses
            found.update((run.id, run) for run in instances(TaskRun, NEEDS, oldest))
    runs = sorted(found.values(), key=lambda run: (run.priority, run.ready_at, run.id))
    return runs, pauses


def decide_or_end(
    run: TaskRun, places: Places, paused: set[str], *,
    now: datetime, ahead: timedelta, owner: str,
) -> None:  # fmt: skip
    """One bad row ends itself, loudly, and never the beat."""
    before = Status(run.status)
    try:
        decide(run, places, paused, now=now, ahead=ahead, owner=owner)
    except Exception:
        logger.exception("run %s cannot be started", run.id, extra={"run_id": run.id})
        status = Status.SKIPPED if before == Status.SCHEDULED else Status.CANCELED
        end(run, status, "it cannot be started; the log says why", now=now)
        run.deadline_at = run.next_retry_time = run.owner = run.template = None


def decide(
    run: TaskRun, places: Places, paused: set[str], *,
    now: datetime, ahead: timedelta, owner: str,
) -> None:  # fmt: skip
    """Start it, let it wait, or end it, by what its task says now."""
    task, at = run.task, starts_at(run, now, ahead)
    if paused and held.held_run(paused, run):
        run.ready_at = run.ready_at if at > now else None
        return
    asked_for = run.status == Status.SCHEDULED and run.trigger in UNPLANNED and not task.deleted
    if (given_up := task.given_up) and not asked_for:
        # It failed, or was put back, while its task was being disabled or deleted.
        run.next_retry_time = run.template = None
        return end(run, Status.CANCELED, given_up, now=now)
    if run.status == Status.SCHEDULED and too_late(run, now):
        return end(run, Status.MISSED, "not started in time", now=now)
    if needs_place(run):
        if not places.admits(run):
            if at > now:
                return  # and be looked at again then
            skips = task.concurrency_policy == ConcurrencyPolicy.SKIP
            if skips and run.trigger != Trigger.CATCH_UP:
                reason = f"limit of {task.max_concurrency} reached"
                return end(run, Status.SKIPPED, reason, now=now)
            run.ready_at = None  # until a slot is free
            return
        run.slot = places.free_slot(run)
    is_new = run.status == Status.SCHEDULED  # a retry has its place, and is counted
    start(run, now=at, owner=owner)
    if is_new:
        places.occupy(run)


def starts_at(run: TaskRun, now: datetime, ahead: timedelta) -> datetime:
    """Claimed early, it starts when it is due; however far away that is since a clock went back."""
    return max(now, min(max(run.due_at, run.ready_at or now), now + ahead))


def too_late(run: TaskRun, now: datetime) -> bool:
    patience = run.task.start_deadline_seconds
    return patience is not None and now - run.due_at > timedelta(seconds=patience)


def end(run: TaskRun, status: Status, reason: str, *, now: datetime) -> None:
    run.status, run.reason, run.end_time, run.ready_at, run.slot = status, reason, now, None, None


def start(run: TaskRun, *, now: datetime, owner: str) -> None:
    if run.template is None:  # from now on every attempt asks for the same
        run.template = calls.freeze(run.task)
        run.trace_id = run.uuid.hex  # as random as one of its own
    if run.lateness_ms is None:
        run.lateness_ms = max(0, (now - run.due_at) // MILLISECOND)
    run.deadline_at = now + timedelta(seconds=run.template["timeout_seconds"]) + GRACE
    run.status, run.owner, run.start_time = Status.RUNNING, owner, now
    run.attempt += 1
    run.fence += 1
    run.ready_at = run.next_retry_time = run.progress = None
    run.progress_message = ""


def write(runs: list[TaskRun], seen: dict[int, tuple[int, str]], *, now: datetime) -> set[int]:
    rows = []
    for run in runs:
        run.updated_at = now
        rows.append((run.id, *seen[run.id], *what_is_set(run)))
    return compare_and_set(TaskRun, rows, seen=("fence", "status"), sets=SETS)


def issue(runs: list[TaskRun]) -> dict[int, tuple[str, str]]:
    """Where and by which token each asynchronous call is to be answered."""
    found: dict[int, tuple[str, str]] = import_string(CALLBACKS)(runs) if runs else {}
    return found


def unpark(tasks: Collection[int], now: datetime) -> int:
    """Let as many parked runs of these tasks be claimed as have a place; the oldest first.

    Called after the commit of whatever freed or missed a slot: of a claim and a settle that pass
    each other, at least one then sees what the other did.
    """
    tasks = [task for (task,) in prepared.rows(PARKED, tasks)] if tasks else []
    if not tasks:  # nearly always
        return 0
    waiting = TaskRun.objects.parked().filter(task__in=tasks)
    oldest = heads(waiting).select_related("task").order_by("task", "due_at", "id")
    parked = list(oldest.only(*PLACE_NEEDS))
    paused = held.tags()
    places = Places({run.task_id for run in parked}, behind=parked, paused=paused)
    chosen = late(waiting, parked, paused, now)
    for run in parked:
        if run.id in chosen or held.held_run(paused, run):
            continue
        if run.status == Status.RETRYING:  # it has its place, and waited for a pause to end
            chosen.append(run.id)
        elif places.admits(run):
            chosen.append(run.id)
            run.slot, run.status = places.free_slot(run), Status.RUNNING
            places.occupy(run)
    # By its own time again: what came later and never had to wait must not overtake it.
    ready = Coalesce("next_retry_time", Least("due_at", Value(now)))
    freed = TaskRun.objects.parked().filter(pk__in=chosen).update(ready_at=ready)
    if freed:
        wakeup.schedulers()  # that time may lie below where they look
    return freed


def tasks_that_wait(*, after: int = 0) -> list[int]:
    """A batch of tasks beyond this one whose runs wait for a place, or for a pause to end.

    To `unpark` them is a safety net: whoever should have done it may have died in between.
    """
    parked = TaskRun.objects.parked().filter(task__gt=after)
    tasks = parked.order_by("task").values_list("task", flat=True).distinct()
    return list(tasks[: settings.CRONJOB_BATCH_MAX])


def heads(waiting: QuerySet[TaskRun]) -> QuerySet[TaskRun]:
    """Of each task no more than could start at best: thousands may wait behind them."""
    which = [F("task_id"), F("status"), F("trigger")]  # a pause holds some, and not others
    place = Window(RowNumber(), partition_by=which, order_by=("due_at", "id"))
    most = Greatest(F("task__max_concurrency"), 1)
    beyond = Q(place__lte=most) | Q(task__concurrency_policy=ConcurrencyPolicy.PARALLEL)
    return waiting.annotate(place=place).filter(beyond, place__lte=settings.CRONJOB_BATCH_MAX)


def late(
    waiting: QuerySet[TaskRun], heads: list[TaskRun], paused: set[str], now: datetime
) -> list[int]:
    """Those that have waited too long need no place: a claim ends them, unless a pause holds."""
    found: list[int] = []
    for task in {run.task_id: run.task for run in heads}.values():
        if (seconds := task.start_deadline_seconds) is not None:
            due = waiting.filter(
                task=task, status=Status.SCHEDULED, due_at__lt=now - timedelta(seconds=seconds)
            )
            if held.holds(paused, task):
                due = due.filter(trigger__in=UNPLANNED)
            oldest = due.order_by("due_at").values_list("pk", flat=True)
            found += oldest[: settings.CRONJOB_BATCH_MAX]
    return found
