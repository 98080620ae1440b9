"""What is sent for an attempt and what is kept of it, for threads that know no database."""

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache, partial
from http.client import responses
from operator import attrgetter
from typing import Any, Self
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings

from cronjob import __version__
from cronjob.lib import clock, http, keepable, masking, template
from cronjob.lib.template import Placeholder, TemplateError
from runs import retry
from runs.models import TaskRun
from runs.shown import found_secrets, shortened, shown, shown_headers
from runs.states import ErrorKind
from tasks import rules
from tasks.models import ExecType, OnLost, Task

logger = logging.getLogger(__name__)

BODIED = ("POST", "PUT", "PATCH")  # an empty body of these says what the attempt is
OURS = ("idempotency-key", "user-agent", "traceparent", "x-ksana-run-id")  # beside X-Cronjob-*
CALLBACK = ("X-Cronjob-Callback-Url", "X-Cronjob-Callback-Token")
MESSAGE_MAX = 1024
PHASES = ("connect_ms", "first_byte_ms", "total_ms")
FROZEN = (
    "name", "timezone", "http_method", "target_url", "headers", "body_template",
    "connect_timeout_seconds", "timeout_seconds", "follow_redirects", "callback_method",
    "secret_headers", "secret_paths",
)  # fmt: skip

what_is_frozen = attrgetter(*FROZEN)

ASCII = "".join(map(chr, range(32, 127)))
TRACE_ID = re.compile(r"(?!0+$)[0-9a-f]{32}")
ORIGIN = re.compile(r"(?i)https?://[^/?#]+")
IN_HOST = re.compile(r"[A-Za-z0-9_-]+")
NOT_IN_URL = re.compile(r"[\s\x00-\x20\x7f\\]")
NOT_IN_HEADER = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
# Ksana's, also with < and > escaped, as a client written in Go sends them.
FILLED = re.compile(r'("(job_id|run_id)"\s*:\s*)"(?:<|\\u003c)filled-by-service(?:>|\\u003e)"')
# Not whatever else Python decodes by name, such as zip, idna or unicode_escape.
CHARSET = re.compile(
    r"""(?i)charset\s*=\s*["']?(utf-?8|utf-(?:16|32)(?:[bl]e)?|us-ascii|iso-8859-(?:1[013-6]?|[2-9])"""
    r"""|windows-125[0-8]|koi8-[ru]|gb(?:k|2312|18030)|big5|euc-(?:jp|kr)|shift_jis)(?![\w.:-])"""
)
SPANS = 2**64 - 1
JSON = json.JSONDecoder(parse_constant=keepable.refuse, parse_int=str, parse_float=str)
SCHEDULED, TRIGGERED = (Placeholder(name) for name in template.TIMES)

Values = dict[str, object]  # of one attempt, by the names of the template
Fill = Callable[[Placeholder], str]  # with those


# Not frozen, neither these nor those of `http`: four are made for each run, and take longer so.
@dataclass(slots=True, kw_only=True)
class Call:
    """One attempt, ready to be made by a thread that knows no database."""

    run_id: int
    task_id: int
    fence: int
    attempt: int
    request: http.Request | None = field(default=None, repr=False)  # None: see the problem
    problem: str = ""
    # As they are stored: without secrets and callback tokens.
    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    trace_id: str
    asynchronous: bool = False  # a 2xx means CALLBACK_PENDING
    made_at: datetime
    secrets: tuple[str, ...] = field(default=(), repr=False)  # never kept; the longest first
    secret_headers: tuple[str, ...] = ()
    secret_paths: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of one attempt: everything that settling it needs."""

    run_id: int
    fence: int
    attempt: int
    ok: bool = False  # a 2xx; of a call that is not asynchronous, read to its end
    asynchronous: bool = False
    kind: str = ""  # an ErrorKind
    message: str = ""
    method: str = ""
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    code: int | None = None
    response_headers: dict[str, str] = field(default_factory=dict)
    response_body: str = ""
    truncated: bool = False
    timings: dict[str, int | None] = field(default_factory=dict)
    retry_after: float | None = None  # seconds that the target asks for, capped
    sent: bool = False  # the target may have seen it

    @classmethod
    def of_lost(cls, run: TaskRun, why: str) -> Self:
        """Nobody knows what became of it."""
        which: dict[str, Any] = {"run_id": run.id, "fence": run.fence, "attempt": run.attempt}
        return cls(**which, kind="lost", message=shortened(why, MESSAGE_MAX), sent=True)

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        headers = "".join([*self.headers.values(), *self.response_headers.values()])
        return 2048 + sum(map(sys.getsizeof, (headers, self.body, self.response_body)))


def freeze(task: Task) -> dict[str, Any]:
    """What every attempt of a run asks for, whatever becomes of its task meanwhile."""
    asynchronous = task.exec_type == ExecType.ASYNC
    return {**dict(zip(FROZEN, what_is_frozen(task), strict=True)), "asynchronous": asynchronous}


def trace_of(run: TaskRun) -> str:
    """The same on every attempt, also if nobody kept it."""
    return run.trace_id if TRACE_ID.fullmatch(run.trace_id) else run.uuid.hex


def prepare(
    run: TaskRun, *, now: datetime, callback_url: str = "", callback_token: str = ""
) -> Call:
    """The call of this attempt. One that cannot be made says why: a bad row fails itself alone."""
    frozen = run.template if isinstance(run.template, dict) else {}
    try:
        frozen = frozen or freeze(run.task)
        return made(run, frozen, now=now, url=callback_url, token=callback_token)
    except Exception as error:
        why = str(error) if isinstance(error, ValueError) else repr(error)
        if not isinstance(error, ValueError):
            logger.exception("run %s cannot be prepared", run.id, extra={"run_id": run.id})
        return Call(
            run_id=run.id, task_id=run.task_id, fence=run.fence, attempt=run.attempt, made_at=now,
            problem=shortened(why, MESSAGE_MAX), method=str(frozen.get("http_method", "")),
            url=shown(masking.url(str(frozen.get("target_url", "")))), trace_id=trace_of(run),
        )  # fmt: skip


def made(run: TaskRun, frozen: dict[str, Any], *, now: datetime, url: str, token: str) -> Call:
    asynchronous = bool(frozen["asynchronous"] or run.force_async)
    if asynchronous and not (url and token):
        raise TemplateError("CRONJOB_BASE_URL is not set, so no callback would find its way.")
    values: Values = {
        "run_id": run.id, "task_id": run.task_id, "task_name": frozen["name"],
        "scheduled_time": run.scheduled_time, "triggered_at": now, "attempt": run.attempt,
        "trace_id": trace_of(run), "callback_url": url if asynchronous else None,
        "callback_token": token if asynchronous else None,
    }  # fmt: skip
    body, request = request_of(run, frozen, values)
    task = run.task
    also = (*map(str.lower, frozen["secret_headers"]), *map(str.lower, task.secret_headers))
    paths = tuple(dict.fromkeys((*frozen["secret_paths"], *task.secret_paths)))
    known = found_secrets(request, also)
    return Call(
        run_id=run.id, task_id=run.task_id, fence=run.fence, attempt=run.attempt,
        request=request, method=request.method, url=shown(masking.url(request.url), known),
        headers=shown_headers(request.headers, also, known), body=shown(body, known, paths),
        trace_id=str(values["trace_id"]), asynchronous=asynchronous, made_at=now,
        secrets=known, secret_headers=also, secret_paths=paths,
    )  # fmt: skip


def request_of(run: TaskRun, frozen: dict[str, Any], values: Values) -> tuple[str, http.Request]:
    """The body as text, and the request with it."""
    fill = partial(Placeholder.render, values=values, zone=ZoneInfo(frozen["timezone"]))
    times = {part.name: fill(part) for part in (SCHEDULED, TRIGGERED)}
    method = str(frozen["http_method"])
    body = frozen["body_template"] if run.override_body is None else run.override_body
    if body or method not in BODIED:
        body = body_of(run, body, fill)
    else:
        told = {name: value for name, value in (values | times).items() if value is not None}
        body = json.dumps(told, ensure_ascii=False)
    headers = given_headers(frozen["headers"], fill)
    private = tuple(name for name in headers if name.lower() != "content-type")
    kind = next((text for name, text in headers.items() if name.lower() == "content-type"), None)
    if body and kind is None:
        kind = "application/json" if is_json(body) else "text/plain; charset=utf-8"
        headers["Content-Type"] = kind
    headers |= our_headers(run, values, times)
    if values["callback_url"]:
        headers["X-Cronjob-Callback-Url"] = str(values["callback_url"])
        headers["X-Cronjob-Callback-Token"] = str(values["callback_token"])
        headers["X-Cronjob-Callback-Method"] = str(frozen["callback_method"])
    return body, http.Request(
        method=method, url=url_of(frozen["target_url"], fill), headers=headers,
        body=body.encode(codec_of(kind or "")), private_headers=(*private, *CALLBACK),
        connect_seconds=frozen["connect_timeout_seconds"],
        total_seconds=frozen["timeout_seconds"], follow_redirects=frozen["follow_redirects"],
        bytes_max=settings.CRONJOB_RESPONSE_BYTES_MAX,
        private_body=bool(values["callback_token"]) and str(values["callback_token"]) in body,
        repeatable=run.task.on_lost == OnLost.RETRY,
    )  # fmt: skip


def our_headers(run: TaskRun, values: Values, times: dict[str, str]) -> dict[str, str]:
    # The same on every attempt, and on every machine that makes a run of this moment.
    uuid = str(run.uuid)
    which = clock.text(run.moment) or f"run:{uuid}"
    # Every claim has a fence of its own, so every call has a span of its own.
    span = (run.uuid.int + run.fence) & SPANS
    return {
        "Idempotency-Key": f"{run.task.uuid}:{which}",
        "User-Agent": f"Cronjob/{__version__}",
        "traceparent": f"00-{values['trace_id']}-{span:016x}-01",
        "X-Cronjob-Task-Id": str(run.task_id),
        "X-Cronjob-Run-Id": str(run.id),
        "X-Cronjob-Attempt": str(run.attempt),
        "X-Cronjob-Scheduled-At": times["scheduled_time"],
        "X-Cronjob-Triggered-At": times["triggered_at"],
        "X-Cronjob-Reason": str(run.trigger),
        "X-Ksana-Run-Id": uuid,
    }


def given_headers(sources: Mapping[str, str], fill: Fill) -> dict[str, str]:
    """The task's headers, filled in, over everybody's; without those that are ours to say."""
    everybodys = settings.CRONJOB_DEFAULT_HEADERS
    if not (sources or everybodys):
        return {}
    given = {name.lower(): (name, text) for name, text in everybodys.items()}
    for name, source in sources.items():
        parts = template.parse(source).parts
        text = "".join(p if isinstance(p, str) else in_header(fill(p), p) for p in parts)
        given[name.lower()] = (name, text)
    for name in OURS:
        given.pop(name, None)
    for lower, (name, text) in given.items():
        if lower in rules.OURS or lower.startswith("x-cronjob-") or not rules.TOKEN.fullmatch(name):
            raise TemplateError(f"Header {name[:64]!r} cannot be given.")
        if NOT_IN_HEADER.search(text):
            raise TemplateError(f"Header {name}: holds a line break, or what no header can hold.")
    return {name: text.strip(" \t") for name, text in given.values()}


def in_header(text: str, part: Placeholder) -> str:
    """A value as any server reads it: what is not ASCII is %XX, or \\uXXXX in JSON."""
    if text.isascii():
        return text
    return json.dumps(json.loads(text)) if part.tojson else quote(text, safe=ASCII)


def body_of(run: TaskRun, source: str, fill: Fill) -> str:
    if not source:
        return ""
    parts = template.parse(source).parts
    if "filled-by-service" in source:
        ids = {"job_id": run.task.uuid, "run_id": run.uuid}
        name = partial(FILLED.sub, lambda found: f'{found[1]}"{ids[found[2]]}"')
        parts = tuple(name(part) if isinstance(part, str) else part for part in parts)
    return "".join(part if isinstance(part, str) else fill(part) for part in parts)


def is_json(text: str) -> bool:
    with suppress(ValueError, RecursionError):
        JSON.decode(text)
        return True
    return False


def url_of(source: str, fill: Fill) -> str:
    """The URL. Whatever a value holds, it stays within the part of the URL that it stands in."""
    text = ""
    for part in template.parse(source).parts:
        text += part if isinstance(part, str) else in_url(fill(part), part.name, after=text)
    origin = ORIGIN.match(text)
    if not origin or NOT_IN_URL.search(text):
        raise TemplateError("URL: must begin with http(s)://host and hold no space, no backslash.")
    check_origin(origin[0])
    return text


@lru_cache(maxsize=1024)
def check_origin(origin: str) -> None:
    try:
        parts = urlsplit(origin)
        if not parts.hostname or parts.port == 0 or "@" in origin:
            raise ValueError("must name a host, and no user")
    except ValueError as error:
        raise TemplateError(f"URL: {error}.") from error


def in_url(text: str, name: str, *, after: str) -> str:
    origin = ORIGIN.match(after)
    in_host = origin is None or origin.end() == len(after)
    if in_host and not IN_HOST.fullmatch(text):
        raise TemplateError(f"URL: {name} in a host can only be letters, digits, - and _.")
    if text and not text.strip("."):
        raise TemplateError(f"URL: {name} is {text[:8]}, which would lead elsewhere.")
    return quote(text, safe="")


def codec_of(content_type: str) -> str:
    found = CHARSET.search(content_type)
    return found[1] if found else "utf-8"


def outcome(call: Call, reply: http.Reply | None) -> Outcome:
    """What a reply means. There is none if the call could not be made."""
    if reply is None:
        return ended(call, kind=ErrorKind.TEMPLATE, message=call.problem)
    code, kind, message = reply.code, reply.kind, reply.message
    accepted = code is not None and 200 <= code < 300
    ok = accepted and (call.asynchronous or not kind)  # its callback tells the end, not its body
    if reply.cut and not ok:  # by ourselves, unwanted: that says nothing of the target
        return ended(call, kind=ErrorKind.LOST, message="its scheduler broke it off", sent=True)
    if not kind and not ok:
        kind = ErrorKind.CONNECT if code is None else ErrorKind.HTTP
        message = message or (f"{code} {responses.get(code, '')}" if code else "no answer")
    told = {name.lower(): value for name, value in reply.headers.items()}
    body, long = response_text(reply.body, told.get("content-type", ""), call)
    return ended(
        call, kind=kind, message=message, ok=ok, code=code,
        response_headers=shown_headers(reply.headers, call.secret_headers, call.secrets),
        response_body=body, truncated=reply.truncated or long,
        timings={phase: getattr(reply, phase) for phase in PHASES},
        retry_after=None if ok else wished(told, call, reply),
        sent=reply.sent,
    )  # fmt: skip


def wished(headers: Mapping[str, str], call: Call, reply: http.Reply) -> float | None:
    """In how many seconds the target wants to be asked again."""
    seen = call.made_at + timedelta(milliseconds=reply.total_ms or 0)
    return retry.asked_for(headers, seen=seen, most=settings.CRONJOB_RETRY_AFTER_MAX_SECONDS)


def broken(call: Call, error: Exception) -> Outcome:
    """Something of ours failed on the way; nobody knows whether it was sent."""
    return ended(call, kind=ErrorKind.LOST, message=f"{type(error).__name__}: {error}", sent=True)


def ended(call: Call, *, kind: str, message: str, **fields: Any) -> Outcome:
    return Outcome(
        run_id=call.run_id, fence=call.fence, attempt=call.attempt, asynchronous=call.asynchronous,
        kind=str(kind), message=shortened(shown(message.strip(), call.secrets), MESSAGE_MAX),
        method=call.method, url=call.url, headers=call.headers, body=call.body, **fields,
    )  # fmt: skip


def response_text(data: bytes, content_type: str, call: Call) -> tuple[str, bool]:
    """The body as text that may be kept, and whether that had to be cut."""
    text = data.decode(codec_of(content_type), "replace").removeprefix("\ufeff")
    like_json = "json" in content_type.lower() or text.lstrip()[:1] in ("{", "[")
    text = shown(text, call.secrets, call.secret_paths if like_json else ())
    most = settings.CRONJOB_RESPONSE_BYTES_MAX
    if len(text) * 4 <= most:  # however it is encoded
        return text, False
    data = text.encode()
    return (data[:most].decode("utf-8", "ignore"), True) if len(data) > most else (text, False)
