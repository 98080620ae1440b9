"""The one end of every attempt, whoever brings the answer."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from django.db import transaction

from cronjob.lib import clock, log, metrics, wakeup
from cronjob.lib.failpoints import failpoint
from cronjob.lib.instances import twin
from cronjob.lib.rows import compare_and_set
from runs import retry
from runs.calls import Outcome
from runs.claim import unpark
from runs.models import TaskRun
from runs.spoilt import SPOILT
from runs.states import FINAL, ErrorKind, Status
from tasks.models import OnLost, Task

logger = logging.getLogger(__name__)

LOST_MOST = 3  # so often a run is tried again after its process died
LOST_PAUSE = timedelta(seconds=5)

SETS = (
    "status", "reason", "end_time", "template", "fence", "lost", "slot", "deadline_at",
    "callback_deadline", "ready_at", "next_retry_time", "request_method", "request_url",
    "request_headers", "request_body", "response_code", "response_headers", "response_body",
    "response_truncated", "error_kind", "error_message", "timings", "attempts", "updated_at",
)  # fmt: skip

# What was sent and what came back.
EVIDENCE = (
    "request_method", "request_url", "request_headers", "request_body", "response_code",
    "response_headers", "response_body", "response_truncated", "timings",
)  # fmt: skip

what_is_set, evidence = attrgetter(*SETS), attrgetter(*EVIDENCE)

Answer = tuple[TaskRun, Outcome]


def settle(answers: Sequence[Answer], *, now: datetime) -> set[int]:
    """Write what came of these attempts; the runs that were still theirs to settle."""
    if not answers:
        return set()
    standing = standing_of(run.task_id for run, outcome in answers if not outcome.ok)
    rows = []
    for run, outcome in answers:
        fence = run.fence
        apply(run, outcome, standing.get(run.task_id, ""), now=now)
        rows.append((run.id, fence, Status.RUNNING, *what_is_set(run)))
    failpoint("settle.before")
    with transaction.atomic():
        moved = compare_and_set(TaskRun, rows, seen=("fence", "status"), sets=SETS)
        overtaken(rest for rest in answers if rest[0].id not in moved)
        failpoint("settle.written")
    failpoint("settle.committed")
    unpark({run.task_id for run, _ in answers if run.id in moved and run.status in FINAL}, now)
    if any(run.status == Status.CALLBACK_PENDING and run.id in moved for run, _ in answers):
        wakeup.schedulers()  # each of them is to know when the first callback is due
    with log.together():
        for run, outcome in answers:
            tell(run, settled=run.id in moved)
            measure(run, outcome, settled=run.id in moved)
    return moved


def overtaken(answers: Iterable[Answer]) -> None:
    """Their callbacks ended these runs before; what was sent and answered is kept all the same."""
    late = {run.id: (run, outcome) for run, outcome in answers if outcome.asynchronous}
    if not late:
        return
    ended = TaskRun.objects.filter(pk__in=late).exclude(
        status__in=(Status.RUNNING, Status.CANCELED)
    )
    rows = []
    for pk, fence, status in ended.values_list("pk", "fence", "status"):
        run, outcome = late[pk]
        if fence == outcome.fence and outcome.code is not None:
            rows.append((pk, fence, status, *evidence(run)))
    compare_and_set(TaskRun, rows, seen=("fence", "status"), sets=EVIDENCE)


def report(run: TaskRun, *, ok: bool, message: str, now: datetime) -> bool:
    """The end that its target reports; False if somebody else moved the run before."""
    fields: dict[str, Any] = {"error_kind": "", "error_message": ""}
    if run.status == Status.RUNNING:  # what is known of a call is of the attempt before
        nothing = TaskRun()
        fields |= {name: getattr(nothing, name) for name in EVIDENCE}
    if ok:
        return run.transition(Status.CALLBACK_SUCCESS, now=now, **fields)
    fields |= {"error_kind": ErrorKind.CALLBACK, "error_message": message}
    for name, value in fields.items():
        setattr(run, name, value)
    # Whoever disables or deletes the task meanwhile comes before or after, and sees the retry.
    Task.objects.select_for_update(no_key=True).only("id").get(pk=run.task_id)
    given_up = standing_of([run.task_id]).get(run.task_id, "")
    outcome = Outcome(run_id=run.id, fence=run.fence, attempt=run.attempt, kind=ErrorKind.CALLBACK)
    if not given_up and (at := next_try(run, outcome, now=now)):
        attempts = [*run.attempts, attempt_of(run, now)]
        again = {"attempts": attempts, "ready_at": at, "next_retry_time": at}
        return run.transition(Status.RETRYING, now=now, **fields, **again)
    return run.transition(Status.FAILED, now=now, reason=given_up, **fields)


def settle_each(answers: Sequence[Answer]) -> list[Answer]:
    """As `settle`, but what cannot be written spoils its own run only; what never could be."""
    try:
        settle([(twin(run), outcome) for run, outcome in answers], now=clock.now())
        return []
    except SPOILT:  # anything else is not theirs, and may be better the next time
        logger.exception("%d answers could not be written", len(answers))
    if len(answers) > 1:
        return [left for answer in answers for left in settle_each([answer])]
    ((run, outcome),) = answers
    if outcome.kind == ErrorKind.BODY and not outcome.method:
        return [*answers]  # not even that it cannot be kept
    return settle_each([(run, unkeepable(outcome))])


def unkeepable(outcome: Outcome) -> Outcome:
    """What was sent and received cannot be written; that it was can be."""
    accepted = outcome.ok and outcome.asynchronous  # and its callback will come all the same
    return replace(
        outcome, ok=accepted, kind=ErrorKind.BODY, message="the database cannot keep the answer",
        code=outcome.code if accepted else None, method="", url="", headers={}, body="",
        response_headers={}, response_body="",
    )  # fmt: skip


def standing_of(tasks: Iterable[int]) -> dict[int, str]:
    """Why the runs of a task are not tried again, if they are not."""
    wanted = set(tasks)
    if not wanted:
        return {}
    tasks_now = Task.objects.filter(pk__in=wanted).only("status", "deleted")
    return {task.pk: task.given_up for task in tasks_now if task.given_up}


def apply(run: TaskRun, outcome: Outcome, given_up: str, *, now: datetime) -> None:
    """What the run is after this attempt."""
    record(run, outcome)
    run.deadline_at = run.callback_deadline = None
    run.updated_at = now
    if outcome.ok and outcome.asynchronous:
        run.status = Status.CALLBACK_PENDING
        run.callback_deadline = now + timedelta(seconds=run.task.callback_timeout_sec)
    elif outcome.ok:
        finish(run, Status.SUCCESS, now=now)
    elif outcome.kind == ErrorKind.LOST:
        lose(run, given_up, now=now)
    elif not given_up and (at := next_try(run, outcome, now=now)):
        try_again(run, at, now=now)
    else:
        timed_out = outcome.kind == ErrorKind.TIMEOUT
        finish(run, Status.TIMEOUT if timed_out else Status.FAILED, reason=given_up, now=now)


def record(run: TaskRun, outcome: Outcome) -> None:
    run.error_kind, run.error_message = outcome.kind, outcome.message
    if outcome.kind == ErrorKind.LOST:
        return  # nothing is known of what was sent
    run.request_method, run.request_url = outcome.method, outcome.url
    run.request_headers, run.request_body = outcome.headers, outcome.body
    run.response_code, run.response_headers = outcome.code, outcome.response_headers
    run.response_body, run.response_truncated = outcome.response_body, outcome.truncated
    run.timings = outcome.timings


def next_try(run: TaskRun, outcome: Outcome, *, now: datetime) -> datetime | None:
    spent = run.attempt - run.lost  # lost attempts are not paid for
    if spent >= run.max_attempts:
        return None
    policy = run.task.retry_policy | {"max_retries": run.max_attempts - 1}
    key = f"{run.uuid}:{run.attempt}"
    return retry.next_try(outcome, spent - 1, policy=policy, now=now, key=key)


def lose(run: TaskRun, given_up: str, *, now: datetime) -> None:
    run.lost += 1
    run.fence += 1  # whoever still comes back with it is a ghost
    if run.task.on_lost == OnLost.RETRY and run.lost <= LOST_MOST and not given_up:
        try_again(run, now + LOST_PAUSE, now=now)
    elif run.task.on_lost == OnLost.FAIL and run.is_asynchronous:
        run.status = Status.CALLBACK_PENDING  # it may have been sent, so its callback may come
        run.callback_deadline = now + timedelta(seconds=run.task.callback_timeout_sec)
    else:
        finish(run, Status.FAILED, reason=given_up or "lost", now=now)


def try_again(run: TaskRun, at: datetime, *, now: datetime) -> None:
    run.attempts = [*run.attempts, attempt_of(run, now)]
    run.status = Status.RETRYING
    run.ready_at = run.next_retry_time = at


def attempt_of(run: TaskRun, now: datetime) -> dict[str, Any]:
    return {
        "attempt": run.attempt,
        "start_time": clock.text(run.start_time),
        "end_time": clock.text(now),
        "response_code": None if run.error_kind == ErrorKind.LOST else run.response_code,
        "error_kind": run.error_kind,
        "error_message": run.error_message,
    }


def finish(run: TaskRun, status: Status, *, now: datetime, reason: str = "") -> None:
    run.status, run.reason, run.end_time, run.slot = status, reason, now, None
    run.template = None  # which holds secrets, and is not needed any more


def tell(run: TaskRun, *, settled: bool) -> None:
    level = logging.INFO if settled and run.status != Status.FAILED else logging.WARNING
    message = f"run {run.id} of {run.task.name}: {run.status}" if settled else "a late answer"
    extra = {
        "action": "settle" if settled else "stale", "task_id": run.task_id, "run_id": run.id,
        "attempt": run.attempt, "status": run.status, "trace_id": run.trace_id,
        "err": run.error_message, "target_url": run.request_url,
        "latency_ms": (run.timings or {}).get("total_ms"),
    }  # fmt: skip
    logger.log(level, message, extra=extra)


def measure(run: TaskRun, outcome: Outcome, *, settled: bool) -> None:
    if outcome.method:
        metrics.count("cronjob_http_request_total", outcome.method, outcome.code or outcome.kind)
    if not settled:
        return metrics.count("cronjob_late_answers_total")
    if outcome.kind == ErrorKind.LOST:
        metrics.count("cronjob_run_lost_total")
    if run.status == Status.RETRYING:
        metrics.count("cronjob_run_retries_total", metrics.task(run.task_id))
    if run.status in FINAL:
        metrics.count("cronjob_run_total", run.status)
        if run.start_time and run.end_time:
            took = (run.end_time - run.start_time).total_seconds()
            metrics.observe("cronjob_run_duration_seconds", took, metrics.task(run.task_id))
    return None
