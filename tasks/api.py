"""Tasks over REST: what a client may say about a task, and the verbs it may use on one."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import django_filters
from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from cronjob.api.errors import ApiError, invalid
from cronjob.api.filters import FilterSet
from cronjob.api.keys import allows, who
from cronjob.api.paging import positive
from cronjob.api.telling import told
from cronjob.api.views import Endpoint
from cronjob.lib import clock
from runs import standing, trigger
from runs.api import IDEMPOTENCY_KEY, asked, request_key
from runs.models import TaskRun
from runs.serializers import ReasonSerializer, RunIdSerializer, TriggerSerializer
from tasks import intake, models
from tasks.bulk_api import Bulk
from tasks.history_api import IF_MATCH, History
from tasks.models import Task, TaskStatus
from tasks.preview import MOMENTS_MAX, upcoming
from tasks.schedule import INSTANT
from tasks.serializers import (
    DeletedSerializer,
    DescribedMomentsSerializer,
    MomentSerializer,
    MomentsSerializer,
    PreviewSerializer,
    StatusSerializer,
    TaskSerializer,
)


class TaskFilter(FilterSet):
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


class TaskViewSet(History, Bulk, Endpoint, viewsets.GenericViewSet[Task]):
    """What is called, when, and what happens if it goes wrong."""

    queryset = Task.objects.live()
    serializer_class = TaskSerializer
    filterset_class = TaskFilter
    lookup_url_kwarg = "id"
    scopes = {
        "enable": "operate", "disable": "operate", "trigger": "operate", "preview": "read",
        "bulk": "operate",
    }  # fmt: skip

    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.told(page))

    # A body is read before a transaction begins: nobody waits for a slow client's.

    @extend_schema(responses={201: TaskSerializer})
    def create(self, request: Request) -> Response:
        values = self.given(request, TaskSerializer)
        now = clock.now()
        task = Task(**intake.scheduled(values, current=None))
        task.status = values.get("status", task.status)
        intake.check(task, now=now)
        self.save(standing.create, task, now=now, by=who(request))
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
        standing.delete(self.locked(request), now=clock.now(), by=who(request))
        return Response({"deleted": True})

    @extend_schema(
        parameters=[IF_MATCH], request=ReasonSerializer, responses={200: StatusSerializer}
    )
    @action(detail=True, methods=["post", "patch"])
    def enable(self, request: Request, id: str) -> Response:
        """Fire again from now on; what passed meanwhile is not made up for."""
        self.get_object("id")
        reason = self.given(request, ReasonSerializer).get("reason", "")
        with transaction.atomic():
            task = self.locked(request)
            standing.enable(task, reason=reason, now=clock.now(), by=who(request))
        return Response({"status": task.status})

    @extend_schema(
        parameters=[IF_MATCH], request=ReasonSerializer, responses={200: StatusSerializer}
    )
    @action(detail=True, methods=["post", "patch"])
    def disable(self, request: Request, id: str) -> Response:
        """Runs that wait are canceled; those under way end by themselves."""
        self.get_object("id")
        reason = self.given(request, ReasonSerializer).get("reason", "")
        with transaction.atomic():
            task = self.locked(request)
            standing.disable(task, reason=reason, now=clock.now(), by=who(request))
        return Response({"status": task.status})

    @extend_schema(
        parameters=[IDEMPOTENCY_KEY], request=TriggerSerializer, responses={202: RunIdSerializer}
    )
    @action(detail=True, methods=["post"])
    def trigger(self, request: Request, id: str) -> Response:
        """One run now, also of a disabled task; under SKIP only if a slot is free."""
        try:
            values, key = self.given(request, TriggerSerializer), request_key(request)
        except APIException:
            self.get_object("id")  # a task that is gone is gone, whatever is said about it
            raise
        with asked():
            try:  # the task is read where it is locked, and not before
                run = trigger.trigger(int(id), now=clock.now(), key=key, **values)
            except trigger.Gone as error:
                raise ApiError("NOT_FOUND", f"There is no task {id}.") from error
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
        planned = intake.scheduled(values, current=None)
        task = Task(name="preview", target_url="http://preview", **planned)
        intake.check(task, now=after)
        task.set_anchor(now=after)
        told = moments(task, after=after, count=count)
        return Response(told | {"description": task.schedule_in_words()})

    # --- how it is done ---------------------------------------------------------------------

    def get_object(self, *needed: str) -> Task:
        """All of it, if nothing is named."""
        pk = self.kwargs["id"]
        if needed:
            task = Task.objects.some_of(pk, "id", "deleted", *needed)
        else:
            task = self.get_queryset().filter(pk=pk).first()
        if task is None or task.deleted:
            raise ApiError("NOT_FOUND", f"There is no task {pk}.")
        return task

    def locked(self, request: Request, values: Mapping[str, Any] | None = None) -> Task:
        """The task, held until the transaction ends, in the version the client knows."""
        self.queryset = Task.objects.live().select_for_update()
        task = self.get_object()
        known = (values or {}).get("version", task.version)
        if known != task.version or not matches(request.headers.get("If-Match"), task.version):
            raise ApiError("VERSION_CONFLICT", f"The task is at version {task.version}.")
        return task

    def edit(self, request: Request, *, partial: bool) -> Response:
        self.get_object("id")  # a task that is gone is gone, whatever is said about it
        values = self.given(request, TaskSerializer, partial=partial)
        with transaction.atomic():
            now = clock.now()
            task = self.locked(request, values)
            planned = task.run_at
            new = intake.scheduled(values, current=task if partial else None)
            new |= intake.unmasked(values, task)
            for name, value in (new if partial else intake.defaults() | new).items():
                setattr(task, name, value)
            intake.check(task, now=now, rescheduled=task.run_at != planned)
            self.save(standing.edit, task, now=now, by=who(request))
            match values.get("status", task.status):
                case TaskStatus.DISABLED if task.status == TaskStatus.ENABLED:
                    standing.disable(task, reason="", now=now, by=who(request))
                case TaskStatus.ENABLED if task.status == TaskStatus.DISABLED:
                    standing.enable(task, now=now, by=who(request))
            return self.one(task)

    def save(self, verb: Any, task: Task, **how: Any) -> None:
        try:
            verb(task, **how)
        except standing.NameTaken as error:
            raise ApiError("NAME_TAKEN", str(error)) from error

    def one(self, task: Task, code: int = status.HTTP_200_OK, **headers: str) -> Response:
        headers["ETag"] = f'"{task.version}"'
        new = code == status.HTTP_201_CREATED
        return Response(self.told([task], new=new)[0], status=code, headers=headers)

    def told(self, tasks: Any, *, new: bool = False) -> Any:
        whole = allows(self.request, "write")  # others do not see the secrets of a task
        newest = {} if new else TaskRun.objects.newest_of(tasks)
        for task in tasks:
            vars(task).update(last_run=newest.get(task.pk), whole=whole)
        return [told(TaskSerializer, task) for task in tasks]


def moments(task: Task, *, after: datetime, count: int) -> dict[str, Any]:
    coming = upcoming(task.schedule(), after, count)
    return {"moments": [told(MomentSerializer, moment) for moment in coming]}


def matches(header: str | None, version: int) -> bool:
    """Whether If-Match allows this version; no header allows any."""
    if header is None or header.strip() == "*":
        return True
    return f'"{version}"' in [tag.strip() for tag in header.split(",")]
