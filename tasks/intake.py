"""What somebody says about a task becomes what its columns hold: the same for every edge."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError

from cronjob.lib import masking
from tasks import models
from tasks.models import MOMENT_FIELD, ExecType, Task
from tasks.rules import PUBLIC


def check(task: Task, *, now: datetime, rescheduled: bool = True, elsewhere: bool = False) -> None:
    """Judge the task as a whole; the problems bear the names that clients know.

    `elsewhere`: what is called and called back is not this process with its settings.
    """
    try:
        task.full_clean(exclude=hidden(), validate_unique=False, validate_constraints=False)
        if not elsewhere and (problem := out_of_reach(task.exec_type)):
            raise ValidationError({"exec_type": [problem]})
        if rescheduled:
            task.check_moment(now=now)
        if left := still_masked(task):
            raise ValidationError(left)
    except ValidationError as error:
        told = error.message_dict if hasattr(error, "error_dict") else {"body": error.messages}
        raise ValidationError(
            {PUBLIC.get(name, name): text for name, text in told.items()}
        ) from error


def out_of_reach(exec_type: str) -> str:
    """Why no callback would find its way, if so."""
    if exec_type != ExecType.ASYNC or settings.CRONJOB_BASE_URL:
        return ""
    return "ASYNC needs CRONJOB_BASE_URL to be set, so that callbacks find their way."


def hidden() -> set[str]:
    return {field.name for field in Task._meta.fields if not field.editable}


def defaults() -> dict[str, Any]:
    """What a task holds in every field that a client may leave out."""
    kept = hidden() | {"id", "name", "status", "schedule_kind"}
    return {f.name: f.get_default() for f in Task._meta.fields if f.name not in kept}


def merged(values: Mapping[str, Any], *, current: Task | None) -> dict[str, Any]:
    """The values of columns, with the parts of nested objects that were left out."""
    values = {name: value for name, value in values.items() if name not in ("status", "version")}
    if isinstance(policy := values.get("retry_policy"), dict):
        values["retry_policy"] = (
            current.retry_policy if current else models.default_retry_policy()
        ) | policy
    if isinstance(work := values.get("work"), dict):
        same = current and values.get("exec_type", current.exec_type) == current.exec_type
        whole = ((current.work if current and same else None) or {}) | work
        values["work"] = {name: part for name, part in whole.items() if part is not None}
    return values


def scheduled(values: Mapping[str, Any], *, current: Task | None) -> dict[str, Any]:
    """The values with exactly one schedule, whichever way it was said; `current` may keep its."""
    values = merged(values, current=current)
    kind = values.get("schedule_kind")
    given = [k for k, field in MOMENT_FIELD.items() if values.get(field) is not None]
    if len(given) > 1 or (given and kind not in (None, given[0])):
        both = [public(k) for k in given]
        clash = " and ".join(both) if len(both) > 1 else f"{both[0]} with {kind}"
        problems = {name: [f"One schedule only, not {clash}."] for name in both}
        raise ValidationError(problems)
    if given:
        kind = given[0]
    elif kind is None and current is None:
        problem = "Give one of cron_expr, every or run_at, or MANUAL here."
        raise ValidationError({"schedule_kind": [problem]})
    elif kind is None or (current is not None and kind == current.schedule_kind):
        return values  # the schedule stays; a null for the field it needs is found by clean()
    return (
        values
        | {field: values.get(field) for field in MOMENT_FIELD.values()}
        | {"schedule_kind": kind}
    )


def unmasked(values: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """What comes back masked, as somebody read it who may not see it, stays what it is.

    Not if the task is to call somebody else: those secrets were not meant for them.
    """
    to = values.get("target_url", task.target_url)
    if masking.origin(to) != masking.origin(task.target_url):
        return {}
    found = {
        name: getattr(task, name)
        for name, shown in task.masked().items()
        if values.get(name) == shown
    }
    if isinstance(headers := values.get("headers"), dict):
        kept = {name.lower(): value for name, value in task.headers.items()}
        found["headers"] = {
            name: kept.get(name.lower(), value) if value == masking.MASK else value
            for name, value in headers.items()
        }
    if "target_url" not in found and isinstance(url := values.get("target_url"), str):
        found["target_url"] = masking.url_unmasked(url, task.target_url)
    if "body_template" not in found and isinstance(body := values.get("body_template"), str):
        found["body_template"] = masking.body_unmasked(body, task.body_template)
    return found


def secrets_kept(values: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """What an earlier version does not undo: what is secret now, and that it is."""
    shown = task.masked()["headers"]
    secret = {name: value for name, value in task.headers.items() if value != shown[name]}
    names = {name.lower() for name in secret}
    others = {n: v for n, v in values.get("headers", {}).items() if n.lower() not in names}
    return {
        "headers": others | secret,
        "secret_headers": list(dict.fromkeys([*values["secret_headers"], *task.secret_headers])),
        "secret_paths": list(dict.fromkeys([*values["secret_paths"], *task.secret_paths])),
    }


def still_masked(task: Task) -> dict[str, list[str]]:
    """Secrets that nobody can know: what was shown instead of them is not one."""
    problem = [f"{masking.MASK} is what is shown of a secret; give the secret itself."]
    secret = {
        "headers": masking.MASK in task.headers.values(),
        "target_url": masking.MASK in task.target_url,
        "body_template": bool(task.secret_paths) and masking.MASK in task.body_template,
    }
    return {name: problem for name, found in secret.items() if found}


def public(kind: str) -> str:
    return PUBLIC.get(MOMENT_FIELD[kind], MOMENT_FIELD[kind])
