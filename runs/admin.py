"""Runs in the console: what happened, newest first."""

from django.contrib import admin

from cronjob.console import base
from runs.models import TaskRun


@admin.register(TaskRun)
class TaskRunAdmin(base.ReadOnlyAdmin):
    list_display = (
        "id",
        "task",
        "state",
        "trigger",
        "attempt",
        "scheduled_time",
        "start_time",
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
    ordering = ("-id",)
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
                    ("scheduled_time", "ready_at"),
                    ("start_time", "end_time"),
                    ("deadline_at", "callback_deadline"),
                    ("missed_from", "missed_to"),
                    ("missed_count", "owner"),
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
        ("Trace", {"fields": (("trace_id", "progress"), "timings", "attempts")}),
    )

    @base.display(description="Status", ordering="status", label=base.COLORS)
    def state(self, run: TaskRun) -> str:
        return run.status
