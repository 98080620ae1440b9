"""What the targets of asynchronous tasks report, kept as it came in."""

from django.db import models
from django.db.models import Index

from cronjob.lib.fields import one_of
from cronjob.lib.limits import Counted
from runs.models import TaskRun
from tasks.models import Task


class CallbackStatus(models.TextChoices):
    RECEIVED = "RECEIVED", "Received"
    IGNORED = "IGNORED", "Ignored"


class AsyncCallback(models.Model):
    """One report, and whether it counted."""

    task_run = models.ForeignKey(TaskRun, models.CASCADE, related_name="callbacks", db_index=False)
    # The task of the run, so that the callbacks of a task are found without its runs. Without a
    # constraint: to check it locks the task after the run, and who disables a task locks it before.
    task = models.ForeignKey(
        Task, models.CASCADE, related_name="callbacks", db_index=False, db_constraint=False,
        null=True, editable=False,
    )  # fmt: skip
    attempt = models.PositiveIntegerField(default=0)
    received_at = models.DateTimeField()
    status = models.CharField(max_length=8, choices=CallbackStatus)
    reason = models.CharField(max_length=256, blank=True)  # why it was ignored
    headers = models.JSONField(default=dict, db_column="headers_json")
    body = models.TextField(blank=True)

    class Meta:
        db_table = "async_callbacks"
        verbose_name = "callback"
        constraints = (one_of("status", CallbackStatus.values, name="callback_status"),)
        indexes = (
            # the callbacks of a run, in order
            Index(fields=("task_run", "id"), name="callback_of_run"),
            # the callbacks of a task, newest first
            Index(fields=("task", "-id"), name="callback_of_task"),
            # lists by status, newest first
            Index(fields=("status", "-id"), name="callback_by_status"),
            # lists by time
            Index(fields=("received_at",), name="callback_by_time"),
        )

    def __str__(self) -> str:
        return f"callback {self.pk}"


class CallbackToken(Counted):
    """Who may report on which attempt; the token itself is known to the target alone."""

    token_hash = models.CharField(max_length=64, primary_key=True)  # SHA-256, hexadecimal
    task_run = models.ForeignKey(TaskRun, models.CASCADE, related_name="callback_tokens")
    attempt = models.PositiveIntegerField()

    class Meta:
        db_table = "callback_tokens"

    def __str__(self) -> str:
        return f"token of attempt {self.attempt}"


class Stranger(Counted):
    """An address from which tokens come that nobody was given."""

    address = models.CharField(max_length=45, primary_key=True)

    class Meta:
        db_table = "callback_strangers"
        default_permissions = ()
        indexes = (Index(fields=("since",), name="callback_stranger_since"),)  # forgetting

    def __str__(self) -> str:
        return self.address
