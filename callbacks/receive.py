"""What a target reports: kept as it came, and the first to say how the run ended ends it."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from django.db import DatabaseError, connection, transaction

from callbacks.models import AsyncCallback, CallbackStatus, CallbackToken, Stranger
from callbacks.target import hashed
from cronjob.lib import limits, masking, wakeup
from cronjob.lib.failpoints import failpoint
from cronjob.lib.instances import columns, instances
from cronjob.lib.rows import insert_one
from runs import calls, settle
from runs.claim import unpark
from runs.models import TaskRun
from runs.shown import shortened, shown, shown_headers
from runs.states import FINAL, Status

logger = logging.getLogger(__name__)

USES_MOST = 120  # a minute, of one token
STRANGERS_MOST = 60  # a minute, from one address
FORGOTTEN_AT_ONCE = 200
WORDS_MOST = 500  # of a text, that are looked at for being tokens
UNREADABLE_MOST = 4096  # characters that are kept of what could not be understood
WHOLE_MOST = 50  # callbacks of a run that are kept with all they brought
EXTENSIONS_MOST = 10  # times the time that a callback has
# Plain SQL where each report passes. What a report needs of a run; never its bodies.
NEEDS = (
    "id", "uuid", "task", "trigger", "status", "reason", "attempt", "max_attempts", "lost", "fence",
    "start_time", "end_time", "callback_deadline", "force_async", "template", "attempts",
    "response_code", "error_kind", "error_message", "trace_id", "task__name",
    "task__retry_policy", "task__secret_headers", "task__secret_paths",
    "task__callback_timeout_sec",
)  # fmt: skip
TOKEN_NEEDS = ("token_hash", "task_run", "attempt")
KNOWN = "SELECT {} FROM callback_tokens WHERE token_hash = %s"
LOCKED = """SELECT {} FROM task_runs JOIN tasks ON tasks.id = task_runs.task_id
    WHERE task_runs.id = %s"""


class Says(StrEnum):
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    RUNNING = "RUNNING"  # not yet, and how far it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What somebody said of an attempt; one that says nothing could not be understood."""

    says: Says | None = None
    problem: str = ""
    message: Any = None
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
    with connection.cursor() as cursor:
        cursor.execute(KNOWN.format(columns(CallbackToken, TOKEN_NEEDS)), [hashed(token)])
        found = instances(CallbackToken, TOKEN_NEEDS, cursor.fetchall())
    return next(iter(found), None)


def stranger(address: str, *, now: datetime) -> int:
    """Count a token that nobody was given; 0, or for how many seconds no other is looked at."""
    mine = network(address)
    if wait := limits.wait(Stranger, mine, STRANGERS_MOST, now=now):
        return wait  # and costs nothing but this look
    if not Stranger.objects.filter(pk=mine).exists():
        old = Stranger.objects.filter(since__lt=now - 60 * limits.MINUTE)[:FORGOTTEN_AT_ONCE]
        Stranger.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()
        Stranger.objects.get_or_create(address=mine)
    return limits.hit(Stranger, mine, STRANGERS_MOST, now=now)


def network(address: str) -> str:
    """Who has one IPv6 address has a whole network of them."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address[:45]
    if isinstance(ip, IPv6Address) and not ip.ipv4_mapped:
        return str(ip_network((ip, 64), strict=False))
    return str(ip)


def with_token(token: CallbackToken, report: Report, *, now: datetime, secret: str) -> Verdict:
    """A report on the attempt that the token was given for."""
    with transaction.atomic():
        wait = limits.hit(CallbackToken, token.pk, USES_MOST, now=now)
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


def locked(pk: int) -> TaskRun:
    """A run that no two of us judge at once."""
    asked = LOCKED.format(columns(TaskRun, NEEDS))
    locks = " FOR NO KEY UPDATE OF task_runs" * (connection.vendor == "postgresql")
    with connection.cursor() as cursor:
        cursor.execute(asked + locks, [pk])
        found = instances(TaskRun, NEEDS, cursor.fetchall())
    if not found:
        raise TaskRun.DoesNotExist
    return found[0]


def taken(
    pk: int, attempt: int | None, report: Report, *, now: datetime, secret: str = ""
) -> Verdict:
    """Under the lock of the run: two reports, a sweep and a cancel come one after the other."""
    run = locked(pk)
    ignored, code = judge(run, attempt, report)
    failpoint("callback.judged")
    if report.says == Says.RUNNING and not ignored:
        progress(run, report, message_of(report, run, secret), now=now)
        return Verdict(run)
    if not ignored:
        message = message_of(report, run, secret)
        settle.report(run, ok=report.says == Says.SUCCESS, message=message, now=now)
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


def progress(run: TaskRun, report: Report, message: str, *, now: datetime) -> None:
    changes: dict[str, Any] = {}
    if report.progress is not None:
        changes["progress"] = report.progress
    if message:
        changes["progress_message"] = message[:256]
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
    """As it came, but for what must not be read: masked whole, then cut."""
    headers, body = dict(report.headers), report.body
    if ignored and AsyncCallback.objects.filter(task_run=run)[:WHOLE_MOST].count() == WHOLE_MOST:
        headers, body = {}, ""  # whoever goes on and on fills no disk
    known = tokens_in(f"{ignored} {body} {headers}", run, secret)
    also = tuple(name.lower() for name in run.task.secret_headers)
    status = CallbackStatus.IGNORED if ignored else CallbackStatus.RECEIVED
    most = None if report.says else UNREADABLE_MOST
    insert_one(
        AsyncCallback, task_run=run.pk, task_id=run.task_id, attempt=attempt, received_at=now,
        status=status, reason=shown(ignored, known)[:256],
        headers=shown_headers(headers, also, tuple(known)),
        body=shown(body, known, run.task.secret_paths)[:most],
    )  # fmt: skip


def tokens_in(text: str, run: TaskRun, secret: str) -> list[str]:
    """The tokens of the run that occur in a text: each of them could still end it."""
    given = [secret] if secret else []
    words = {hashed(word): word for word in masking.TOKEN.findall(text)}
    if not words:  # nearly always
        return given
    wanted = CallbackToken.objects.filter(task_run=run, token_hash__in=list(words)[:WORDS_MOST])
    return [*given, *(words[name] for name in wanted.values_list("token_hash", flat=True))]


def message_of(report: Report, run: TaskRun, secret: str) -> str:
    """What the report says in words, as far as it may be read."""
    if report.message in (None, ""):
        return ""
    said = {"message" if report.says == Says.RUNNING else "error_message": report.message}
    for path in run.task.secret_paths:
        said = masking.without(said, path.split("."), masking.MASK)
    (words,) = said.values()
    if not isinstance(words, str):
        try:
            words = json.dumps(words, ensure_ascii=False)
        except RecursionError:  # what is as deep as can be read may be too deep to be written
            words = masking.MASK
    return shortened(shown(words, tokens_in(words, run, secret)), calls.MESSAGE_MAX)


def followed(verdict: Verdict, *, now: datetime) -> Verdict:
    """After the commit: who waited for the slot may go, and schedulers hear of what is ready."""
    run = verdict.run
    if verdict.ignored or run.status in (Status.RUNNING, Status.CALLBACK_PENDING):
        return verdict
    try:
        if run.status == Status.RETRYING:
            wakeup.schedulers()
        else:
            unpark([run.task_id], now)  # which tells them itself
    except DatabaseError:  # the report counts all the same, and a sweep does the rest
        logger.warning("nobody was let into the slot of run %s", run.pk, exc_info=True)
    extra = {
        "action": "callback", "task_id": run.task_id, "run_id": run.pk, "attempt": run.attempt,
        "status": run.status, "trace_id": run.trace_id,
    }  # fmt: skip
    logger.info("run %s of %s: %s", run.pk, run.task.name, run.status, extra=extra)
    return verdict
