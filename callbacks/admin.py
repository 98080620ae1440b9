"""Callbacks in the console: every report that came in, counted or not."""

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html

from callbacks.models import AsyncCallback
from cronjob.console import base


@admin.register(AsyncCallback)
class AsyncCallbackAdmin(base.ReadOnlyAdmin):
    list_display = ("id", "run", "attempt", "state", "reason", "received_at")
    list_filter = (
        ("status", base.ChoicesDropdownFilter),
        "received_at",
    )
    heavy = ("headers", "body")
    ordering = ("-id",)
    empty_text = "No callback yet. They come from the targets of ASYNC tasks."
    fields = ("run", "attempt", "state", "reason", "received_at", "headers", "body")

    @base.display(description="Run", ordering="task_run")
    def run(self, callback: AsyncCallback) -> str:
        return format_html(
            '<a href="{}">run {}</a>',
            reverse("admin:runs_taskrun_change", args=(callback.task_run_id,)),
            callback.task_run_id,
        )

    @base.display(description="Status", ordering="status", label=base.COLORS)
    def state(self, callback: AsyncCallback) -> str:
        return callback.status
