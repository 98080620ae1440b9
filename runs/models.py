"""What became of each moment of each task, and which processes are alive to see to it."""

import uuid
from collections.abc import Iterable
from datetime import datetime

from django.db import connection, models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from cronjob.lib.fields import one_of, present_iff
from cronjob.lib.instances import columns, instances, listed
from cronjob.lib.rows import set_one
from runs.states import (
    FINAL,
    OCCUPYING,
    TRANSITIONS,
    UNPLANNED,
    WAITING,
    ErrorKind,
    IllegalTransition,
    Status,
    Trigger,
)
from tasks.models import Priority, Task

LOOK_BACK = 100  # runs of a task, for one that was called
# As run_of_task knows them, one task after another.
NEWEST = """WITH newest AS MATERIALIZED (
    SELECT (SELECT id FROM {} ORDER BY task_id, id DESC LIMIT 1) AS id
    FROM tasks WHERE tasks.id IN ({}))
    SELECT {} FROM newest JOIN task_runs ON task_runs.id = newest.id"""
NEWEST_NEEDS = (
    "id", "task", "status", "reason", "scheduled_time", "start_time", "end_time", "error_message",
)  # fmt: skip  # never the bodies
# From one end of run_of_task each. Were it asked for an equal task, PostgreSQL would rather go
# through all runs by their id, where most runs are of a few tasks.
OF_TASK = "task_runs WHERE task_id BETWEEN tasks.id AND tasks.id"
ENDED = f"{OF_TASK} AND end_time IS NOT NULL"
BEGUN = f"""(SELECT id, task_id, start_time FROM {OF_TASK} ORDER BY task_id, id DESC
    LIMIT {LOOK_BACK}) latest WHERE start_time IS NOT NULL"""


class TaskRunQuerySet(models.QuerySet["TaskRun"]):
    def waiting(self) -> "TaskRunQuerySet":
        """Nothing of these is under way: they can be taken back without anybody noticing."""
        return self.filter(status__in=WAITING, end_time=None)  # as run_open_of_task knows them

    def parked(self) -> "TaskRunQuerySet":
        """What waits for a slot of its task, or for a pause to end: as run_parked knows it."""
        return self.filter(end_time=None, ready_at=None, deadline_at=None, callback_deadline=None)

    def begun_of(self, tasks: "Iterable[Task]") -> "dict[int, TaskRun]":
        """The last run of each task that was called, unless very many were not since then."""
        return self.newest_of(tasks, BEGUN)

    def ended_of(self, tasks: "Iterable[Task]") -> "dict[int, TaskRun]":
        return self.newest_of(tasks, ENDED)

    def newest_of(self, tasks: Iterable[Task], among: str = OF_TASK) -> "dict[int, TaskRun]":
        """The newest run of each task, in one query for a whole page of them."""
        ids = listed(task.pk for task in tasks)
        with connection.cursor() as cursor:
            cursor.execute(NEWEST.format(among, ids, columns(self.model, NEWEST_NEEDS)))
            runs = instances(self.model, NEWEST_NEEDS, cursor.fetchall())
        return {run.task_id: run for run in runs}

    def cancel_waiting(self, *, reason: str, now: datetime) -> int:
        """Take back what has not started: `transition` to CANCELED for many runs at once."""
        return self.waiting().update(
            status=Status.CANCELED,
            reason=reason,
            end_time=now,
            ready_at=None,
            next_retry_time=None,
            slot=None,
            template=None,
            updated_at=now,
        )


class TaskRun(models.Model):
    """One moment of a task, or one request to run it, and what became of it."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    task = models.ForeignKey(Task, models.PROTECT, related_name="runs", db_index=False)
    trigger = models.CharField(max_length=8, choices=Trigger, default=Trigger.SCHEDULE)
    status = models.CharField(max_length=16, choices=Status, default=Status.SCHEDULED)
    reason = models.CharField(max_length=256, blank=True)
    attempt = models.PositiveIntegerField(default=0)  # 1 is the first; may be refunded
    max_attempts = models.PositiveIntegerField(default=1)
    lost = models.PositiveIntegerField(default=0)  # attempts whose process died: not a retry
    fence = models.PositiveIntegerField(default=0)  # grows with every claim and never shrinks
    priority = models.PositiveSmallIntegerField(choices=Priority, default=Priority.NORMAL)

    # When
    moment = models.DateTimeField(null=True)  # the planned time, as the unique key knows it
    scheduled_time = models.DateTimeField()
    due_at = models.DateTimeField()  # the moment and its jitter: what lateness counts from
    # Not to be claimed earlier; null while there is nothing to claim: under way, over, or parked
    # until a slot of its task is free or a pause ends.
    ready_at = models.DateTimeField(null=True)
    next_retry_time = models.DateTimeField(null=True)
    start_time = models.DateTimeField(null=True)  # of the current attempt
    lateness_ms = models.PositiveBigIntegerField(null=True)  # of the first attempt
    end_time = models.DateTimeField(null=True)
    missed_from = models.DateTimeField(null=True)
    missed_to = models.DateTimeField(null=True)
    missed_count = models.PositiveBigIntegerField(null=True)

    # Who has it, and until when
    owner = models.CharField(max_length=128, null=True)  # noqa: DJ001  null: no process has it
    slot = models.PositiveIntegerField(null=True)  # 1…max_concurrency while it occupies one
    deadline_at = models.DateTimeField(null=True)
    callback_deadline = models.DateTimeField(null=True)

    # What was asked for, sent and received
    override_body = models.TextField(null=True)  # noqa: DJ001  null: the task's own body
    force_async = models.BooleanField(default=False)
    request_key = models.CharField(max_length=255, null=True)  # noqa: DJ001  null: no Idempotency-Key
    request_hash = models.CharField(max_length=64, blank=True)
    template = models.JSONField(null=True)  # method, URL, headers, body as of the first claim
    request_method = models.CharField(max_length=8, blank=True)
    request_url = models.TextField(blank=True)
    request_headers = models.JSONField(default=dict)
    request_body = models.TextField(blank=True)
    response_code = models.PositiveSmallIntegerField(null=True)
    response_headers = models.JSONField(default=dict)
    response_body = models.TextField(blank=True)
    response_truncated = models.BooleanField(default=False)
    error_kind = models.CharField(max_length=16, choices=ErrorKind, default="", blank=True)
    error_message = models.CharField(max_length=1024, blank=True)
    timings = models.JSONField(default=dict)
    attempts = models.JSONField(default=list)  # one compact entry per earlier attempt
    progress = models.FloatField(null=True)  # from 0 to 1, as the target of this attempt tells it
    progress_message = models.CharField(max_length=256, blank=True)
    trace_id = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = TaskRunQuerySet.as_manager()

    class Meta:
        db_table = "task_runs"
        verbose_name = "run"
        permissions = (("operate_taskrun", "Can cancel and replay runs"),)
        constraints = (
            # materialise may run on any number of hosts; a moment is still one run
            UniqueConstraint(fields=("task", "moment"), name="run_once_per_moment"),
            # claims may race; a task still has no more runs under way than it has slots. The
            # condition changes nothing but the cost of every write: nulls are never equal.
            UniqueConstraint(
                fields=("task", "slot"), condition=Q(slot__isnull=False), name="run_once_per_slot"
            ),
            # a trigger may be sent twice
            UniqueConstraint(
                fields=("task", "request_key"),
                condition=Q(request_key__isnull=False),
                name="run_once_per_request",
            ),
            one_of("status", Status.values, name="run_status"),
            one_of("trigger", Trigger.values, name="run_trigger"),
            one_of("error_kind", ErrorKind.values, name="run_error_kind"),
            one_of("priority", Priority.values, name="run_priority"),
            present_iff(Q(status__in=FINAL), "end_time", name="run_final_iff_ended"),
            # no state is for ever: whoever is waited for has a deadline that somebody sweeps
            present_iff(Q(status=Status.RUNNING), "deadline_at", name="run_running_has_deadline"),
            present_iff(
                Q(status=Status.CALLBACK_PENDING),
                "callback_deadline",
                name="run_pending_has_deadline",
            ),
            present_iff(~Q(trigger__in=UNPLANNED), "moment", name="run_planned_has_moment"),
            # a trigger under SKIP takes its slot before anybody claims the run
            CheckConstraint(
                condition=Q(slot=None)
                | Q(status__in=OCCUPYING)
                | Q(status=Status.SCHEDULED, trigger__in=UNPLANNED),
                name="run_slot_only_occupying",
            ),
            # what was called once is no longer merely scheduled: it could be skipped or missed
            CheckConstraint(
                condition=~Q(status=Status.SCHEDULED) | Q(attempt=0, owner=None),
                name="run_scheduled_is_untouched",
            ),
            CheckConstraint(
                condition=Q(ready_at=None) | Q(status__in=WAITING), name="run_ready_only_waiting"
            ),
            present_iff(
                Q(status=Status.RETRYING), "next_retry_time", name="run_retrying_says_when"
            ),
            CheckConstraint(
                condition=Q(missed_from=None, missed_to=None, missed_count=None)
                | Q(
                    status__in=(Status.MISSED, Status.SKIPPED),
                    missed_from__isnull=False,
                    missed_to__isnull=False,
                    missed_count__gte=1,
                ),
                name="run_missed_is_whole",
            ),
        )
        # Conditions ask whether a column is null, never which status a run has: a status comes as
        # a parameter, and that proves nothing to the planner of SQLite.
        indexes = (
            # what the claim polls, first tries and retries alike
            Index(
                fields=("priority", "ready_at", "id"),
                condition=Q(ready_at__isnull=False),
                name="run_ready",
            ),
            # rescue, reconcile: what is being called, by the time when it should have come back.
            # One index for one set of rows: of two, the planner would leave one to rot.
            Index(
                fields=("deadline_at",), condition=Q(deadline_at__isnull=False), name="run_overdue"
            ),
            # the sweep of callbacks that did not come
            Index(
                fields=("callback_deadline", "id"),
                condition=Q(callback_deadline__isnull=False),
                name="run_callback_due",
            ),
            # what waits for a slot of its task, or for a pause to end
            Index(
                fields=("task", "id"),
                condition=Q(end_time=None, ready_at=None, deadline_at=None, callback_deadline=None),
                name="run_parked",
            ),
            # overlap, backlog, disable, delete: what of a task is not over yet
            Index(fields=("task", "status"), condition=Q(end_time=None), name="run_open_of_task"),
            # history of one task, newest first, also that of some status alone; newest_of()
            Index(fields=("task", "-id", "status"), name="run_of_task"),
            # lists by scheduled_time, of one task and of all
            Index(fields=("task", "scheduled_time"), name="run_of_task_by_time"),
            Index(fields=("scheduled_time",), name="run_by_time"),
            # lists by status, newest first; trigger and task are there to be counted by
            Index(fields=("status", "-id", "trigger", "task"), name="run_by_status"),
            # the same in a span of time: a run is written here once, when it is over
            Index(
                fields=("status", "scheduled_time", "task"),
                condition=Q(end_time__isnull=False),
                name="run_ended_by_time",
            ),
            # lists of what people asked for, and of what was caught up with: few among many
            Index(
                fields=("trigger", "-id"),
                condition=~Q(trigger=Trigger.SCHEDULE),
                name="run_by_trigger",
            ),
            # prune, dashboard: final runs of a status by age
            Index(
                fields=("status", "end_time"),
                condition=Q(end_time__isnull=False),
                name="run_ended",
            ),
        )

    def __str__(self) -> str:
        return f"run {self.pk}"

    @property
    def is_asynchronous(self) -> bool:
        """Whether a callback ends it; known from the first claim on."""
        return self.force_async or bool(self.template and self.template["asynchronous"])

    def transition(self, to: Status, *, now: datetime, **changes: object) -> bool:
        """Move to `to` if nobody moved this attempt before us; False if somebody did."""
        if to not in TRANSITIONS.get(Status(self.status), ()):
            raise IllegalTransition(f"{self.status} -> {to}")
        keeps_slot = to in OCCUPYING or (to == Status.SCHEDULED and self.trigger in UNPLANNED)
        changes = {
            "deadline_at": None,
            "callback_deadline": None,
            "ready_at": None,
            "next_retry_time": None,
            **({"owner": None} if to == Status.SCHEDULED else {}),
            **({} if keeps_slot else {"slot": None}),
            **({"template": None} if to in FINAL else {}),  # it holds secrets
            **changes,
            "status": to,
            "end_time": now if to in FINAL else None,
            "updated_at": now,
        }
        seen = {"status": self.status, "fence": self.fence}
        moved = set_one(TaskRun, self.pk, seen=seen, sets=changes)
        if moved:
            for name, value in changes.items():
                setattr(self, name, value)
        return moved


class Process(models.Model):
    """The lease of a running scheduler; without one nobody may own a run."""

    name = models.CharField(max_length=128, primary_key=True)  # host:pid:boot
    host = models.CharField(max_length=64)
    pid = models.PositiveIntegerField()
    slots = models.PositiveIntegerField(default=0)
    draining = models.BooleanField(default=False)
    started_at = models.DateTimeField()
    last_seen = models.DateTimeField()
    lease_until = models.DateTimeField()  # no index: the row is renewed in place every few seconds

    class Meta:
        db_table = "processes"
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return self.name


class Pause(models.Model):
    """While it stands, the tasks that carry its tag do not fire; without a tag, none does."""

    tag = models.CharField(max_length=64, unique=True, blank=True)  # "": everything
    reason = models.CharField(max_length=256, blank=True)
    until = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "pauses"

    def __str__(self) -> str:
        return self.tag or "everything"


class SchedulerLock(models.Model):
    """Whose turn the housekeeping is; nothing that must be right depends on it."""

    lock_name = models.CharField(max_length=64, primary_key=True)
    owner_id = models.CharField(max_length=128)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "scheduler_locks"

    def __str__(self) -> str:
        return self.lock_name
