"""An import: first what it would do, then all of it or nothing."""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction
from rest_framework import serializers

from cronjob.api.errors import flat
from runs import standing
from tasks import crontab, dialect, exchange, intake
from tasks.changes import Verb, note
from tasks.ksana import UUID as WELL_FORMED
from tasks.ksana import JobSerializer
from tasks.models import ScheduleKind, Task, TaskStatus
from tasks.rules import validate_zone
from tasks.serializers import TaskSerializer

CREATE, CHANGE, ADOPT, UNCHANGED, PRUNE = "create", "change", "adopt", "unchanged", "prune"

RAN = ("success", "failed", "timeout", "skipped")  # last_status of a job that had its moment


@dataclass(slots=True, kw_only=True)
class Entry:
    """One task of a file."""

    where: str
    values: dict[str, Any]  # of columns
    whole: bool  # what is left out takes its default; else it stays what it is
    job: dict[str, Any] | None = None  # if it came in Ksana's dialect
    status: str = TaskStatus.ENABLED  # of a new task; who disabled an old one had a reason
    uuid: UUID | None = None
    bundle: str = ""  # who owns it, if not the bundle it stands in
    over: bool = False  # its one moment has been seen to already


@dataclass(slots=True, kw_only=True)
class Source:
    """A file, understood as far as it goes by itself."""

    name: str  # for the change log
    bundle: str
    entries: list[Entry]
    errors: list[str]
    report: list[str]  # of what is no task


@dataclass(slots=True, kw_only=True)
class Step:
    action: str
    task: Task
    bundle: str = ""
    changed: list[str] = field(default_factory=list)
    passed: datetime | None = None  # the time of a once, if it is over


@dataclass(slots=True)
class Plan:
    steps: list[Step] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def count(self, action: str) -> int:
        return sum(step.action == action for step in self.steps)


# --- a file ---------------------------------------------------------------------------


SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".cron": "crontab", "": "crontab"}


def read(file: str, *, form: str | None, bundle: str, timezone: str, url_template: str) -> Source:
    """What a file says; it is only ever read."""
    path, text = Path(file), text_of(file)
    known = form or SUFFIXES.get(path.suffix)
    if known is None or (form is None and file == "-"):
        raise exchange.BadFile(f"Say which --format it has: {', '.join(exchange.FORMATS)}.")
    name = "standard input" if file == "-" else path.name
    owner = exchange.checked_name(bundle or ("" if file == "-" else path.stem[: exchange.NAME_MAX]))
    source = Source(name=name, bundle=owner, entries=[], errors=[], report=[])
    if known == "crontab":
        try:
            validate_zone(timezone)
            lines = crontab.read(text, timezone=timezone, url_template=url_template)
        except (ValidationError, ValueError) as error:
            raise exchange.BadFile(" ".join(getattr(error, "messages", [str(error)]))) from error
        source.report = [f"line {line.number}: {line.said}" for line in lines if line.said]
        source.entries = list(of_crontab(lines, source.errors))
        return source
    value = exchange.parsed(text, form="yaml" if known == "yaml" else "json")
    if known == "ksana" or (form is None and isinstance(value, dict) and "jobs" in value):
        source.entries = list(of_ksana(exchange.jobs_of(value), source.errors, source.report))
        return source
    found = exchange.bundle_of(value, name=source.bundle)
    source.bundle = bundle or found.name
    source.entries = list(of_bundle(found.tasks, source.errors))
    return source


def text_of(file: str) -> str:
    try:
        with open(0 if file == "-" else file, "rb") as opened:
            data = opened.read(exchange.BYTES_MAX + 1)
        if len(data) > exchange.BYTES_MAX:
            raise exchange.BadFile(f"{file} is larger than {exchange.BYTES_MAX // 2**20} MiB.")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise exchange.BadFile(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise exchange.BadFile(f"{file} is not UTF-8 text: {error}.") from error


def of_bundle(tasks: Iterable[Any], errors: list[str]) -> Iterator[Entry]:
    for number, said in enumerate(tasks):
        owner = ""
        if isinstance(said, dict) and "bundle" in said:
            said = dict(said)
            try:
                owner = exchange.checked_name(said.pop("bundle"))
            except exchange.BadFile as error:
                errors.append(f"tasks[{number}]: {error}")
        if values := checked(TaskSerializer, said, f"tasks[{number}]", errors):
            yield Entry(
                where=f"tasks[{number}] “{values['name']}”",
                status=values.pop("status", TaskStatus.ENABLED),
                values=values, whole=True, bundle=owner, over=said.get("ended") is True,
            )  # fmt: skip


def of_ksana(jobs: Iterable[Any], errors: list[str], report: list[str]) -> Iterator[Entry]:
    for number, said in enumerate(jobs):
        given = said.get("id") if isinstance(said, dict) else None
        known = isinstance(given, str) and WELL_FORMED.fullmatch(given)
        if isinstance(said, dict) and not known:
            said = {name: value for name, value in said.items() if name != "id"}
        if job := checked(JobSerializer, said, f"jobs[{number}]", errors):
            off = job.get("enabled") is False
            where = f"jobs[{number}] “{job['name']}”"
            if given and not known:
                report.append(f"{where}: “{str(given)[:64]}” is no UUID: a new id is given.")
            yield Entry(
                where=where, values=dialect.new(job), whole=False, job=job, over=has_run(said),
                status=TaskStatus.DISABLED if off else TaskStatus.ENABLED,
                uuid=UUID(given) if known else None,
            )  # fmt: skip


def has_run(job: dict[str, Any]) -> bool:
    """Whether it was called, as far as its system fields say; one that was missed was not."""
    return bool(job.get("last_run_at")) or job.get("last_status") in RAN


def of_crontab(lines: Iterable[crontab.Line], errors: list[str]) -> Iterator[Entry]:
    for line in lines:
        if line.task is not None and (
            values := checked(TaskSerializer, line.task, f"line {line.number}", errors)
        ):
            values.pop("status", None)
            yield Entry(where=f"line {line.number}", values=values, whole=False)


def checked(form: Any, said: Any, where: str, errors: list[str]) -> dict[str, Any]:
    """The values of one entry; what is wrong with it goes to the errors."""
    if not isinstance(said, dict):
        errors.append(f"{where}: must be an object.")
        return {}
    name = f"{where} “{said['name']}”" if isinstance(said.get("name"), str) else where
    serializer = form(data=said)
    try:
        serializer.is_valid(raise_exception=True)
    except serializers.ValidationError as error:
        for at, problems in flat(error.detail).items():
            errors += [f"{name}: {at}: {problem}" for problem in problems]
        return {}
    return dict(serializer.validated_data)


# --- what it would do ---------------------------------------------------------------------------


def plan(source: Source, *, prune: bool, now: datetime, hold: bool) -> Plan:
    """Nothing is written; every error of every entry is found. `hold`: it will be applied."""
    bundle = source.bundle
    if prune and not bundle:
        raise exchange.BadFile("Say whose tasks to prune: --bundle NAME.")
    made = Plan(errors=list(source.errors))
    live = Task.objects.live().order_by("pk")
    there = {task.name: task for task in (live.select_for_update() if hold else live)}
    named: dict[str, str] = {}
    ids: set[UUID] = set()
    for entry in source.entries:
        name = str(entry.values["name"]).strip()
        if first := named.get(name):
            made.errors.append(f"{entry.where}: the name is taken by {first}.")
            continue
        named[name] = entry.where
        if entry.uuid in ids:
            made.errors.append(f"{entry.where}: the id is there twice.")
            continue
        ids |= {entry.uuid} if entry.uuid else set()
        try:
            owner = entry.bundle or bundle
            made.steps.append(step_of(entry, there.get(name), bundle=owner, now=now))
        except ValidationError as error:
            for at, problems in error.message_dict.items():
                made.errors += [f"{entry.where}: {at}: {problem}" for problem in problems]
    if prune:
        gone = (task for name, task in there.items() if task.bundle == bundle and name not in named)
        made.steps += [Step(action=PRUNE, task=task) for task in gone]
    return made


def step_of(entry: Entry, task: Task | None, *, bundle: str, now: datetime) -> Step:
    if task is None:
        task = new(entry, bundle=bundle)
        intake.check(task, now=now, rescheduled=False, elsewhere=True)
        once = task.run_at if task.schedule_kind == ScheduleKind.ONCE else None
        passed = once if once and once <= now and not entry.over else None
        return Step(action=CREATE, task=task, bundle=bundle, passed=passed)
    if task.bundle not in ("", bundle):
        raise ValidationError({"name": [f"The bundle “{task.bundle}” owns this task."]})
    before = copy(task)
    values = dialect.values_of(entry.job, current=task) if entry.job else entry.values
    said = intake.scheduled(values, current=None if entry.whole else task)
    said |= intake.unmasked(said, task)
    for name, value in (intake.defaults() | said if entry.whole else said).items():
        setattr(task, name, value)
    moved = task.run_at != before.run_at
    intake.check(task, now=now, rescheduled=moved, elsewhere=True)
    changed = [n for n in standing.EDITABLE if getattr(task, n) != getattr(before, n)]
    same = ADOPT if task.bundle != bundle else UNCHANGED
    return Step(action=CHANGE if changed else same, task=task, bundle=bundle, changed=changed)


def new(entry: Entry, *, bundle: str) -> Task:
    task = Task(**intake.scheduled(entry.values, current=None))
    task.status, task.bundle = entry.status, bundle
    if entry.uuid is not None and not Task.objects.filter(uuid=entry.uuid).exists():
        task.uuid = entry.uuid
    return task


# --- doing it -----------------------------------------------------------------------------------


@transaction.atomic
def apply(made: Plan, *, by: str, now: datetime) -> None:
    """All of the plan; the caller's transaction has held its tasks since it was made."""
    adopted = {step.task.pk for step in made.steps if step.action in (CHANGE, ADOPT)}
    owners = dict(Task.objects.filter(pk__in=adopted).values_list("pk", "bundle"))
    for step in made.steps:
        match step.action:
            case "create":
                standing.create(step.task, now=now, by=by)
                if step.passed and step.task.status == TaskStatus.ENABLED:
                    standing.miss(step.task, step.passed, now=now)
            case "change":
                standing.edit(step.task, now=now, by=by)
            case "prune":
                standing.delete(step.task, now=now, by=by)
        if owners.get(step.task.pk, step.bundle) != step.bundle:
            Task.objects.filter(pk=step.task.pk).update(bundle=step.bundle)
            note(step.task, Verb.EDIT, by=by, now=now, reason=f"owned by bundle {step.bundle}")
