"""What is to be called, when, and what happens if it goes wrong."""

import uuid
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connection, models
from django.db.models import Case, CheckConstraint, F, Func, Index, Q, When

from cronjob.lib import duration, masking
from cronjob.lib.fields import one_of, present_iff
from cronjob.lib.instances import columns, instances
from tasks import cron, rules, words
from tasks.schedule import INSTANT, LATEST, Schedule


class ScheduleKind(models.TextChoices):
    CRON = "CRON", "Cron expression"
    EVERY = "EVERY", "Fixed interval"
    ONCE = "ONCE", "Once"
    MANUAL = "MANUAL", "Only when triggered"


class ExecType(models.TextChoices):
    SYNC = "SYNC", "Call, the answer ends the run"
    ASYNC = "ASYNC", "Call, a callback ends the run"
    JOB = "JOB", "Put a job in the queue"
    NODE = "NODE", "Push to a connected node"


class HttpMethod(models.TextChoices):
    GET = "GET", "GET"
    POST = "POST", "POST"
    PUT = "PUT", "PUT"
    PATCH = "PATCH", "PATCH"
    DELETE = "DELETE", "DELETE"
    HEAD = "HEAD", "HEAD"
    OPTIONS = "OPTIONS", "OPTIONS"


class CallbackMethod(models.TextChoices):
    POST = "POST", "POST"
    PUT = "PUT", "PUT"
    PATCH = "PATCH", "PATCH"


class ConcurrencyPolicy(models.TextChoices):
    QUEUE = "QUEUE", "Queue: wait for a free slot"
    SKIP = "SKIP", "Skip: record it and go on"
    PARALLEL = "PARALLEL", "Parallel: ignore the limit"


class MisfirePolicy(models.TextChoices):
    FIRE_NOW = "FIRE_NOW", "Run the newest missed moment now"
    SKIP = "SKIP", "Only record what was missed"
    CATCH_UP_LIMITED = "CATCH_UP_LIMITED", "Catch up, to a limit"


class OnLost(models.TextChoices):
    RETRY = "RETRY", "Call again (at least once)"
    FAIL = "FAIL", "Record a failure (at most once)"


class Priority(models.IntegerChoices):
    """Smaller is claimed first, so that one ascending index serves the claim."""

    URGENT = 0, "Urgent"
    HIGH = 1, "High"
    NORMAL = 2, "Normal"
    LOW = 3, "Low"


class TaskStatus(models.TextChoices):
    ENABLED = "ENABLED", "Enabled"
    DISABLED = "DISABLED", "Disabled"


# A change of one of these moves the cursor; a change of anything else leaves it where it is.
SCHEDULE_FIELDS = (
    "schedule_kind", "cron_expr", "every_seconds", "run_at",
    "start_at", "end_at", "jitter_seconds", "timezone",
)  # fmt: skip

MOST = MaxValueValidator(2**31 - 1)  # what every database keeps as a whole number

# The field that says when, for each kind that needs one.
MOMENT_FIELD = {"CRON": "cron_expr", "EVERY": "every_seconds", "ONCE": "run_at"}
EXAMPLES = {"CRON": "*/5 * * * *", "EVERY": "5m", "ONCE": "2030-01-01T12:00:00Z"}


def default_timezone() -> str:
    return settings.CRONJOB_TIME_ZONE


def default_connect_timeout() -> float:
    return settings.CRONJOB_CONNECT_TIMEOUT_SECONDS


def default_timeout() -> float:
    return settings.CRONJOB_REQUEST_TIMEOUT_SECONDS


def default_retry_policy() -> dict[str, Any]:
    return rules.RETRY_DEFAULTS | {"max_retries": settings.CRONJOB_DEFAULT_MAX_RETRIES}


class HasTag(Func):
    """SQLite cannot look into a JSON list by an operator, so it unnests the list."""

    template = "EXISTS (SELECT 1 FROM json_each(%(expressions)s)"
    arg_joiner = ") WHERE value = "
    output_field = models.BooleanField()


class TaskQuerySet(models.QuerySet["Task"]):
    def live(self) -> "TaskQuerySet":
        return self.filter(deleted=False)

    def some_of(self, pk: int, *names: str, lock: bool = False) -> "Task | None":
        """These fields of a task, in plain SQL; with a lock nobody changes it meanwhile."""
        asked = f"SELECT {columns(self.model, names)} FROM tasks WHERE id = %s"
        with connection.cursor() as cursor:
            locks = lock and connection.vendor == "postgresql"
            cursor.execute(f"{asked} FOR UPDATE" if locks else asked, [pk])
            return next(iter(instances(self.model, names, cursor.fetchall())), None)

    def tagged(self, tag: str) -> "TaskQuerySet":
        if connection.features.supports_json_field_contains:
            return self.filter(tags__contains=[tag])
        return self.filter(HasTag(F("tags"), models.Value(tag)))


class Task(models.Model):
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(max_length=128, help_text="How people and logs call it.")
    description = models.CharField(max_length=512, blank=True)
    tags = models.JSONField(default=list, blank=True)

    # When
    schedule_kind = models.CharField("schedule", max_length=8, choices=ScheduleKind)
    cron_expr = models.CharField("cron expression", max_length=256, null=True, blank=True)  # noqa: DJ001  null: no such schedule
    every_seconds = models.PositiveIntegerField("every", null=True, blank=True, validators=[MOST])
    run_at = models.DateTimeField(null=True, blank=True)
    anchor = models.DateTimeField(null=True, editable=False)  # what the grid of EVERY counts from
    start_at = models.DateTimeField(null=True, blank=True)
    end_at = models.DateTimeField(null=True, blank=True)
    jitter_seconds = models.PositiveIntegerField("jitter", null=True, blank=True, validators=[MOST])
    timezone = models.CharField(
        "time zone", max_length=64, default=default_timezone, validators=[rules.validate_zone]
    )

    # What
    exec_type = models.CharField("execution", max_length=8, choices=ExecType, default=ExecType.SYNC)
    http_method = models.CharField(
        "method", max_length=8, choices=HttpMethod, default=HttpMethod.GET
    )
    target_url = models.CharField("URL", max_length=2048, blank=True)
    headers = models.JSONField(default=dict, blank=True, db_column="headers_json")
    body_template = models.TextField("body", blank=True)
    connect_timeout_seconds = models.FloatField(
        "connect timeout",
        default=default_connect_timeout,
        validators=[MinValueValidator(0.1), MaxValueValidator(86400)],
    )
    timeout_seconds = models.FloatField(
        "total timeout",
        default=default_timeout,
        validators=[MinValueValidator(0.1), MaxValueValidator(86400)],
    )
    follow_redirects = models.BooleanField(default=False)
    secret_headers = models.JSONField(default=list, blank=True)
    secret_paths = models.JSONField(default=list, blank=True)
    work = models.JSONField(null=True, blank=True)

    # If it overlaps, is late or fails
    retry_policy = models.JSONField(
        default=default_retry_policy, blank=True, db_column="retry_policy_json"
    )
    max_concurrency = models.PositiveIntegerField(default=1, validators=[MaxValueValidator(1000)])
    concurrency_policy = models.CharField(
        "overlap", max_length=8, choices=ConcurrencyPolicy, default=ConcurrencyPolicy.QUEUE
    )
    misfire_policy = models.CharField(
        "when missed", max_length=16, choices=MisfirePolicy, default=MisfirePolicy.FIRE_NOW
    )
    misfire_grace_seconds = models.PositiveIntegerField("grace", default=60, validators=[MOST])
    catchup_limit = models.PositiveIntegerField(default=5, validators=[MaxValueValidator(1000)])
    start_deadline_seconds = models.PositiveIntegerField(
        "start deadline", null=True, blank=True, validators=[MinValueValidator(1), MOST]
    )
    on_lost = models.CharField("when lost", max_length=8, choices=OnLost, default=OnLost.RETRY)
    priority = models.PositiveSmallIntegerField(choices=Priority, default=Priority.NORMAL)

    # Asynchronous
    callback_method = models.CharField(
        max_length=8, choices=CallbackMethod, default=CallbackMethod.POST
    )
    callback_timeout_sec = models.PositiveIntegerField(
        "callback timeout", default=300, validators=[MinValueValidator(1), MOST]
    )

    # Where it stands
    status = models.CharField(max_length=8, choices=TaskStatus, default=TaskStatus.ENABLED)
    disabled_reason = models.CharField(max_length=256, blank=True, editable=False)
    version = models.PositiveIntegerField(default=1, editable=False)
    bundle = models.CharField(max_length=64, blank=True, editable=False)  # which import owns it
    ended = models.BooleanField(default=False, editable=False)
    next_moment = models.DateTimeField(null=True, editable=False)  # nominal
    next_run_at = models.DateTimeField(null=True, editable=False)  # the moment and its jitter
    deleted = models.BooleanField(default=False, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    # The name while the task lives: a nullable column, so that any database can keep it unique.
    live_name = models.GeneratedField(
        expression=Case(When(deleted=False, then=F("name"))),
        output_field=models.CharField(max_length=128, null=True),
        db_persist=True,
        unique=True,
    )

    objects = TaskQuerySet.as_manager()

    class Meta:
        db_table = "tasks"
        permissions = (("operate_task", "Can run, enable, disable and pause tasks"),)
        constraints = (
            one_of("schedule_kind", ScheduleKind.values, name="task_schedule_kind"),
            one_of("exec_type", ExecType.values, name="task_exec_type"),
            one_of("http_method", HttpMethod.values, name="task_http_method"),
            one_of("callback_method", CallbackMethod.values, name="task_callback_method"),
            one_of("concurrency_policy", ConcurrencyPolicy.values, name="task_concurrency_policy"),
            one_of("misfire_policy", MisfirePolicy.values, name="task_misfire_policy"),
            one_of("on_lost", OnLost.values, name="task_on_lost"),
            one_of("priority", Priority.values, name="task_priority"),
            one_of("status", TaskStatus.values, name="task_status"),
            present_iff(Q(schedule_kind="CRON"), "cron_expr", name="task_cron_has_expr"),
            present_iff(Q(schedule_kind="EVERY"), "every_seconds", name="task_every_has_seconds"),
            CheckConstraint(
                condition=~Q(schedule_kind="EVERY") | Q(anchor__isnull=False),
                name="task_every_has_anchor",
            ),
            present_iff(Q(schedule_kind="ONCE"), "run_at", name="task_once_has_run_at"),
            CheckConstraint(
                condition=Q(end_at=None) | Q(start_at=None) | Q(end_at__gt=F("start_at")),
                name="task_window",
            ),
            CheckConstraint(
                condition=Q(next_run_at=None) | Q(next_moment__isnull=False),
                name="task_next_has_moment",
            ),
        )
        indexes = (
            # the poll of every scheduler, one range scan at any size
            Index(
                fields=("next_run_at", "id"),
                condition=Q(status="ENABLED", deleted=False, next_run_at__isnull=False),
                name="task_due",
            ),
            # tasks that a pause holds: they have a moment that does not fire
            Index(
                fields=("id",),
                condition=Q(next_run_at=None, next_moment__isnull=False),
                name="task_held",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def masked(self, *also: "Task") -> dict[str, Any]:
        """The fields that may hold secrets, as somebody sees them who may not change the task."""
        names = [name for task in (self, *also) for name in task.secret_headers]
        paths = [path for task in (self, *also) for path in task.secret_paths]
        return {
            "target_url": masking.url(self.target_url),
            "headers": masking.headers(self.headers, also=names),
            "body_template": masking.body(self.body_template, paths=paths),
        }

    def schedule(self) -> Schedule:
        """When it is due, apart from the database."""
        every = self.every_seconds
        return Schedule(
            zone=ZoneInfo(self.timezone),
            cron=cron.parse(self.cron_expr) if self.cron_expr else None,
            every=timedelta(seconds=every) if every else None,
            anchor=self.anchor,
            once=self.run_at,
            start_at=self.start_at,
            end_at=self.end_at,
            jitter=timedelta(seconds=self.jitter_seconds or 0),
            key=self.uuid.bytes,
        )

    def schedule_in_words(self) -> str:
        if self.jitter_seconds:
            return f"{self.moments_in_words()}, spread over {duration.format(self.jitter_seconds)}"
        return self.moments_in_words()

    def moments_in_words(self) -> str:
        match self.schedule_kind:
            case ScheduleKind.CRON:
                return f"{words.describe(self.cron_expr or '')} ({self.timezone})"
            case ScheduleKind.EVERY:
                return f"Every {duration.format(self.every_seconds or 0)}"
            case ScheduleKind.ONCE:
                return f"Once, at {self.run_at:%Y-%m-%d %H:%M:%S} UTC"
        return "Only when triggered"

    @property
    def priority_name(self) -> str:
        return Priority(self.priority).name

    @property
    def given_up(self) -> str:
        """Why its runs are not tried again, if they are not."""
        disabled = "disabled" if self.status == TaskStatus.DISABLED else ""
        return "deleted" if self.deleted else disabled

    def set_anchor(self, *, now: datetime) -> None:
        """The grid of EVERY goes through start_at, or else through the second it was made in."""
        if self.schedule_kind == ScheduleKind.EVERY and (self.start_at or self.anchor is None):
            self.anchor = self.start_at or now.replace(microsecond=0)

    def rearm(self, *, now: datetime, pending: datetime | None = None) -> None:
        """Point at the first moment from now on; a disabled task points at none.

        The one that was `pending` may have come already and wait for its share of the jitter.
        """
        schedule = self.schedule()
        moment = schedule.next_after(now)
        if pending and pending <= now and (held := schedule.next_after(pending - INSTANT)):
            moment = held if schedule.fires_at(held) > now else moment
        self.ended = moment is None and self.schedule_kind != ScheduleKind.MANUAL
        self.point_at(moment if self.status == TaskStatus.ENABLED else None, schedule)

    def point_at(self, moment: datetime | None, schedule: Schedule) -> None:
        self.next_moment = moment
        self.next_run_at = schedule.fires_at(moment) if moment else None

    def clean(self) -> None:
        """Everything about one task that can be judged without knowing the time."""
        problems: dict[str, list[str]] = {}
        for field, check in rules.CHECKS.items():
            try:
                setattr(self, field, check(getattr(self, field)))
            except ValueError as error:
                problems[field] = [str(error)]
        for field, problem in (*self.schedule_problems(), *self.work_problems()):
            problems.setdefault(field, []).append(problem)
        if problems:
            raise ValidationError(problems)

    def schedule_problems(self) -> list[tuple[str, str]]:
        given = [kind for kind, field in MOMENT_FIELD.items() if getattr(self, field) is not None]
        wanted = [] if self.schedule_kind == ScheduleKind.MANUAL else [self.schedule_kind]
        found = []
        if len(given) > 1 or (given and not wanted):
            names = [rules.PUBLIC.get(MOMENT_FIELD[k], MOMENT_FIELD[k]) for k in given]
            both = " and ".join(names) if wanted else f"{' and '.join(names)} with MANUAL"
            found.append((MOMENT_FIELD[given[0]], f"One schedule only, not {both}."))
        elif given != wanted and self.schedule_kind in MOMENT_FIELD:
            example = EXAMPLES[self.schedule_kind]
            problem = f"{self.schedule_kind} needs it, such as {example}."
            found.append((MOMENT_FIELD[self.schedule_kind], problem))
        if self.start_at and self.end_at and self.end_at <= self.start_at:
            found.append(("end_at", "Must be after start_at."))
        elif any(at and at > LATEST for at in (self.run_at, self.start_at)):
            field = "run_at" if self.run_at else "start_at"
            found.append((field, f"Must not be after {LATEST:%Y-%m-%d}."))
        elif self.run_at and self.schedule_kind == ScheduleKind.ONCE:
            if self.run_at < (self.start_at or self.run_at):
                found.append(("run_at", "Must not be before start_at."))
            if self.run_at > (self.end_at or self.run_at):
                found.append(("run_at", "Must not be after end_at."))
        return found

    def work_problems(self) -> list[tuple[str, str]]:
        found = []
        if self.exec_type in (ExecType.SYNC, ExecType.ASYNC) and not self.target_url:
            found.append(("target_url", "SYNC and ASYNC tasks need it."))
        try:
            self.work = rules.check_work(self.work, exec_type=self.exec_type)
        except ValueError as error:
            found.append(("work", str(error)))
        return found

    def check_moment(self, *, now: datetime) -> None:
        """A ONCE task must still be ahead of us when it is created or rescheduled."""
        if self.schedule_kind == ScheduleKind.ONCE and self.run_at and self.run_at <= now:
            raise ValidationError({"run_at": ["Must be in the future."]})


from tasks.changes import Change  # noqa: E402, F401  a model of this app, too
