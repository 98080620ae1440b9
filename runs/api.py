"""Runs over REST: what happened, and the verbs of whoever looks after it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import django_filters
from django.db.models import Q, QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from cronjob.api import bulk
from cronjob.api.errors import ApiError, invalid
from cronjob.api.filters import ChoicesFilter, FilterSet, IdFilter, between
from cronjob.api.paging import DeepPages
from cronjob.api.telling import told
from cronjob.api.views import Endpoint
from cronjob.lib import clock
from runs import pauses, trigger
from runs.models import Pause, TaskRun
from runs.serializers import (
    DETAIL,
    HEAVY,
    ROW,
    BodySerializer,
    CanceledSerializer,
    PausedSerializer,
    PauseSerializer,
    PausesSerializer,
    ReasonSerializer,
    ResumedSerializer,
    ResumeSerializer,
    RunBulkSerializer,
    RunIdSerializer,
    RunRowSerializer,
    RunSerializer,
)
from runs.states import FINAL, SUCCEEDED, Status, Trigger
from tasks.models import Task

FAILURES = (Status.FAILED, Status.TIMEOUT, Status.FAILED_TIMEOUT)
OUTCOMES = {
    "success": Q(status__in=SUCCEEDED),
    "failure": Q(status__in=FAILURES),
    "open": Q(end_time=None),
}
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER,
    description="The same key within 24 hours means the same run.",
)  # fmt: skip
KEY = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")


@between("scheduled_time")
class RunFilter(FilterSet):
    task_id = IdFilter()
    status = ChoicesFilter(
        choices=Status.choices, method="by_status", help_text="May be given several times."
    )
    outcome = django_filters.ChoiceFilter(
        choices=[(name, name) for name in OUTCOMES], method="by_outcome",
        help_text="`failure`: FAILED, TIMEOUT or FAILED_TIMEOUT; `open`: not over yet.",
    )  # fmt: skip
    trigger = django_filters.ChoiceFilter(choices=Trigger.choices, method="by_trigger")
    before_id = IdFilter(method="by_before", help_text="What comes after this run in the list.")

    def by_status(self, runs: QuerySet[TaskRun], name: str, value: list[str]) -> QuerySet[TaskRun]:
        return runs.filter(status__in=value) if value else runs

    def by_outcome(self, runs: QuerySet[TaskRun], name: str, value: str) -> QuerySet[TaskRun]:
        return runs.filter(OUTCOMES[value])

    def by_trigger(self, runs: QuerySet[TaskRun], name: str, value: str) -> QuerySet[TaskRun]:
        return runs.filter(trigger=value)

    def by_before(self, runs: QuerySet[TaskRun], name: str, value: int) -> QuerySet[TaskRun]:
        if not self.by_time:
            return runs.filter(pk__lt=value)
        then = TaskRun.objects.filter(pk=value).values_list("scheduled_time", flat=True).first()
        same = Q(scheduled_time=then, pk__lt=value)
        return runs.filter(same | Q(scheduled_time__lt=then)) if then else runs.filter(pk__lt=value)

    @property
    def by_time(self) -> bool:
        return any(self.form.cleaned_data.get(name) for name in ("from", "to"))

    @property
    def only_over(self) -> bool:
        asked = self.form.cleaned_data
        return asked.get("outcome") in ("success", "failure") or (
            bool(asked.get("status")) and set(asked["status"]) <= set(FINAL)
        )

    def filter_queryset(self, queryset: QuerySet[TaskRun]) -> QuerySet[TaskRun]:
        """Newest first; in a span of time by its index, or all that came later would be read."""
        found = super().filter_queryset(queryset)
        if not self.by_time:
            return found.order_by("-id")
        if self.only_over:  # what it says is known, but not to who looks for an index
            found = found.filter(end_time__isnull=False)
        return found.order_by("-scheduled_time", "-id")


class TaskRunFilter(RunFilter):
    task_id = None  # type: ignore[assignment]  # the path says which


class RunViewSet(Endpoint, viewsets.GenericViewSet[TaskRun]):
    """What became of each moment, and of each request to run a task."""

    queryset = TaskRun.objects.select_related("task")
    serializer_class = RunSerializer
    filterset_class = RunFilter
    pagination_class = DeepPages
    lookup_url_kwarg = "id"
    scopes = {"cancel": "operate", "replay": "operate", "bulk": "operate"}

    @extend_schema(responses={200: RunRowSerializer(many=True)})
    def list(self, request: Request, **where: str) -> Response:
        """Runs, newest first."""
        found = self.filter_queryset(self.get_queryset().only(*ROW, "task__name"))
        page: Any = self.paginate_queryset(found)
        return self.get_paginated_response([told(RunRowSerializer, run) for run in page])

    def retrieve(self, request: Request, id: str) -> Response:
        """One run, with all that was sent and received."""
        return Response(told(RunSerializer, self.get_object(*DETAIL, "task__name")))

    @extend_schema(request=ReasonSerializer, responses={200: CanceledSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, id: str) -> Response:
        """End it now, whatever it does; a call in flight is cut off."""
        run = self.get_object("task_id")
        reason = self.given(request, ReasonSerializer).get("reason") or f"by {request.user}"
        try:
            trigger.cancel(run, reason=reason, now=clock.now())
        except trigger.NotPossible as error:
            raise ApiError("INVALID_STATE", str(error)) from error
        return Response({"run_id": run.pk, "status": run.status})

    @extend_schema(
        parameters=[IDEMPOTENCY_KEY], request=BodySerializer, responses={202: RunIdSerializer}
    )
    @action(detail=True, methods=["post"])
    def replay(self, request: Request, id: str) -> Response:
        """The task as it is now, once more for the time that this run was for."""
        old = self.get_object("status", "task_id", "scheduled_time", "override_body", "force_async")
        values = self.given(request, BodySerializer)
        with asked():
            run = trigger.replay(old, now=clock.now(), key=request_key(request), **values)
        return Response({"run_id": run.pk}, status=status.HTTP_202_ACCEPTED)

    @extend_schema(
        request=RunBulkSerializer,
        responses={200: bulk.BulkDoneSerializer},
        operation_id="runs_bulk",
    )
    @action(detail=False, methods=["post"])
    def bulk(self, request: Request) -> Response:
        """Cancel or replay what a filter matches."""
        values = self.given(request, RunBulkSerializer)
        found = bulk.matching(TaskRun.objects.all(), RunFilter, values["filter"], request)
        found = found.select_related("task").defer(*HEAVY, "template", "override_body")
        verb = cancel_one if values["action"] == "cancel" else replay_one
        reason = values.get("reason") or f"by {request.user}"
        return Response(bulk.each(found, values, partial(verb, reason=reason)))

    def get_object(self, *needed: str) -> TaskRun:
        related = ("task",) if "task__name" in needed else (None,)
        runs = self.get_queryset().select_related(*related).only(*needed)
        run = runs.filter(pk=self.kwargs["id"]).first()
        if run is None:
            raise ApiError("NOT_FOUND", f"There is no run {self.kwargs['id']}.")
        return run


class TaskRunViewSet(RunViewSet):
    """The runs of one task, also of one that was deleted."""

    filterset_class = TaskRunFilter

    def get_queryset(self) -> QuerySet[TaskRun]:
        return super().get_queryset().filter(task=self.kwargs["id"])

    @extend_schema(responses={200: RunRowSerializer(many=True)}, operation_id="tasks_runs_list")
    def list(self, request: Request, **where: str) -> Response:
        """The runs of a task, newest first, also of one that was deleted."""
        if not Task.objects.filter(pk=where["id"]).exists():
            raise ApiError("NOT_FOUND", f"There is no task {where['id']}.")
        return super().list(request)


class PauseView(Endpoint):
    """Stop all firing, or that of a tag; what somebody triggers still runs."""

    scopes = {"post": "operate"}

    @extend_schema(responses={200: PausesSerializer})
    def get(self, request: Request) -> Response:
        """The pauses that hold."""
        return Response(PausesSerializer({"pauses": Pause.objects.order_by("tag")}).data)

    @extend_schema(request=PauseSerializer, responses={200: PausedSerializer})
    def post(self, request: Request) -> Response:
        """Nothing fires until it is resumed, or until the time given."""
        values, now = self.given(request, PauseSerializer), clock.now()
        until, tag = values.get("until"), values.get("tag", "")
        if until is not None and until <= now:
            raise invalid({"until": ["Must be in the future."]})
        made = pauses.pause(tag=tag, reason=values.get("reason", ""), until=until, now=now)
        return Response(PausedSerializer(made).data)


class ResumeView(Endpoint):
    """Fire again from now on; what passed is recorded as missed, and is not made up for."""

    scopes = {"post": "operate"}

    @extend_schema(request=ResumeSerializer, responses={200: ResumedSerializer})
    def post(self, request: Request) -> Response:
        """End the pause of a tag, or every pause."""
        values = self.given(request, ResumeSerializer)
        return Response({"resumed": pauses.resume(tag=values.get("tag"), now=clock.now())})


def cancel_one(run: TaskRun, dry: bool, *, reason: str) -> bulk.Done:
    with asked():
        if run.status in FINAL:
            raise trigger.NotPossible(f"The run is {run.status} already.")
        if not dry:
            trigger.cancel(run, reason=reason, now=clock.now())
    return bulk.CHANGED, "", None


def replay_one(run: TaskRun, dry: bool, *, reason: str) -> bulk.Done:
    with asked():
        if run.status not in FINAL:
            raise trigger.NotPossible(f"The run is {run.status}; it is not over.")
        if dry:
            trigger.try_out(run.task, Trigger.REPLAY, force_async=run.force_async)
        made = None if dry else trigger.replay(run, now=clock.now()).pk
    return bulk.CHANGED, "", made


@contextmanager
def asked() -> Iterator[None]:
    """What comes of asking for a run, in the words of the API."""
    try:
        yield
    except trigger.LimitReached as error:
        raise ApiError("CONCURRENCY_LIMIT", str(error)) from error
    except trigger.KeyReused as error:
        raise ApiError("IDEMPOTENCY_CONFLICT", str(error)) from error
    except trigger.NotPossible as error:
        raise ApiError("INVALID_STATE", str(error)) from error


def request_key(request: Request) -> str:
    """The Idempotency-Key; empty if none was given."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return ""
    if not KEY.fullmatch(key):
        raise invalid({"Idempotency-Key": ["Must be 1 to 255 visible ASCII characters."]})
    return key
