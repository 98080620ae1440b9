"""What a pause holds: tasks that do not fire, and runs that wait for it to end."""

from collections.abc import Iterable, Set

from cronjob.lib import prepared
from runs.models import TaskRun
from runs.states import UNPLANNED
from tasks.models import Task

EVERYTHING = ""


def tags() -> set[str]:
    with prepared.cursor() as cursor:  # in every claim: less than the ORM takes to say it
        cursor.execute("SELECT tag FROM pauses")
        return {tag for (tag,) in cursor.fetchall()}


def holds(paused: Set[str], task: Task) -> bool:
    return EVERYTHING in paused or not paused.isdisjoint(task.tags)


def held_run(paused: set[str], run: TaskRun) -> bool:
    """Whether a pause holds it; what somebody asked for still runs."""
    return run.trigger not in UNPLANNED and holds(paused, run.task)


def hold(tasks: Iterable[Task]) -> None:
    """Leave the moment where it is, but let it not be due: the poll costs what it did before."""
    for task in tasks:
        same = Task.objects.filter(pk=task.pk, next_run_at=task.next_run_at, version=task.version)
        same.update(next_run_at=None)
