"""A task in Ksana's words, there and back: a job as its document has it, without its runs."""

import re
from collections.abc import Mapping
from typing import Any

from cronjob.lib import clock, duration, template
from tasks.models import ConcurrencyPolicy, ExecType, MisfirePolicy, ScheduleKind, Task, TaskStatus

# What a task made in this dialect is, where the job does not say.
DEFAULTS: dict[str, Any] = {
    "timeout_seconds": 10,
    "misfire_policy": MisfirePolicy.SKIP,
    "concurrency_policy": ConcurrencyPolicy.SKIP,
    "max_concurrency": 1,
}
RETRY: dict[str, Any] = {"max_retries": 3, "initial_delay": 5, "strategy": "fixed"}

UNITS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3,
    "s": 1, "m": 60, "h": 3600, "d": 86400,
}  # fmt: skip
LONGEST = 10**12
PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h|d)")


class BadJob(ValueError):
    """Something of a job that cannot be read."""


def seconds(text: Any) -> float:
    """A duration as Go writes it, such as "1m30s", "1.5h" or "300ms"."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        if abs(text) > LONGEST:
            raise BadJob(f"Must be at most {LONGEST} seconds.")
        return float(text)
    if isinstance(text, str) and text.strip() in ("0", ""):
        return 0.0
    parts = PART.findall(text) if isinstance(text, str) and len(text) < 64 else []
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise BadJob('Must be a duration such as "5m", "1m30s" or "500ms".')
    return round(sum(float(number) * UNITS[unit] for number, unit in parts), 6)


def whole(text: Any) -> int:
    found = seconds(text)
    if found != int(found):
        raise BadJob("Must be whole seconds.")
    return int(found)


def written(span: float) -> str:
    """Whole seconds as everywhere else, parts of one as a decimal."""
    full = int(span)
    if span == full:
        return duration.format(full)
    minutes = duration.format(full // 60 * 60) if full >= 60 else ""
    rest = f"{span - full // 60 * 60:.6f}".rstrip("0")
    return f"{minutes}{rest}s"


def job_of(task: Task) -> dict[str, Any]:
    """The job that this task is, as far as the dialect has words for it."""
    called = task.exec_type in (ExecType.SYNC, ExecType.ASYNC)
    return {
        "id": str(task.uuid),
        "name": task.name,
        "enabled": task.status == TaskStatus.ENABLED,
        "type": "http" if called else task.exec_type.lower(),
        "http": {
            "method": task.http_method,
            "url": verbatim(task.target_url),
            "headers": {name: verbatim(value) for name, value in task.headers.items()},
            "body": verbatim(task.body_template),
        },
        "schedule": schedule_of(task),
        "timeout": written(task.timeout_seconds),
        "max_retries": task.retry_policy["max_retries"],
        "retry_backoff": written(task.retry_policy["initial_delay"]),
    }


def schedule_of(task: Task) -> dict[str, Any]:
    match task.schedule_kind:
        case ScheduleKind.ONCE:
            return {"kind": "once", "run_at": clock.text(task.run_at)} | window(task)
        case ScheduleKind.EVERY:
            return {
                "kind": "every",
                "every": written(task.every_seconds or 0),
                "start_at": clock.text(task.start_at) or "",
                "jitter": written(task.jitter_seconds or 0),
            }
        case ScheduleKind.CRON:
            return {"kind": "cron", "cron": task.cron_expr} | window(task)
    return {"kind": "manual"}


def window(task: Task) -> dict[str, Any]:
    """What only `every` has in Ksana, where a task of another kind has it, too."""
    span = {"jitter": written(task.jitter_seconds)} if task.jitter_seconds else {}
    return ({"start_at": clock.text(task.start_at)} if task.start_at else {}) | span


def verbatim(source: str) -> str:
    """What is sent; a text with placeholders as it was written."""
    text = template.plain(source)
    return source if text is None else text


def merged(job: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The job with these parts of it changed; null takes a part away."""
    result = dict(job)
    for name, value in changes.items():
        before = result.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            other = name == "schedule" and value.get("kind", before["kind"]) != before["kind"]
            result[name] = merged({} if other else before, value)
        elif value is None and name in result:
            del result[name]
        else:
            result[name] = value
    return result


def new(job: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a task that is made by this job."""
    values = DEFAULTS | values_of(job)
    return values | {"retry_policy": RETRY | values.get("retry_policy", {})}


def values_of(job: Mapping[str, Any], *, current: Task | None = None) -> dict[str, Any]:
    """What a checked job says, as the columns of a task; only of the parts that it has."""
    values: dict[str, Any] = {}
    if "name" in job:
        values["name"] = job["name"]
    if "http" in job:
        values |= http_values(job["http"], current)
    if "schedule" in job:
        values |= schedule_values(job["schedule"], current)
    if "timeout" in job:
        values["timeout_seconds"] = job["timeout"]
    policy: dict[str, Any] = {}
    if "max_retries" in job:
        policy["max_retries"] = job["max_retries"]
    kept = current.retry_policy["initial_delay"] if current else None
    if "retry_backoff" in job and job["retry_backoff"] != kept:
        policy |= {"initial_delay": job["retry_backoff"], "strategy": "fixed"}
    if policy:
        values["retry_policy"] = policy
    return values


def http_values(http: Mapping[str, Any], current: Task | None) -> dict[str, Any]:
    """Texts are sent as they stand; one that is shown to us unchanged stays what it is."""
    texts = {"target_url": http.get("url", ""), "body_template": http.get("body", "")}
    headers = dict(http.get("headers", {}))
    if current is None:
        said = {name: template.literal(text) for name, text in texts.items()}
        headers = {name: template.literal(text) for name, text in headers.items()}
    else:
        masked = current.masked()
        said = {
            name: as_said(text, getattr(current, name), masked[name])
            for name, text in texts.items()
        }
        shown, known = masked["headers"], current.headers
        headers = {
            name: as_said(text, known.get(name, ""), shown.get(name, ""))
            for name, text in headers.items()
        }
    return {"http_method": http.get("method", "GET"), "headers": headers} | said


def as_said(text: str, current: str, masked: str) -> str:
    """What was shown to whoever sends it back stays what it is, placeholders and secrets alike."""
    return current if text in (verbatim(current), verbatim(masked)) else template.literal(text)


def schedule_values(schedule: Mapping[str, Any], current: Task | None) -> dict[str, Any]:
    if schedule["kind"] == "manual":
        return {"schedule_kind": "MANUAL"}
    values: dict[str, Any] = {
        "schedule_kind": schedule["kind"].upper(),
        "start_at": schedule.get("start_at"),
        "jitter_seconds": schedule.get("jitter") or None,
    }
    match schedule["kind"]:
        case "every":
            return values | {"every_seconds": schedule["every"]}
        case "cron":
            return values | {"cron_expr": schedule["cron"]}
    moved = current is None or current.run_at != schedule["run_at"]
    # The dialect has no word for an end: one that was set for another time would forbid this one.
    return values | {"run_at": schedule["run_at"]} | ({"end_at": None} if moved else {})
