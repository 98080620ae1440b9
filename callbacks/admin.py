"""Callbacks in the console: every report that came in, counted or not."""

from django.contrib import admin

from callbacks.models import AsyncCallback
from cronjob.console import base


@admin.register(AsyncCallback)
class AsyncCallbackAdmin(base.ReadOnlyAdmin):
    list_display = ("id", "task_run", "attempt", "state", "reason", "received_at")
    list_filter = (
        ("status", base.ChoicesDropdownFilter),
        "received_at",
    )
    list_select_related = ("task_run",)
    ordering = ("-id",)
    empty_text = "No callback yet. They come from the targets of ASYNC tasks."
    fields = ("task_run", "attempt", "state", "reason", "received_at", "headers", "body")

    @base.display(description="Status", ordering="status", label=base.COLORS)
    def state(self, callback: AsyncCallback) -> str:
        return callback.status
