"""Callbacks in the console: every report that came in, counted or not."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Substr
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from callbacks.models import AsyncCallback
from callbacks.serializers import BEGINNING
from cronjob.console import base
from runs.admin import TaskRunAdmin, tasks_named
from runs.models import TaskRun
from runs.shown import shortened


class CallbackInline(base.ReadOnlyInline):
    model = AsyncCallback
    fields = (("state", "attempt", "received_at"), "reason", "shown_body", "headers")
    readonly_fields = ("state", "shown_body")
    ordering = ("-status", "id")  # what ended the run is on the first page
    verbose_name_plural = "callbacks"

    def get_queryset(self, request: HttpRequest) -> QuerySet[AsyncCallback]:
        """No more than the beginnings of bodies: twenty of them may be twenty megabytes."""
        beginning = Substr("body", 1, BEGINNING + 1)
        return super().get_queryset(request).defer("body").annotate(beginning=beginning)

    @base.display(description="Body")
    def shown_body(self, callback: Any) -> str:
        return shortened(callback.beginning, BEGINNING)

    @base.display(description="Status", label=base.COLORS)
    def state(self, callback: AsyncCallback) -> str:
        return callback.status

    def has_view_permission(self, request: HttpRequest, obj: TaskRun | None = None) -> bool:
        """No empty heading below the runs to which nobody called back."""
        may: bool = super().has_view_permission(request, obj)
        return may and (obj is None or obj.callbacks.exists())


# A run does not know of callbacks; its page shows them all the same.
TaskRunAdmin.inlines = (*TaskRunAdmin.inlines, CallbackInline)


@admin.register(AsyncCallback)
class AsyncCallbackAdmin(base.ReadOnlyAdmin):
    list_display = ("id", "run", "attempt", "state", "reason", "received_at")
    list_filter = (
        ("status", base.ChoicesDropdownFilter),
        "received_at",
    )
    search_fields = ("task_run",)
    search_help_text = "The number of a run, or a part of a task's name"
    heavy = ("headers", "body")
    ordering = ("-id",)
    empty_text = "No callback yet. They come from the targets of ASYNC tasks."
    fields = ("run", "attempt", "state", "reason", "received_at", "headers", "body")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AsyncCallback], search_term: str
    ) -> tuple[QuerySet[AsyncCallback], bool]:
        """The tasks are found first: callbacks are too many to be compared one by one."""
        if not search_term:
            return queryset, False
        number = search_term.strip().removeprefix("run").strip()
        if number.isascii() and number.isdigit() and len(number) < 19:
            return queryset.filter(task_run=int(number)), False
        return queryset.filter(task__in=tasks_named(search_term)), False

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
