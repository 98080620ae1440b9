"""Stopping everything, or what carries a tag, for a while: nothing fires, nothing is lost of it.

Whoever holds something looks at the pauses once more after its commit, and whoever ends a pause
lets go after his: of two that pass each other, at least one sees what the other did. For whoever
dies in between, every scheduler sweeps what is held and belongs to no pause.
"""

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Q

from cronjob.lib import wakeup
from cronjob.lib.failpoints import failpoint
from runs import held
from runs.claim import tasks_that_wait, unpark
from runs.entries import missed, record, recorded_until
from runs.models import Pause
from runs.spoilt import give_up
from tasks import misfire
from tasks.models import Task

HELD = Q(next_run_at=None, next_moment__isnull=False)  # as task_held knows them


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
    failpoint("pause.ended")
    release(now)
    return ended > 0


def end_due(now: datetime) -> None:
    """Pauses that were to last until now."""
    Pause.objects.filter(until__lte=now).delete()
    failpoint("pause.ended")
    release(now)


def release(now: datetime) -> None:
    """Let go of what no pause holds any more, batch by batch: it may be much."""
    last = 0
    while last := release_batch(now, after=last):
        pass
    while waiting := tasks_that_wait(after=last):
        unpark(waiting, now)
        last = waiting[-1]
    wakeup.schedulers()


def release_batch(now: datetime, *, after: int = 0) -> int:
    """Of a batch of the tasks that are held; the last of them, 0 if there are no more."""
    batch = list(Task.objects.filter(HELD, pk__gt=after).only("tags").order_by("pk")
                 [: settings.CRONJOB_BATCH_MAX])  # fmt: skip
    if batch:  # nearly never
        let_go(batch, now)
    return batch[-1].pk if len(batch) == settings.CRONJOB_BATCH_MAX else 0


def let_go(tasks: Iterable[Task], now: datetime) -> None:
    """Those of them that no pause holds fire again."""
    paused = held.tags()
    free = [task.pk for task in tasks if not held.holds(paused, task)]
    if not free:
        return
    with transaction.atomic():
        for task in Task.objects.select_for_update().filter(HELD, pk__in=free).order_by("pk"):
            try:
                fire_again(task, now)
            except DatabaseError:
                raise
            except Exception:
                give_up(task, now=now)


def fire_again(task: Task, now: datetime) -> None:
    assert task.next_moment is not None
    schedule = task.schedule()
    span = misfire.backlog(schedule, task.next_moment, now)
    entries = [missed(task, span, schedule=schedule, reason="paused", now=now)] if span else []
    task.rearm(now=recorded_until(task, now))
    record(entries)
    task.save(update_fields=("ended", "next_moment", "next_run_at"))
