"""What died, hung or was forgotten comes back: nothing stays under way for ever."""

import logging
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Prefetch, Q, prefetch_related_objects

from cronjob.lib import metrics
from cronjob.lib.failpoints import failpoint
from runs.calls import Outcome
from runs.claim import unpark
from runs.executor import Key
from runs.models import Process, TaskRun
from runs.settle import settle, tell
from runs.states import ErrorKind, Status
from tasks.models import Task

logger = logging.getLogger(__name__)

NEEDED = ("id", "task_id", "status", "fence", "attempt", "trigger")  # for a transition
TOLD = ("task_id", "status", "attempt", "trace_id", "request_url", "timings")  # of a sweep
FORGOTTEN = timedelta(seconds=5)  # a claim whose answer was lost shows up after this


def rescue(now: datetime) -> int:
    """End the attempts of dead processes, and those that are past their deadline."""
    with transaction.atomic():
        dead = Process.objects.select_for_update(skip_locked=True).filter(lease_until__lt=now)
        names = [process.name for process in dead]
        # Without its row a process that was only asleep finds out, and stops.
        Process.objects.filter(name__in=names).delete()
        alive = Process.objects.values("name")
        calling = TaskRun.objects.filter(deadline_at__isnull=False)
        lost = calling.filter(Q(deadline_at__lt=now) | ~Q(owner__in=alive))
        locked = lost.select_related("task").select_for_update(of=("self",), skip_locked=True)
        runs = list(locked.order_by("id")[: settings.CRONJOB_BATCH_MAX])
        outcomes = [(run, Outcome.of_lost(run, why(run, now))) for run in runs]
        moved = settle(outcomes, now=now)
        failpoint("rescue.written")
    unpark({run.task_id for run in runs if run.pk in moved}, now)  # who looks sees what we wrote
    for name in names:
        logger.warning("process %s is gone, its runs are rescued", name, extra={"action": "rescue"})
    return len(moved)


def why(run: TaskRun, now: datetime) -> str:
    assert run.deadline_at is not None
    if run.deadline_at < now:
        return "nothing was heard of the call until long after its deadline"
    return f"its process {run.owner} has died"


def lose(runs: Sequence[TaskRun], *, now: datetime) -> None:
    """We go and will not hear the answer: others need not wait for our lease to find out."""
    why = "its scheduler was stopped before the answer came"
    settle([(run, Outcome.of_lost(run, why)) for run in runs], now=now)


def expire(now: datetime) -> int:
    """End the runs whose callback did not come in time."""
    message = "no callback came in time"
    late = TaskRun.objects.filter(callback_deadline__lte=now)
    with transaction.atomic():
        # Whoever holds one is reporting on it, or asking for more time: that may well count.
        locked = late.select_for_update(skip_locked=True, no_key=True)
        oldest = locked.only(*TOLD).order_by("callback_deadline", "id")
        found = list(oldest[: settings.CRONJOB_BATCH_MAX])
        if not found:
            return 0
        still = late.filter(pk__in=[run.pk for run in found], status=Status.CALLBACK_PENDING)
        ended = still.update(
            status=Status.FAILED_TIMEOUT, end_time=now, updated_at=now, callback_deadline=None,
            slot=None, template=None,  # which holds secrets
            error_kind=ErrorKind.CALLBACK, error_message=message, reason=message,
        )  # fmt: skip
    failpoint("expire.committed")
    metrics.count("cronjob_run_total", Status.FAILED_TIMEOUT, by=ended)
    unpark({run.task_id for run in found}, now)
    prefetch_related_objects(found, Prefetch("task", Task.objects.only("name")))
    for run in found:
        run.status, run.error_message = Status.FAILED_TIMEOUT, message
        tell(run, settled=True)
    return ended


def reconcile(owner: str, held: Collection[Key], *, now: datetime) -> int:
    """Release what the database says is ours and we know nothing of: a claim without an answer.

    It was never sent, so the attempt does not count.
    """
    mine = TaskRun.objects.filter(owner=owner, deadline_at__isnull=False)
    old = mine.filter(start_time__lt=now - FORGOTTEN).only(*NEEDED)
    return sum(put_back(run, now=now) for run in old if (run.pk, run.fence) not in held)


def put_back(run: TaskRun, *, now: datetime) -> bool:
    """As if it had not been claimed; what was tried before goes on being retried."""
    attempt = run.attempt - 1
    changes: dict[str, object]
    if attempt:
        to, changes = Status.RETRYING, {"next_retry_time": now}
    else:
        to = Status.SCHEDULED  # and asks for what its task says by then
        changes = {"lateness_ms": None, "start_time": None, "template": None}
    fence = {"fence": run.fence + 1}
    return run.transition(to, now=now, ready_at=now, attempt=attempt, **fence, **changes)
