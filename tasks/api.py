"""Tasks over REST: what a client may say about a task, and the verbs it may use on one."""

from collections.abc import Mapping
from typing import Any

import django_filters
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from cronjob.api import fields
from cronjob.api.errors import ApiError, invalid, told_fields
from cronjob.api.keys import allows
from cronjob.api.views import Endpoint
from cronjob.lib import clock, masking
from runs import standing
from runs.models import TaskRun
from tasks import models
from tasks.models import MOMENT_FIELD, Task, TaskStatus
from tasks.rules import PUBLIC


class LastRunSerializer(serializers.Serializer[TaskRun]):
    id = serializers.IntegerField()
    status = serializers.CharField()
    scheduled_time = fields.TimeField()
    end_time = fields.TimeField(allow_null=True)


class TaskSerializer(fields.StrictSerializer):
    """A task as clients see it; judging whether its parts go together is Task.clean()."""

    id = serializers.IntegerField(read_only=True)
    uuid = serializers.UUIDField(read_only=True)
    name = fields.TextField(max_length=128)
    description = fields.TextField(max_length=512, allow_blank=True, required=False)
    tags = serializers.ListField(child=fields.TextField(), required=False)
    schedule_kind = serializers.ChoiceField(choices=models.ScheduleKind.choices, required=False)
    cron_expr = fields.TextField(required=False, allow_null=True)
    every = fields.DurationField(source="every_seconds", required=False, allow_null=True)
    run_at = fields.TimeField(required=False, allow_null=True)
    start_at = fields.TimeField(required=False, allow_null=True)
    end_at = fields.TimeField(required=False, allow_null=True)
    jitter = fields.DurationField(
        source="jitter_seconds", zero=True, required=False, allow_null=True
    )
    timezone = fields.TextField(max_length=64, required=False)
    exec_type = serializers.ChoiceField(choices=models.ExecType.choices, required=False)
    http_method = serializers.ChoiceField(choices=models.HttpMethod.choices, required=False)
    target_url = fields.TextField(max_length=2048, allow_blank=True, required=False)
    headers = serializers.DictField(child=fields.TextField(allow_blank=True), required=False)
    body_template = fields.TextField(allow_blank=True, trim_whitespace=False, required=False)
    connect_timeout_seconds = fields.SecondsField(min_value=0.1, max_value=86400, required=False)
    timeout_seconds = fields.SecondsField(min_value=0.1, max_value=86400, required=False)
    follow_redirects = fields.FlagField(required=False)
    secret_headers = serializers.ListField(child=fields.TextField(), required=False)
    secret_paths = serializers.ListField(child=fields.TextField(), required=False)
    retry_policy = serializers.DictField(required=False)
    max_concurrency = fields.CountField(min_value=0, max_value=1000, required=False)
    concurrency_policy = serializers.ChoiceField(
        choices=models.ConcurrencyPolicy.choices, required=False
    )
    misfire_policy = serializers.ChoiceField(choices=models.MisfirePolicy.choices, required=False)
    misfire_grace_seconds = fields.CountField(min_value=0, max_value=2**31 - 1, required=False)
    catchup_limit = fields.CountField(min_value=0, max_value=1000, required=False)
    start_deadline_seconds = fields.CountField(
        min_value=1, max_value=2**31 - 1, required=False, allow_null=True
    )
    on_lost = serializers.ChoiceField(choices=models.OnLost.choices, required=False)
    priority = fields.NamedChoiceField(models.Priority, required=False)
    callback_method = serializers.ChoiceField(choices=models.CallbackMethod.choices, required=False)
    callback_timeout_sec = fields.CountField(min_value=1, max_value=2**31 - 1, required=False)
    work = serializers.DictField(required=False, allow_null=True)
    status = serializers.ChoiceField(choices=models.TaskStatus.choices, required=False)
    version = fields.CountField(required=False, help_text="Guards an edit; see If-Match.")
    disabled_reason = serializers.CharField(read_only=True)
    ended = serializers.BooleanField(read_only=True)
    next_run_at = fields.TimeField(read_only=True, allow_null=True)
    last_run = serializers.SerializerMethodField()
    created_at = fields.TimeField(read_only=True)
    updated_at = fields.TimeField(read_only=True)

    def to_representation(self, instance: Task) -> dict[str, Any]:
        told: dict[str, Any] = super().to_representation(instance)
        return told if self.context["whole"] else told | instance.masked()

    @extend_schema_field(LastRunSerializer(allow_null=True))
    def get_last_run(self, task: Task) -> dict[str, Any] | None:
        run = self.context["last_runs"].get(task.pk)
        return LastRunSerializer(run).data if run else None


class ReasonSerializer(fields.StrictSerializer):
    reason = fields.TextField(max_length=256, allow_blank=True, required=False)


class StatusSerializer(serializers.Serializer[Any]):
    status = serializers.ChoiceField(choices=models.TaskStatus.choices)


class DeletedSerializer(serializers.Serializer[Any]):
    deleted = serializers.BooleanField()


class TaskFilter(django_filters.FilterSet):
    status = django_filters.ChoiceFilter(choices=TaskStatus.choices)
    name = django_filters.CharFilter(lookup_expr="icontains", help_text="A part of the name.")
    exec_type = django_filters.ChoiceFilter(choices=models.ExecType.choices)
    tag = django_filters.CharFilter(method="by_tag", help_text="Tasks that carry this tag.")
    search = django_filters.CharFilter(
        method="by_text", help_text="A part of the name, the description or the URL."
    )
    ordering = django_filters.OrderingFilter(
        fields=("id", "name", "status", "priority", "next_run_at", "created_at", "updated_at")
    )

    def by_tag(self, tasks: models.TaskQuerySet, name: str, value: str) -> QuerySet[Task]:
        return tasks.tagged(value)

    def by_text(self, tasks: models.TaskQuerySet, name: str, value: str) -> QuerySet[Task]:
        found = Q(name__icontains=value) | Q(description__icontains=value)
        if allows(self.request, "write"):  # others could guess a secret in a URL letter by letter
            found |= Q(target_url__icontains=value)
        return tasks.filter(found)

    def filter_queryset(self, queryset: QuerySet[Task]) -> QuerySet[Task]:
        found = super().filter_queryset(queryset)
        # Equal values must not change places from page to page.
        return found.order_by(*found.query.order_by, "id")


IF_MATCH = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description='`"<version>"`')


class TaskViewSet(Endpoint, viewsets.GenericViewSet[Task]):
    """What is called, when, and what happens if it goes wrong."""

    queryset = Task.objects.live()
    serializer_class = TaskSerializer
    filterset_class = TaskFilter
    lookup_url_kwarg = "id"
    scopes = {"enable": "operate", "disable": "operate"}

    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.told(page))

    # A body is read before a transaction begins: nobody waits for a slow client's.

    @extend_schema(responses={201: TaskSerializer})
    def create(self, request: Request) -> Response:
        values = self.given(request)
        with transaction.atomic():
            now = clock.now()
            task = Task(**scheduled(values, current=None))
            task.status = values.get("status", task.status)
            self.check(task, now=now)
            self.save(standing.create, task, now=now)
            place = reverse("task-detail", kwargs={"id": task.pk})
            return self.one(task, status.HTTP_201_CREATED, Location=place)

    def retrieve(self, request: Request, id: str) -> Response:
        return self.one(self.get_object())

    @extend_schema(parameters=[IF_MATCH])
    def update(self, request: Request, id: str) -> Response:
        """Every field left out takes its default; `status` stays as it is."""
        return self.edit(request, partial=False)

    @extend_schema(parameters=[IF_MATCH])
    def partial_update(self, request: Request, id: str) -> Response:
        """Parts of `retry_policy` and `work` are merged; `headers` and `tags` are replaced."""
        return self.edit(request, partial=True)

    @extend_schema(parameters=[IF_MATCH], responses={200: DeletedSerializer})
    @transaction.atomic
    def destroy(self, request: Request, id: str) -> Response:
        """It never runs again. Its runs can still be read, and its name is free."""
        standing.delete(self.locked(request), now=clock.now())
        return Response({"deleted": True})

    @extend_schema(
        parameters=[IF_MATCH], request=ReasonSerializer, responses={200: StatusSerializer}
    )
    @action(detail=True, methods=["post", "patch"])
    def enable(self, request: Request, id: str) -> Response:
        """Fire again from now on; what passed meanwhile is not made up for."""
        self.given(request, ReasonSerializer)
        with transaction.atomic():
            task = self.locked(request)
            standing.enable(task, now=clock.now())
        return Response({"status": task.status})

    @extend_schema(
        parameters=[IF_MATCH], request=ReasonSerializer, responses={200: StatusSerializer}
    )
    @action(detail=True, methods=["post", "patch"])
    def disable(self, request: Request, id: str) -> Response:
        """Runs that wait are canceled; those under way end by themselves."""
        reason = self.given(request, ReasonSerializer).get("reason", "")
        with transaction.atomic():
            task = self.locked(request)
            standing.disable(task, reason=reason, now=clock.now())
        return Response({"status": task.status})

    # --- how it is done ---------------------------------------------------------------------

    def get_object(self) -> Task:
        task = self.get_queryset().filter(pk=self.kwargs["id"]).first()
        if task is None:
            raise ApiError("NOT_FOUND", f"There is no task {self.kwargs['id']}.")
        return task

    def locked(self, request: Request, values: Mapping[str, Any] | None = None) -> Task:
        """The task, held until the transaction ends, in the version the client knows."""
        self.queryset = Task.objects.live().select_for_update()
        task = self.get_object()
        known = (values or {}).get("version", task.version)
        if known != task.version or not matches(request.headers.get("If-Match"), task.version):
            raise ApiError("VERSION_CONFLICT", f"The task is at version {task.version}.")
        return task

    def given(
        self, request: Request, kind: type[serializers.Serializer[Any]] = TaskSerializer,
        *, partial: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        serializer = kind(data=request.data, partial=partial)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def edit(self, request: Request, *, partial: bool) -> Response:
        values = self.given(request, partial=partial)
        with transaction.atomic():
            now = clock.now()
            task = self.locked(request, values)
            planned = task.run_at
            new = scheduled(values, current=task if partial else None) | unmasked(values, task)
            for name, value in (new if partial else defaults() | new).items():
                setattr(task, name, value)
            self.check(task, now=now, rescheduled=task.run_at != planned)
            self.save(standing.edit, task, now=now)
            match values.get("status", task.status):
                case TaskStatus.DISABLED if task.status == TaskStatus.ENABLED:
                    standing.disable(task, reason="", now=now)
                case TaskStatus.ENABLED if task.status == TaskStatus.DISABLED:
                    standing.enable(task, now=now)
            return self.one(task)

    def check(self, task: Task, *, now: Any, rescheduled: bool = True) -> None:
        try:
            task.full_clean(exclude=hidden(), validate_unique=False, validate_constraints=False)
            if rescheduled:
                task.check_moment(now=now)
        except ValidationError as error:
            problems = {PUBLIC.get(name, name): told for name, told in told_fields(error).items()}
            raise invalid(problems) from error

    def save(self, verb: Any, task: Task, *, now: Any) -> None:
        try:
            verb(task, now=now)
        except standing.NameTaken as error:
            raise ApiError("NAME_TAKEN", str(error)) from error

    def one(self, task: Task, code: int = status.HTTP_200_OK, **headers: str) -> Response:
        headers["ETag"] = f'"{task.version}"'
        return Response(self.told([task])[0], status=code, headers=headers)

    def told(self, tasks: Any) -> Any:
        whole = allows(self.request, "write")  # others do not see the secrets of a task
        context = {"last_runs": TaskRun.objects.newest_of(tasks), "whole": whole}
        return TaskSerializer(tasks, many=True, context=context).data


def matches(header: str | None, version: int) -> bool:
    """Whether If-Match allows this version; no header allows any."""
    if header is None or header.strip() == "*":
        return True
    return f'"{version}"' in [tag.strip() for tag in header.split(",")]


def hidden() -> set[str]:
    return {field.name for field in Task._meta.fields if not field.editable}


def defaults() -> dict[str, Any]:
    """What a task holds in every field that a client may leave out."""
    kept = hidden() | {"id", "name", "status", "schedule_kind"}
    return {f.name: f.get_default() for f in Task._meta.fields if f.name not in kept}


def merged(values: Mapping[str, Any], *, current: Task | None) -> dict[str, Any]:
    """The values of columns, with the parts of nested objects that were left out."""
    values = {name: value for name, value in values.items() if name not in ("status", "version")}
    if isinstance(policy := values.get("retry_policy"), dict):
        values["retry_policy"] = (
            current.retry_policy if current else models.default_retry_policy()
        ) | policy
    if isinstance(work := values.get("work"), dict):
        same = current and values.get("exec_type", current.exec_type) == current.exec_type
        whole = ((current.work if current and same else None) or {}) | work
        values["work"] = {name: part for name, part in whole.items() if part is not None}
    return values


def scheduled(values: Mapping[str, Any], *, current: Task | None) -> dict[str, Any]:
    """The values with exactly one schedule, whichever way it was said; `current` may keep its."""
    values = merged(values, current=current)
    kind = values.get("schedule_kind")
    given = [k for k, field in MOMENT_FIELD.items() if values.get(field) is not None]
    if len(given) > 1 or (given and kind not in (None, given[0])):
        both = [public(k) for k in given]
        clash = " and ".join(both) if len(both) > 1 else f"{both[0]} with {kind}"
        problems = {name: [f"One schedule only, not {clash}."] for name in both}
        raise invalid(problems)
    if given:
        kind = given[0]
    elif kind is None and current is None:
        problem = "Give one of cron_expr, every or run_at, or MANUAL here."
        raise invalid({"schedule_kind": [problem]})
    elif kind is None or (current is not None and kind == current.schedule_kind):
        return values  # the schedule stays; a null for the field it needs is found by clean()
    return (
        values
        | {field: values.get(field) for field in MOMENT_FIELD.values()}
        | {"schedule_kind": kind}
    )


def unmasked(values: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """What comes back masked, as somebody read it who may not see it, stays what it is."""
    found = {
        name: getattr(task, name)
        for name, shown in task.masked().items()
        if values.get(name) == shown
    }
    if isinstance(headers := values.get("headers"), dict):
        kept = {name.lower(): value for name, value in task.headers.items()}
        found["headers"] = {
            name: kept.get(name.lower(), value) if value == masking.MASK else value
            for name, value in headers.items()
        }
    return found


def public(kind: str) -> str:
    return PUBLIC.get(MOMENT_FIELD[kind], MOMENT_FIELD[kind])
