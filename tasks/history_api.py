"""What became of a task over time: its changes, an earlier version again, and why it ran or not."""

from datetime import datetime
from typing import Any

from django.db import transaction
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from cronjob.api.errors import ApiError, invalid
from cronjob.api.fields import TimeField
from cronjob.api.keys import who
from cronjob.api.paging import Pages
from cronjob.api.telling import told
from cronjob.lib import clock
from runs import standing
from runs.explain import explain, local
from runs.models import TaskRun
from runs.serializers import ROW
from tasks import intake
from tasks.changes import Change
from tasks.models import Task
from tasks.schedule import EARLIEST, LATEST
from tasks.serializers import (
    ChangeSerializer,
    ExplainedSerializer,
    RestoreSerializer,
    TaskSerializer,
)

AT = OpenApiParameter(
    "at", str, required=True,
    description="RFC 3339; without an offset it is a time by the task's own clock.",
)  # fmt: skip
IF_MATCH = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description='`"<version>"`')


class History:
    """Actions of tasks that look back; part of the view set of tasks."""

    @extend_schema(responses={200: ChangeSerializer(many=True)}, operation_id="tasks_changes_list")
    @action(detail=True, params=("page", "page_size"), pagination_class=Pages, filterset_class=None)
    def changes(self: Any, request: Request, id: str) -> Response:
        """Who changed what, newest first."""
        log = Change.objects.filter(task=self.get_object()).defer("values").order_by("-id")
        page = self.paginate_queryset(log)
        return self.get_paginated_response([told(ChangeSerializer, change) for change in page])

    @extend_schema(
        parameters=[IF_MATCH], request=RestoreSerializer, responses={200: TaskSerializer}
    )
    @action(detail=True, methods=["post"])
    def restore(self: Any, request: Request, id: str) -> Response:
        """Make the task what it was in an earlier version; its secrets stay what they are."""
        self.get_object()
        version = self.given(request, RestoreSerializer)["version"]
        with transaction.atomic():
            now, task = clock.now(), self.locked(request)
            values = self.of_version(task, version)
            planned = task.run_at
            new = intake.scheduled(values, current=None)
            new |= intake.unmasked(values, task)
            new |= intake.secrets_kept(new, task)
            for name, value in new.items():
                setattr(task, name, value)
            intake.check(task, now=now, rescheduled=task.run_at != planned)
            how = {"by": who(request), "reason": f"back to version {version}"}
            self.save(standing.edit, task, now=now, **how)
            return self.one(task)

    @extend_schema(parameters=[AT], responses={200: ExplainedSerializer})
    @action(detail=True, params=("at",))
    def explain(self: Any, request: Request, id: str) -> Response:
        """Why it ran or did not run at a time, in words and data."""
        task, now = self.get_object(), clock.now()
        at, odd = asked_about(task, request.query_params.get("at", ""))
        told = explain(task, at, now=now)
        told.notes += [odd] if odd else []
        if told.run:
            told.run = (
                TaskRun.objects.only(*ROW, "task__name").select_related("task").get(pk=told.run.pk)
            )
        context = {"zone": task.schedule().zone}
        return Response(ExplainedSerializer(told, context=context).data)

    def of_version(self, task: Task, version: int) -> dict[str, Any]:
        """What the task said of itself then, in the values of its columns."""
        log = Change.objects.filter(task=task, version=version).order_by("-id")
        change = log.first()
        if change is None or not change.values:
            raise ApiError("NOT_FOUND", f"The log of the task has no version {version}.")
        known = {name: value for name, value in change.values.items() if name != "anchor"}
        said = TaskSerializer(data=known)
        said.is_valid(raise_exception=True)
        return dict(said.validated_data)


def asked_about(task: Task, text: str) -> tuple[datetime, str]:
    """The instant, and what is odd about it."""
    try:
        # A plus sign that nobody escaped arrives as a space.
        text = text.replace(" ", "+") if "T" in text.upper() else text
        wall = datetime.fromisoformat(text)
        naive = wall.tzinfo is None
        at, odd = local(task, wall) if naive else (TimeField().run_validation(text), "")
        if not EARLIEST <= at <= LATEST:
            raise ValueError(text)
        return at, odd
    except (ValueError, OverflowError):
        raise invalid({"at": ["Must be a time such as 2026-01-31T12:00:00Z."]}) from None
    except serializers.ValidationError as error:
        raise invalid({"at": [str(problem) for problem in error.detail]}) from error
