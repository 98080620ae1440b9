"""Tasks over REST: what a client may say about a task, and the verbs it may use on one."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import django_filters
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from cronjob.api.errors import ApiError, invalid, told_fields
from cronjob.api.keys import allows
from cronjob.api.paging import positive
from cronjob.api.views import Endpoint
from cronjob.lib import clock, masking
from runs import standing, trigger
from runs.models import TaskRun
from tasks import models
from tasks.models import MOMENT_FIELD, Task, TaskStatus
from tasks.preview import MOMENTS_MAX, upcoming
from tasks.rules import PUBLIC
from tasks.schedule import INSTANT
from tasks.serializers import (
    DeletedSerializer,
    DescribedMomentsSerializer,
    MomentSerializer,
    MomentsSerializer,
    PreviewSerializer,
    ReasonSerializer,
    StatusSerializer,
    TaskSerializer,
    TriggeredSerializer,
    TriggerSerializer,
)


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


COUNT = OpenApiParameter("count", {"type": "integer", "minimum": 1, "maximum": MOMENTS_MAX})
IF_MATCH = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description='`"<version>"`')


class TaskViewSet(Endpoint, viewsets.GenericViewSet[Task]):
    """What is called, when, and what happens if it goes wrong."""

    queryset = Task.objects.live()
    serializer_class = TaskSerializer
    filterset_class = TaskFilter
    lookup_url_kwarg = "id"
    scopes = {
        "enable": "operate", "disable": "operate", "trigger": "operate", "preview": "read",
    }  # fmt: skip

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

    @extend_schema(request=TriggerSerializer, responses={202: TriggeredSerializer})
    @action(detail=True, methods=["post"])
    def trigger(self, request: Request, id: str) -> Response:
        """One run now, also of a disabled task; under SKIP only if a slot is free."""
        values = self.given(request, TriggerSerializer)
        try:
            run = trigger.trigger(self.get_object(), now=clock.now(), **values)
        except trigger.LimitReached as error:
            raise ApiError("CONCURRENCY_LIMIT", str(error)) from error
        except trigger.NotPossible as error:
            raise ApiError("NOT_FOUND", str(error)) from error
        except ValueError as error:
            problems = {"force_async": [str(error)]}
            raise invalid(problems) from error
        return Response({"run_id": run.pk}, status=status.HTTP_202_ACCEPTED)

    @extend_schema(parameters=[COUNT], responses={200: MomentsSerializer})
    @action(detail=True, params=("count",))
    def next(self, request: Request, id: str) -> Response:
        """The coming moments by the schedule, whether the task is enabled or not."""
        count = positive(request, "count", default=10, most=MOMENTS_MAX)
        task, after = self.get_object(), clock.now()
        if task.next_moment and task.next_run_at and task.next_run_at > after:
            after = min(after, task.next_moment - INSTANT)  # it waits for its share of the jitter
        return Response(moments(task, after=after, count=count))

    @extend_schema(request=PreviewSerializer, responses={200: DescribedMomentsSerializer})
    @action(detail=False, methods=["post"])
    def preview(self, request: Request) -> Response:
        """The moments of a schedule that is not saved; jitter is an example until it is."""
        values = self.given(request, PreviewSerializer)
        count, after = values.pop("count"), values.pop("from", None) or clock.now()
        task = Task(name="preview", target_url="http://preview", **scheduled(values, current=None))
        self.check(task, now=after)
        task.set_anchor(now=after)
        told = moments(task, after=after, count=count)
        return Response(told | {"description": task.schedule_in_words()})

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


def moments(task: Task, *, after: datetime, count: int) -> dict[str, Any]:
    coming: Any = list(upcoming(task.schedule(), after, count))
    return {"moments": MomentSerializer(coming, many=True).data}


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
