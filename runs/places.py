"""Which runs of a task may be under way at the same time, and in which order they start."""

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from datetime import datetime

from cronjob.lib import prepared
from cronjob.lib.instances import values
from runs import held
from runs.models import TaskRun
from runs.states import OCCUPYING, Status, Trigger
from tasks.models import ConcurrencyPolicy

# What occupies a place of these tasks.
UNDER_WAY = """SELECT task_id, slot, trigger, status, NULL, NULL FROM task_runs
    WHERE task_id {among} AND end_time IS NULL AND (slot IS NOT NULL OR status <> 'SCHEDULED')"""
# Since when the oldest of these has waited for one, and the oldest that no pause holds; those in
# the second list are looked at already.
WAITING = """SELECT task_id, NULL, NULL, NULL, min(due_at),
    min(CASE WHEN trigger IN ('MANUAL', 'REPLAY') THEN due_at END)
    FROM task_runs WHERE task_id {among} AND end_time IS NULL AND status = 'SCHEDULED'
    AND slot IS NULL AND id {but} GROUP BY task_id"""
PLACED = f"{UNDER_WAY} UNION ALL {WAITING}"


class Places:
    """Which slots of some tasks are taken, and which tasks are catching up."""

    def __init__(
        self,
        tasks: Iterable[int],
        *,
        behind: Sequence[TaskRun] = (),
        paused: Set[str] = frozenset(),
    ) -> None:
        self.taken: dict[int, set[int]] = {task: set() for task in tasks}
        self.beside = Counter[int]()  # under way without a slot: since when it was PARALLEL
        self.catching_up: set[int] = set()
        self.first: dict[int, datetime] = {}  # when the oldest run of a task that waits was due
        if self.taken:
            self.look(behind, paused)

    def look(self, behind: Sequence[TaskRun], paused: Set[str]) -> None:
        """What is under way, and who waits: what became ready later must not overtake it."""
        lined_up = {run.task_id: run.task for run in behind if queues(run)}
        if lined_up:
            found = prepared.rows(PLACED, self.taken, lined_up, [run.id for run in behind])
        else:
            found = prepared.rows(UNDER_WAY, self.taken)
        for task, slot, trigger, status, *_ in found:
            if status is not None:
                self.take(task, slot, trigger, status)
        waiting = [(row[0], *row[4:]) for row in found if row[3] is None]
        for task, any_of, asked_for in values(TaskRun, ("task", "due_at", "due_at"), waiting):
            first = asked_for if held.holds(paused, lined_up[task]) else any_of
            if first is not None:
                self.first[task] = first

    def occupy(self, run: TaskRun) -> None:
        self.take(run.task_id, run.slot, run.trigger, run.status)

    def take(self, task: int, slot: int | None, trigger: str, status: str) -> None:
        if slot is not None:
            self.taken.setdefault(task, set()).add(slot)
        elif status in OCCUPYING:
            self.beside[task] += 1
        if trigger == Trigger.CATCH_UP and status in OCCUPYING:
            self.catching_up.add(task)

    def admits(self, run: TaskRun) -> bool:
        """Whether it may start beside what is under way; catching up goes one after another."""
        task, catches_up = run.task, run.trigger == Trigger.CATCH_UP
        in_line = catches_up or task.concurrency_policy == ConcurrencyPolicy.QUEUE
        if in_line and run.due_at > self.first.get(task.pk, run.due_at):
            return False
        if catches_up and task.pk in self.catching_up:
            return False
        under_way = len(self.taken[task.pk]) + self.beside.get(task.pk, 0)
        return under_way < task.max_concurrency or parallel(run)

    def free_slot(self, run: TaskRun) -> int | None:
        if parallel(run):
            return None
        slot, taken = 1, self.taken[run.task_id]
        while slot in taken:
            slot += 1
        return slot


def parallel(run: TaskRun) -> bool:
    return run.task.concurrency_policy == ConcurrencyPolicy.PARALLEL


def queues(run: TaskRun) -> bool:
    """Whether it waits for its turn, the oldest of its task first."""
    policy = run.task.concurrency_policy
    return needs_place(run) and (
        policy == ConcurrencyPolicy.QUEUE or run.trigger == Trigger.CATCH_UP
    )


def needs_place(run: TaskRun) -> bool:
    if run.status != Status.SCHEDULED or run.slot is not None:
        return False  # it has one
    return not parallel(run) or run.trigger == Trigger.CATCH_UP
