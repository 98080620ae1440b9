"""Runs in the console: what happened, newest first."""

from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from cronjob.console import base
from cronjob.lib import clock, duration
from runs import trigger
from runs.models import TaskRun
from tasks.models import Task

TASKS_FOUND = 200


def tasks_named(part: str) -> list[int]:
    named = Task.objects.filter(name__icontains=part).values_list("pk", flat=True)
    return list(named[:TASKS_FOUND])


@admin.register(TaskRun)
class TaskRunAdmin(base.ReadOnlyAdmin):
    list_display = (
        "id",
        "task",
        "state",
        "trigger",
        "attempt",
        "scheduled_time",
        "response_code",
        "error_message",
    )
    list_display_links = ("id",)
    list_filter = (
        ("status", base.ChoicesDropdownFilter),
        ("trigger", base.ChoicesDropdownFilter),
        "scheduled_time",
    )
    list_select_related = ("task",)
    search_fields = ("task__name", "trace_id")
    heavy = (
        "request_headers",
        "request_body",
        "response_headers",
        "response_body",
        "timings",
        "attempts",
        "template",
        "override_body",
        *(f"task__{name}" for name in ("headers", "body_template", "work")),
    )
    ordering = ("-id",)
    actions = ("cancel", "replay")
    empty_text = "No run yet. Runs appear here when a task comes due or is triggered."
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("task", "state"),
                    ("trigger", "reason"),
                    ("attempt", "max_attempts"),
                    ("priority", "uuid"),
                )
            },
        ),
        (
            "When",
            {
                "fields": (
                    ("scheduled_time", "due_at"),
                    ("ready_at", "next_retry_time"),
                    ("start_time", "end_time"),
                    ("deadline_at", "callback_deadline"),
                    ("missed_from", "missed_to"),
                    ("missed_count", "owner"),
                    "awaited",
                )
            },
        ),
        ("Sent", {"fields": ("request_method", "request_url", "request_headers", "request_body")}),
        (
            "Received",
            {
                "fields": (
                    ("response_code", "response_truncated"),
                    "error_kind",
                    "error_message",
                    "response_headers",
                    "response_body",
                )
            },
        ),
        ("Trace", {"fields": ("trace_id", "timings", "attempts")}),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[TaskRun], search_term: str
    ) -> tuple[QuerySet[TaskRun], bool]:
        """The tasks are found first: runs are too many to be joined and compared one by one."""
        if not search_term:
            return queryset, False
        found = tasks_named(search_term)
        by = Q(task_id__in=found) if found else Q(trace_id=search_term)
        return queryset.filter(by), False

    @base.display(description="Status", ordering="status", label=base.COLORS)
    def state(self, run: TaskRun) -> str:
        return run.status

    @base.display(description="Callback")
    def awaited(self, run: TaskRun) -> str:
        """How far the target says it is, and how much time it has left."""
        told = []
        if run.progress is not None:
            told.append(f"{run.progress:.0%} done")
        if run.callback_deadline:
            left = int((run.callback_deadline - clock.now()).total_seconds())
            told.append(f"{duration.format(left)} left" if left > 0 else "no time left")
        if run.progress_message:
            told.append(run.progress_message)
        return ", ".join(told) or "-"

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("runs.operate_taskrun")

    @admin.action(description="Cancel selected runs", permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[TaskRun]) -> None:
        verb = partial(trigger.cancel, reason=f"canceled by {request.user}")
        self.each(request, queryset, verb, "Canceled")

    @admin.action(description="Replay selected runs", permissions=["operate"])
    def replay(self, request: HttpRequest, queryset: QuerySet[TaskRun]) -> None:
        self.each(request, queryset, trigger.replay, "Asked again for")

    def each(self, request: HttpRequest, runs: QuerySet[TaskRun], verb: Any, done: str) -> None:
        count = 0
        for run in runs:
            try:
                verb(run, now=clock.now())
                count += 1
            except (trigger.NotPossible, trigger.LimitReached) as error:
                self.message_user(request, f"Run {run.pk}: {error}", messages.WARNING)
        if count:
            self.message_user(request, f"{done} {count} runs.", messages.SUCCESS)
