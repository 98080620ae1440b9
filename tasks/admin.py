"""Tasks in the console: a list one can read, and a form in the order one thinks."""

from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from cronjob.console import base
from cronjob.lib import clock, duration
from runs import standing, trigger
from tasks.changes import Change
from tasks.forms import ScheduleForm, TaskForm
from tasks.models import (
    EXAMPLES,
    MOMENT_FIELD,
    SCHEDULE_FIELDS,
    ScheduleKind,
    Task,
    TaskStatus,
)
from tasks.preview import upcoming
from tasks.rules import zones


@admin.register(Task)
class TaskAdmin(base.ConsoleAdmin):
    form = TaskForm
    list_display = ("name", "state", "schedule", "target", "tagged", "next_run")
    list_display_links = ("name",)
    list_filter = (
        ("status", base.ChoicesDropdownFilter),
        ("schedule_kind", base.ChoicesDropdownFilter),
        ("exec_type", base.ChoicesDropdownFilter),
    )
    search_fields = ("name", "description")
    ordering = ("name", "id")
    actions = ("run_now", "enable", "disable")
    view_on_site = False
    empty_text = "No task yet. A task says which URL is called, when, and what if it goes wrong."
    readonly_fields = ("disabled_reason", "coming")
    fieldsets = (
        (None, {"fields": ("name", "description", "tags", "disabled_reason", "opened_version")}),
        (
            "What",
            {
                "fields": (
                    "exec_type",
                    "http_method",
                    "target_url",
                    "headers",
                    "body_template",
                    ("timeout_seconds", "connect_timeout_seconds"),
                    "follow_redirects",
                    ("secret_headers", "secret_paths"),
                    "work",
                )
            },
        ),
        (
            "When",
            {
                "fields": (
                    ("schedule_kind", "timezone"),
                    "cron_expr",
                    "every_seconds",
                    "run_at",
                    "start_at",
                    "end_at",
                    "jitter_seconds",
                    "coming",
                )
            },
        ),
        (
            "If it overlaps or fails",
            {
                "fields": (
                    ("concurrency_policy", "max_concurrency"),
                    "retry_policy",
                    ("misfire_policy", "misfire_grace_seconds"),
                    "catchup_limit",
                    ("start_deadline_seconds", "on_lost"),
                    "priority",
                )
            },
        ),
        ("Asynchronous", {"fields": (("callback_method", "callback_timeout_sec"),)}),
    )
    conditional_fields = {
        "cron_expr": "schedule_kind == 'CRON'",
        "every_seconds": "schedule_kind == 'EVERY'",
        "run_at": "schedule_kind == 'ONCE'",
        "work": "exec_type == 'JOB' || exec_type == 'NODE'",
        "catchup_limit": "misfire_policy == 'CATCH_UP_LIMITED'",
    }

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Who may only look does not see the secrets of a task."""
        hidden: dict[str, str] = {} if obj and obj.disabled_reason else {"disabled_reason": ""}
        if obj and not self.has_change_permission(request, obj):
            hidden |= {f: f"shown_{f}" for f in ("target_url", "headers", "body_template")}
        return [
            (title, rest | {"fields": [g for f in rest["fields"] if (g := hidden.get(f, f))]})
            for title, rest in super().get_fieldsets(request, obj)
        ]

    @base.display(description="URL")
    def shown_target_url(self, task: Task) -> str:
        return str(task.masked()["target_url"])

    @base.display(description="Headers")
    def shown_headers(self, task: Task) -> str:
        return "\n".join(f"{name}: {value}" for name, value in task.masked()["headers"].items())

    @base.display(description="Body")
    def shown_body_template(self, task: Task) -> str:
        return str(task.masked()["body_template"])

    def get_search_fields(self, request: HttpRequest) -> Any:
        """Who may not see the secrets of a URL could guess them letter by letter."""
        fields = super().get_search_fields(request)
        return (*fields, "target_url") if self.has_change_permission(request) else fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        return Task.objects.live()

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Task | None:
        task = super().get_object(request, object_id, from_field)
        if task and request.method == "POST":  # held from here to the end of the change
            return self.get_queryset(request).select_for_update().filter(pk=task.pk).first()
        return task

    # --- what the list shows ------------------------------------------------------------------

    @base.display(description="Status", ordering="status", label=base.COLORS)
    def state(self, task: Task) -> str:
        return task.status

    @base.display(description="Schedule")
    def schedule(self, task: Task) -> str:
        match task.schedule_kind:
            case ScheduleKind.CRON:
                return f"{task.cron_expr} ({task.timezone})"
            case ScheduleKind.EVERY:
                return f"every {duration.format(task.every_seconds or 0)}"
            case ScheduleKind.ONCE:
                return f"once, {task.run_at:%Y-%m-%d %H:%M:%S} UTC"
        return "when triggered"

    @base.display(description="Target")
    def target(self, task: Task) -> str:
        if not task.target_url:
            return task.exec_type
        return f"{task.http_method} {task.masked()['target_url'][:80]}"

    @base.display(description="Tags", label=True)
    def tagged(self, task: Task) -> list[str]:
        return task.tags

    @base.display(description="Next run", ordering="next_run_at")
    def next_run(self, task: Task) -> Any:
        return task.next_run_at or ("ended" if task.ended else None)

    # --- when it would run ---------------------------------------------------------------------

    @base.display(description="Coming moments")
    def coming(self, task: Task) -> SafeString:
        """Asks `preview` again with every key, for what the form says now."""
        return render_to_string("console/coming.html", {"task": task})

    def get_urls(self) -> list[Any]:
        own = path("preview/", self.admin_site.admin_view(self.preview), name="tasks_task_preview")
        return [own, *super().get_urls()]

    def preview(self, request: HttpRequest) -> HttpResponse:
        """The next moments of a form as it stands; it changes nothing."""
        if not (self.has_view_permission(request) or self.has_add_permission(request)):
            raise PermissionDenied
        pk = request.POST.get("task", "")
        stored = self.get_queryset(request).filter(pk=pk).first() if pk.isdecimal() else None
        task, problems = stored, list[str]()
        if "schedule_kind" in request.POST:
            task, problems = self.drafted(request, stored)
        kind = request.POST.get("schedule_kind", "")
        field = MOMENT_FIELD.get(kind, "")
        blank = bool(field) and not any(request.POST.get(field + end) for end in ("", "_0", "_1"))
        viewer = request.POST.get("viewer", "")
        context = {
            "problems": problems,
            "hint": f"Such as {EXAMPLES[kind]}." if blank else "",
            "task": task,
            "moments": upcoming(task.schedule(), clock.now(), 10) if task else [],
            "viewer": ZoneInfo(viewer) if viewer in zones() else None,
        }
        return render(request, "console/moments.html", context)

    def drafted(self, request: HttpRequest, stored: Task | None) -> tuple[Task | None, list[str]]:
        """A task with the schedule of the form; the rest of it does not matter here."""
        draft = Task(name="draft", target_url="http://draft")
        if stored:
            draft.uuid, draft.anchor = stored.uuid, stored.anchor
        form = self.get_form(request, form=ScheduleForm, fields=SCHEDULE_FIELDS)(
            request.POST, instance=draft
        )
        if not form.is_valid():
            return None, [
                f"{form.fields[name].label if name in form.fields else name}: {problem}"
                for name, told in form.errors.items()
                for problem in told
            ]
        draft.set_anchor(now=clock.now())
        return draft, []

    # --- what people do -----------------------------------------------------------------------

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tasks.operate_task")

    def save_model(self, request: HttpRequest, obj: Task, form: Any, change: bool) -> None:
        verb = standing.edit if change else standing.create
        verb(obj, now=clock.now(), by=f"user {request.user}")

    def delete_model(self, request: HttpRequest, obj: Task) -> None:
        standing.delete(obj, now=clock.now(), by=f"user {request.user}")

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        for task in queryset:
            standing.delete(task, now=clock.now(), by=f"user {request.user}")

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Runs stay when a task is deleted, so they neither protect it nor go with it."""
        allowed = request.user.has_perm("tasks.delete_task")
        missing = set() if allowed else {str(self.opts.verbose_name)}
        return [str(task) for task in objs], {"tasks": len(objs)}, missing, []

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except standing.NameTaken as error:  # taken after the form had looked
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    @admin.action(description="Run selected tasks now", permissions=["operate"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        asked = 0
        for task in queryset:
            try:
                trigger.trigger(task.pk, now=clock.now())
                asked += 1
            except trigger.LimitReached as error:
                self.message_user(request, f"{task.name}: {error}", messages.WARNING)
        if asked:
            self.message_user(request, f"Asked for {asked} runs.", messages.SUCCESS)

    @admin.action(description="Enable selected tasks", permissions=["operate"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        changed = [t for t in queryset if t.status != TaskStatus.ENABLED]
        for task in changed:
            standing.enable(task, now=clock.now(), by=f"user {request.user}")
        self.message_user(request, f"Enabled {len(changed)} tasks.", messages.SUCCESS)

    @admin.action(description="Disable selected tasks", permissions=["operate"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        changed = [t for t in queryset if t.status != TaskStatus.DISABLED]
        for task in changed:
            standing.disable(task, reason="", now=clock.now(), by=f"user {request.user}")
        self.message_user(request, f"Disabled {len(changed)} tasks.", messages.SUCCESS)


@admin.register(Change)
class ChangeAdmin(base.ReadOnlyAdmin):
    """Who changed what of a task, and when."""

    list_display = ("at", "of", "verb", "who", "what", "version", "reason")
    list_display_links = ("at",)
    list_filter = (("verb", base.ChoicesDropdownFilter), "at")
    list_select_related = ("task",)
    search_fields = ("task__name",)
    search_help_text = "A part of a task's name"
    heavy = ("old", "values", *(f"task__{name}" for name in ("headers", "body_template", "work")))
    ordering = ("-id",)
    empty_text = "No change yet. What is made, edited or disabled is written down here."
    fields = ("at", "of", "verb", "who", "reason", "version", "old", "new")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Change], search_term: str
    ) -> tuple[QuerySet[Change], bool]:
        """The tasks are found first: their logs have an index."""
        if not search_term:
            return queryset, False
        named = Task.objects.filter(name__icontains=search_term).values_list("pk", flat=True)
        return queryset.filter(task__in=list(named[:200])), False

    @base.display(description="Task", ordering="task")
    def of(self, change: Change) -> str:
        if change.task.deleted:
            return change.task.name
        place = reverse("admin:tasks_task_change", args=(change.task_id,))
        return format_html('<a href="{}">{}</a>', place, change.task.name)

    @base.display(description="What")
    def what(self, change: Change) -> str:
        return ", ".join(change.new) or "-"

    def has_view_permission(self, request: HttpRequest, obj: Change | None = None) -> bool:
        return request.user.has_perm("tasks.view_task")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)
