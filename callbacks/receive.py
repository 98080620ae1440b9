"""What a target reports: kept as it came, and the first to say how the run ended ends it."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db import transaction

from callbacks.models import AsyncCallback, CallbackStatus, CallbackToken, Stranger
from callbacks.target import hashed
from cronjob.lib import limits, wakeup
from cronjob.lib.failpoints import failpoint
from runs import calls, settle
from runs.claim import unpark
from runs.models import TaskRun
from runs.states import FINAL, Status

logger = logging.getLogger(__name__)

USES_MOST = 120  # a minute, of one token
STRANGERS_MOST = 60  # a minute, from one address
EXTENSIONS_MOST = 10  # times the time that a callback has
HEAVY = (
    "request_headers", "request_body", "response_headers", "response_body", "override_body",
    "task__headers", "task__body_template", "task__work",
)  # fmt: skip


class Says(StrEnum):
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    RUNNING = "RUNNING"  # not yet, and how far it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What somebody said of an attempt; one that says nothing could not be understood."""

    says: Says | None = None
    problem: str = ""
    message: str = ""
    progress: float | None = None
    extend: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a report; one that did not count says why, and whose fault that was."""

    run: TaskRun
    ignored: str = ""
    code: str = ""  # of the error to answer with


class Busy(Exception):
    """Too many reports in a minute; `wait` seconds from now there may be another."""

    def __init__(self, wait: int) -> None:
        super().__init__(f"Too many reports. Wait {wait} s.")
        self.wait = wait


def known(token: str) -> CallbackToken | None:
    """Found by its hash alone: however a wrong one looks, it takes the same time to say so."""
    return CallbackToken.objects.filter(token_hash=hashed(token)).first()


def stranger(address: str, *, now: datetime) -> int:
    """Count a token that nobody was given; 0, or for how many seconds no other is looked at."""
    Stranger.objects.filter(since__lt=now - 60 * limits.MINUTE).delete()
    Stranger.objects.get_or_create(address=address)
    return limits.hit(Stranger.objects.filter(pk=address), STRANGERS_MOST, now=now)


def with_token(token: CallbackToken, report: Report, *, now: datetime, secret: str) -> Verdict:
    """A report on the attempt that the token was given for."""
    with transaction.atomic():
        mine = CallbackToken.objects.filter(pk=token.pk)
        wait = limits.hit(mine, USES_MOST, now=now)
        if not wait:
            verdict = taken(token.task_run_id, token.attempt, report, now=now, secret=secret)
    if wait:
        raise Busy(wait)
    return followed(verdict, now=now)


def with_ids(run: TaskRun, report: Report, *, now: datetime) -> Verdict:
    """A report by somebody whom we trust to know the run; it is on whatever attempt it has."""
    with transaction.atomic():
        verdict = taken(run.pk, None, report, now=now)
    return followed(verdict, now=now)


def taken(
    pk: int, attempt: int | None, report: Report, *, now: datetime, secret: str = ""
) -> Verdict:
    """Under the lock of the run: two reports, a sweep and a cancel come one after the other."""
    locked = TaskRun.objects.select_for_update(of=("self",), no_key=True)
    run = locked.select_related("task").defer(*HEAVY).get(pk=pk)
    ignored, code = judge(run, attempt, report)
    failpoint("callback.judged")
    if report.says == Says.RUNNING and not ignored:
        progress(run, report, now=now)
        return Verdict(run)
    if not ignored:
        settle.report(run, ok=report.says == Says.SUCCESS, message=report.message, now=now)
    keep(run, attempt or run.attempt, report, ignored, now=now, secret=secret)
    failpoint("callback.written")
    return Verdict(run, ignored, code)


def judge(run: TaskRun, attempt: int | None, report: Report) -> tuple[str, str]:
    """Why this report does not count, if so, and the error that says it if it is one."""
    if report.says is None:
        return report.problem, "INVALID_ARGUMENT"
    if run.status in FINAL:
        return f"The run was {run.status} already.", ""
    if run.status == Status.SCHEDULED or not run.is_asynchronous:
        return f"The run is {run.status} and awaits no callback.", "INVALID_STATE"
    over = run.status == Status.RETRYING or (attempt or run.attempt) < run.attempt
    if report.says != Says.SUCCESS and over:
        which = f"Attempt {attempt or run.attempt}"
        code = "INVALID_STATE" if attempt is None else "GONE"
        return f"{which} was over; the run is {run.status}.", code
    return "", ""


def progress(run: TaskRun, report: Report, *, now: datetime) -> None:
    changes: dict[str, Any] = {}
    if report.progress is not None:
        changes["progress"] = report.progress
    if report.message:
        changes["progress_message"] = report.message[:256]
    if report.extend and run.callback_deadline and run.start_time:
        length = timedelta(seconds=run.task.callback_timeout_sec)
        latest = run.start_time + EXTENSIONS_MOST * length
        longer = min(run.callback_deadline + length, latest)
        changes["callback_deadline"] = max(run.callback_deadline, longer)
    TaskRun.objects.filter(pk=run.pk).update(updated_at=now, **changes)
    for name, value in changes.items():
        setattr(run, name, value)


def keep(
    run: TaskRun, attempt: int, report: Report, ignored: str, *, now: datetime, secret: str
) -> None:
    """As it came, but for what must not be read."""
    also = tuple(name.lower() for name in run.task.secret_headers)
    secrets = (secret,) if secret else ()
    status = CallbackStatus.IGNORED if ignored else CallbackStatus.RECEIVED
    AsyncCallback.objects.create(
        task_run=run, attempt=attempt, received_at=now, status=status, reason=ignored[:256],
        headers=calls.shown_headers(report.headers, also, secrets),
        body=calls.shown(report.body, secrets, run.task.secret_paths),
    )  # fmt: skip


def followed(verdict: Verdict, *, now: datetime) -> Verdict:
    """After the commit: who waited for the slot may go, and schedulers hear of what is ready."""
    run = verdict.run
    if verdict.ignored or run.status in (Status.RUNNING, Status.CALLBACK_PENDING):
        return verdict
    if run.status == Status.RETRYING or unpark([run.task_id], now):
        wakeup.schedulers()
    extra = {
        "action": "callback", "task_id": run.task_id, "run_id": run.pk, "attempt": run.attempt,
        "status": run.status, "trace_id": run.trace_id,
    }  # fmt: skip
    logger.info("run %s of %s: %s", run.pk, run.task.name, run.status, extra=extra)
    return verdict
