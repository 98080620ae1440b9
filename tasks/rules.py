"""What a task's fields may hold, one rule a function: pure, and the same for every edge."""

import re
import zoneinfo
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError

from cronjob.lib import keepable, template
from tasks import cron

RETRY_DEFAULTS: dict[str, Any] = {
    "max_retries": 0,
    "initial_delay": 5,
    "strategy": "exponential",
    "max_delay": 60,
    "jitter": False,
    "retry_on_callback_failure": False,
}
STRATEGIES = ("fixed", "exponential")
PUBLIC = {"every_seconds": "every", "jitter_seconds": "jitter"}  # columns under other names

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
PATH = re.compile(r"[^\s.]+(\.[^\s.]+)*")
OURS = ("host", "content-length", "transfer-encoding", "connection")  # set by who sends
HEADERS_MAX, HEADER_LONGEST, TAGS_MAX, DELAY_MAX = 100, 8192, 50, 86400


def validate_zone(zone: str) -> None:
    """An IANA name; anything that could be a path on disk is none."""
    if zone not in zones():
        problem = f"“{zone[:64]}” is not an IANA time zone such as Europe/Berlin."
        raise ValidationError(problem, code="zone")


@lru_cache(maxsize=1)
def zones() -> set[str]:
    return zoneinfo.available_timezones() - {"localtime", "Factory"}  # files, not names


def check_name(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise ValueError("Must be visible characters on one line.")
    return name.strip()


def check_cron(expression: str | None) -> str | None:
    return None if expression is None else cron.normalise(expression)


def check_every(seconds: int | None) -> int | None:
    if seconds is not None and seconds < 1:
        raise ValueError("At least one second.")
    return seconds


def check_url(url: str) -> str:
    """An http(s) URL; placeholders may stand anywhere after the scheme."""
    if not url:
        return url
    filled = "".join(part if isinstance(part, str) else "1" for part in parsed(url).parts)
    if re.search(r"[\s\x00-\x1f\x7f\\]", filled):
        raise ValueError("Must not hold spaces, backslashes or control characters.")
    try:
        parts = urlsplit(filled)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"Not a URL: {error}.") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("Must begin with http:// or https:// and name a host.")
    if "@" in parts.netloc:
        raise ValueError("Must not hold a user name or password; use an Authorization header.")
    return url


def check_body(body: str) -> str:
    parsed(body)
    return body


def check_headers(headers: Any) -> dict[str, str]:
    if not isinstance(headers, dict) or len(headers) > HEADERS_MAX:
        raise ValueError(f"Must be an object of at most {HEADERS_MAX} names and values.")
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        if not TOKEN.fullmatch(name):
            raise ValueError(f"“{name[:64]}” is not a header name.")
        if lower in OURS or lower.startswith("x-cronjob-"):
            raise ValueError(f"{name} is set by the caller itself and cannot be given.")
        if lower in seen:
            raise ValueError(f"{name} is given twice.")
        seen.add(lower)
        if not isinstance(value, str) or len(value) > HEADER_LONGEST:
            raise ValueError(f"{name} must be text of at most {HEADER_LONGEST} characters.")
        if re.search(r"[\r\n\x00]", value) or not encodable(value):
            raise ValueError(f"{name} must be one line of Latin-1 characters.")
        parsed(value, where=name)
    return headers


def encodable(value: str) -> bool:
    return all(ord(letter) < 256 for letter in value)


def parsed(source: str, *, where: str = "") -> template.Template:
    try:
        return template.parse(source)
    except template.TemplateError as error:
        raise ValueError(f"{where}: {error}" if where else str(error)) from error


def check_tags(tags: Any) -> list[str]:
    """Short words, each once, in the order given."""
    if not isinstance(tags, list) or len(tags) > TAGS_MAX:
        raise ValueError(f"Must be a list of at most {TAGS_MAX} tags.")
    for tag in tags:
        if (
            not isinstance(tag, str)
            or not re.fullmatch(r"[^\s,]{1,64}", tag)
            or not tag.isprintable()
        ):
            raise ValueError("A tag is 1 to 64 characters without spaces or commas.")
    return list(dict.fromkeys(tags))


def check_secret_headers(names: Any) -> list[str]:
    if not isinstance(names, list) or len(names) > HEADERS_MAX:
        raise ValueError(f"Must be a list of at most {HEADERS_MAX} header names.")
    for name in names:
        if not isinstance(name, str) or not TOKEN.fullmatch(name):
            raise ValueError(f"“{str(name)[:64]}” is not a header name.")
    return names


def check_secret_paths(paths: Any) -> list[str]:
    if not isinstance(paths, list) or len(paths) > HEADERS_MAX:
        raise ValueError(f"Must be a list of at most {HEADERS_MAX} dotted paths.")
    for path in paths:
        if (
            not isinstance(path, str)
            or len(path) > 256
            or not (path.isprintable() and PATH.fullmatch(path))
        ):
            raise ValueError(f"“{str(path)[:64]}” is not a path such as user.password or *.key.")
    return paths


def check_retry_policy(policy: Any) -> dict[str, Any]:
    """Left-out parts take their defaults, so that what is stored is always whole."""
    if not isinstance(policy, dict):
        raise ValueError("Must be an object.")
    if unknown := sorted(set(policy) - set(RETRY_DEFAULTS)):
        raise ValueError(f"Unknown: {', '.join(unknown)}. Known: {', '.join(RETRY_DEFAULTS)}.")
    whole = RETRY_DEFAULTS | policy
    check_number(whole, "max_retries", most=100, kinds=(int,))
    for name in ("initial_delay", "max_delay"):
        check_number(whole, name, most=DELAY_MAX, kinds=(int, float))
    if whole["strategy"] not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}.")
    for name in ("jitter", "retry_on_callback_failure"):
        if not isinstance(whole[name], bool):
            raise ValueError(f"{name} must be true or false.")
    return whole


def check_number(
    values: dict[str, Any], name: str, *, most: float, kinds: tuple[type, ...], least: float = 0
) -> None:
    value: Any = values[name]
    if isinstance(value, bool) or not isinstance(value, kinds) or not between(least, value, most):
        kind = "a whole number" if float not in kinds else "a number"
        raise ValueError(f"{name} must be {kind} from {least} to {most}.")


def between(least: float, value: Any, most: float) -> bool:
    return bool(least <= value <= most)


# What `work` may and must hold, for the ways of execution that have any.
WORK = {
    "JOB": {
        "queue": str, "job_type": str, "subject": str, "cost_units": int,
        "constraints": dict, "payload": object, "max_attempts": int, "timeout_seconds": int,
    },
    "NODE": {"model": str, "payload": object, "timeout_seconds": int},
}  # fmt: skip
WORK_REQUIRED = {"JOB": ("queue", "job_type"), "NODE": ("model",)}


def check_work(work: Any, *, exec_type: str) -> dict[str, Any] | None:
    if exec_type not in WORK:
        if work is not None:
            raise ValueError(f"Only JOB and NODE tasks have it; for {exec_type} it is null.")
        return None
    kinds, required = WORK[exec_type], WORK_REQUIRED[exec_type]
    if not isinstance(work, dict):
        raise ValueError(f"{exec_type} needs an object with {' and '.join(required)}.")
    if unknown := sorted(set(work) - set(kinds)):
        raise ValueError(f"Unknown: {', '.join(unknown)}. Known: {', '.join(kinds)}.")
    for name in required:
        if not work.get(name):
            raise ValueError(f"{name} is required for {exec_type}.")
    for name, value in work.items():
        if kinds[name] is int:
            check_number(work, name, most=2**31 - 1, kinds=(int,), least=1)
        elif kinds[name] is str and not (isinstance(value, str) and len(value) <= 128):
            raise ValueError(f"{name} must be text of at most 128 characters.")
        elif kinds[name] is dict and not isinstance(value, dict):
            raise ValueError(f"{name} must be an object.")
    keepable.check(work)
    return work


CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": check_name,
    "tags": check_tags,
    "cron_expr": check_cron,
    "every_seconds": check_every,
    "target_url": check_url,
    "headers": check_headers,
    "body_template": check_body,
    "secret_headers": check_secret_headers,
    "secret_paths": check_secret_paths,
    "retry_policy": check_retry_policy,
}
