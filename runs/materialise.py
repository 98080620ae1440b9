"""Due tasks become runs: each moment once, whoever else is looking at the same tasks."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from django.conf import settings
from django.db import connection, transaction

from cronjob.lib import metrics, prepared
from cronjob.lib.failpoints import failpoint
from cronjob.lib.instances import columns, instances
from cronjob.lib.rows import compare_and_set
from runs import held, pauses
from runs.begin import Planned, begin
from runs.claim import CALL_NEEDS
from runs.claim import measure as measure_claimed
from runs.entries import NAMES, Entry, missed, planned, record
from runs.glance import BEGINNING, NOT_AHEAD
from runs.models import TaskRun
from runs.spoilt import SPOILT, give_up
from runs.states import Status, Trigger
from tasks import misfire
from tasks.misfire import Plan
from tasks.models import SCHEDULE_FIELDS, Task
from tasks.schedule import Schedule

logger = logging.getLogger(__name__)

# What planning needs of a task; its bodies only if its run begins at once.
NEEDED = (
    "id", *SCHEDULE_FIELDS, "uuid", "name", "tags", "anchor", "version", "next_moment",
    "next_run_at", "misfire_policy", "misfire_grace_seconds", "catchup_limit", "priority",
    "retry_policy",
)  # fmt: skip
DUE_AT = NAMES.index("due_at")
TO_BEGIN = tuple(dict.fromkeys((*NEEDED, *CALL_NEEDS)))
# As task_due and run_open_of_task know them; in plain SQL, since every round passes here. With them
# how many runs of each wait, and how many pauses there are.
DUE = """SELECT {}, (SELECT count(*) FROM task_runs WHERE task_id = tasks.id AND end_time IS NULL
        AND task_runs.status IN ('SCHEDULED', 'RETRYING')), (SELECT count(*) FROM pauses)
    FROM tasks WHERE status = 'ENABLED' AND NOT deleted AND next_run_at IS NOT NULL
    AND next_run_at >= %s AND next_run_at <= %s AND id %% %s = %s
    ORDER BY next_run_at, id LIMIT %s"""
Share = tuple[int, int]  # the tasks whose id leaves this rest, divided by the number of schedulers
ALONE: Share = (0, 1)
LEFT_TO_LIE = timedelta(milliseconds=200)
Names = tuple[str, ...]
Due = tuple[Task, Schedule, Plan, list[Entry]]


class Made(NamedTuple):
    due: Counter[int]  # how many tasks were, by their priority
    begun: list[TaskRun]  # those of their runs that are to be called

    @property
    def waiting(self) -> Counter[int]:
        return self.due - Counter(run.priority for run in self.begun)


class Found(NamedTuple):
    task: Task
    waiting: int  # runs of it
    pauses: int  # in all


def materialise(
    now: datetime, *, ahead: timedelta = NOT_AHEAD,
    since: datetime = BEGINNING, share: Share = ALONE, owner: str = "", room: int = 0,
) -> Made:  # fmt: skip
    """Turn a batch of due tasks into runs.

    What is due a moment `ahead` comes along, so that its run is there in time. A task that a pause
    holds is left alone until it is due: by then the pause may have ended.

    With `room` for the calls of all of them, and nothing that waits for a slot, they begin, for
    this `owner`. Else a claim chooses.
    """
    found, may_begin = look(partial(batch, now, ahead=ahead, since=since, share=share), room)
    if not found:
        return Made(Counter(), [])
    failpoint("materialise.read")
    paused = held.tags() if found[0].pauses else set()
    stopped = {one.task.id for one in found if held.holds(paused, one.task)} if paused else set()
    firing = [one for one in found if one.task.id not in stopped]
    resting = [one.task for one in found if one.task.id in stopped and is_due(one.task, now)]
    most = settings.CRONJOB_BACKLOG_MAX
    judged = (planned_or_none(one, now=now, ahead=ahead, most=most) for one in firing)
    plans = [plan for plan in judged if plan]
    try:
        with transaction.atomic():
            won = advance(plans)
            failpoint("materialise.advanced")
            entries = [(task, made) for task, *_, made in plans if task.id in won]
            by_urgency = sorted(entries, key=urgency) if may_begin else []
            begun = begin(by_urgency, now=now, ahead=ahead, owner=owner)
            # The second guard: a moment that was recorded before is not recorded again.
            record([entry for task, made in entries if task.id not in begun for entry in made])
            held.hold(resting)
    except SPOILT:  # all of them for one, which its claim will find
        if not may_begin:
            raise
        logger.exception("runs of %d tasks could not begin as they are made", len(plans))
        return materialise(now, ahead=ahead, since=since, share=share)
    failpoint("materialise.committed")
    if begun:
        failpoint("claim.committed")
    if resting:
        pauses.let_go(resting, now)  # a pause may have ended while we looked
    measure(due for due in plans if due[0].id in won)
    measure_claimed(begun.values())
    tasks = (*(one.task for one in firing), *resting)
    return Made(Counter(task.priority for task in tasks), [*begun.values()])


def look(ask: Callable[..., list[Found]], room: int) -> tuple[list[Found], bool]:
    """What is due, and whether it may begin: all of it, with what its calls need, or nothing."""
    if room:
        found = ask(min(room + 1, settings.CRONJOB_BATCH_MAX), needs=TO_BEGIN)
        if len(found) <= room and not (found and found[0].pauses):
            return found, True
    return ask(settings.CRONJOB_BATCH_MAX, needs=NEEDED), False


def urgency(planned: Planned) -> tuple[int, list[datetime], int]:
    """In which order they are called, as a claim would have it."""
    task, entries = planned
    return task.priority, [entry[DUE_AT] for entry in entries[:1]], task.id


def batch(
    now: datetime, most: int, *, ahead: timedelta, since: datetime, share: Share, needs: Names
) -> list[Found]:
    """Several schedulers begin each with a share of its own, so that they do not plan the same
    tasks and wait for each other; whatever is left to lie for a moment is anybody's.
    """
    found = due(now + ahead, since=since, most=most, share=share, needs=needs)
    room = most - len(found)
    if share != ALONE and room and since <= now - LEFT_TO_LIE:
        left = due(now - LEFT_TO_LIE, since=since, most=room, needs=needs)
        found += [one for one in left if one.task.id % share[1] != share[0]]
    return found


def due(
    now: datetime, *, since: datetime, most: int, share: Share = ALONE,
    needs: Names = NEEDED,
) -> list[Found]:  # fmt: skip
    told = connection.ops.adapt_datetimefield_value
    rank, of = share
    with prepared.cursor() as cursor:
        cursor.execute(DUE.format(columns(Task, needs)), [told(since), told(now), of, rank, most])
        rows = cursor.fetchall()
    tasks = instances(Task, needs, rows)
    return [Found(task, *row[-2:]) for task, row in zip(tasks, rows, strict=True)]


def is_due(task: Task, now: datetime) -> bool:
    return task.next_run_at is not None and task.next_run_at <= now


def measure(plans: Iterable[Due]) -> None:
    for task, _, plan, _ in plans:
        if plan.missed:
            metrics.count("cronjob_misfire_total", metrics.task(task.id), by=plan.missed.count)


def planned_or_none(found: Found, *, now: datetime, ahead: timedelta, most: int) -> Due | None:
    """One bad task fails itself, loudly, and never the beat."""
    task, grace = found.task, timedelta(seconds=found.task.misfire_grace_seconds)
    assert task.next_moment is not None
    assert task.next_run_at is not None
    if now - task.next_run_at > grace:
        ahead = NOT_AHEAD  # what is yet to come is no part of a backlog
    try:
        schedule = task.schedule()
        plan = misfire.plan(
            schedule, task.next_moment,
            now=now + ahead, policy=task.misfire_policy,
            grace=grace + ahead,
            catchup_limit=task.catchup_limit,
            room=max(0, most - found.waiting),
        )  # fmt: skip
        return task, schedule, plan, list(entries_of(task, schedule, plan, now=now))
    except Exception:
        give_up(task, now=now)
        return None


def advance(plans: Iterable[Due]) -> set[int]:
    """Move each task to its next moment, if nobody has moved or changed it since we read it."""
    rows = []
    for task, schedule, plan, _ in plans:
        before = (task.next_run_at, task.version)
        task.point_at(plan.following, schedule)
        ended = plan.following is None
        rows.append((task.id, *before, task.next_moment, task.next_run_at, ended))
    return compare_and_set(
        Task, rows, seen=("next_run_at", "version"), sets=("next_moment", "next_run_at", "ended")
    )


def entries_of(task: Task, schedule: Schedule, plan: Plan, *, now: datetime) -> Iterable[Entry]:
    trigger = Trigger.CATCH_UP if plan.late else Trigger.SCHEDULE
    for moment in plan.runs:
        yield planned(task, moment, schedule=schedule, trigger=trigger, now=now)
    if plan.missed:
        yield missed(task, plan.missed, schedule=schedule, reason="misfire", now=now)
    if plan.full:
        reason, status = "backlog full", Status.SKIPPED
        yield missed(task, plan.full, schedule=schedule, reason=reason, status=status, now=now)
