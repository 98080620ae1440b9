"""Ksana's dialect at /jobs: the same tasks in the JSON of its document."""

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from cronjob.api import fields
from cronjob.api.errors import ApiError, invalid
from cronjob.api.keys import allows, who
from cronjob.api.views import Endpoint
from cronjob.lib import clock, masking
from runs import standing, trigger
from runs.api import asked
from runs.models import TaskRun
from runs.states import SUCCEEDED, Status
from tasks import dialect, intake, models
from tasks.models import ScheduleKind, Task, TaskStatus

UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
BATCH = 1000

LAST_STATUS = {
    **dict.fromkeys(SUCCEEDED, "success"),
    **dict.fromkeys((Status.FAILED, Status.FAILED_TIMEOUT, Status.CANCELED), "failed"),
    Status.TIMEOUT: "timeout",
    Status.SKIPPED: "skipped",
    Status.MISSED: "missed",
}
SYSTEM = ("created_at", "updated_at")
STATUSES = ("", "success", "failed", "timeout", "skipped", "paused", "missed")


@extend_schema_field({"type": "string", "examples": ["5m", "1m30s", "500ms"]})
class SpanField(serializers.Field[Any, Any, Any, Any]):
    """A duration as Go writes it; seconds inside."""

    def __init__(self, *, least: float = 0, most: float, part: bool = False, **how: Any) -> None:
        self.least, self.most, self.part = least, most, part
        super().__init__(**how)

    def to_internal_value(self, data: Any) -> float | int:
        try:
            found = dialect.seconds(data) if self.part else dialect.whole(data)
        except dialect.BadJob as error:
            raise serializers.ValidationError(str(error)) from error
        if not self.least <= found <= self.most:
            least, most = dialect.written(self.least), dialect.written(self.most)
            raise serializers.ValidationError(f"Must be from {least} to {most}.")
        return int(found) if found == int(found) else found

    def to_representation(self, value: Any) -> Any:
        return value


def said(data: Any, *names: str, nothing: Sequence[Any] = (None, "")) -> Any:
    """Go writes also what nobody gave, with an empty value: that is not given."""
    if not isinstance(data, dict):
        return data
    return {n: value for n, value in data.items() if n not in names or value not in nothing}


@extend_schema_field({"type": "string", "oneOf": [{"format": "date-time"}, {"maxLength": 0}]})
class MaybeTimeField(fields.TimeField):
    """Empty text is answered where there is none."""


class HttpSerializer(fields.StrictSerializer):
    method = serializers.ChoiceField(choices=models.HttpMethod.choices, required=False)
    url = fields.TextField(max_length=2048)
    headers = fields.HeadersField(required=False)
    body = fields.TextField(allow_blank=True, trim_whitespace=False, required=False)

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value(said(data, "headers", "body", nothing=(None,)))


class ScheduleSerializer(fields.StrictSerializer):
    kind = serializers.ChoiceField(choices=("every", "once", "cron", "manual"))
    every = SpanField(least=1, most=10 * 365 * 86400, required=False)
    start_at = MaybeTimeField(required=False)
    jitter = SpanField(most=10 * 365 * 86400, required=False)
    run_at = fields.TimeField(required=False)
    cron = fields.TextField(required=False)

    def to_internal_value(self, data: Any) -> Any:
        names = set(self.fields) - {"kind"}
        return super().to_internal_value(said(data, *names, nothing=(None, "", "0s")))

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        kind = given["kind"]
        needed = {"every": "every", "once": "run_at", "cron": "cron"}.get(kind)
        if needed and needed not in given:
            raise serializers.ValidationError({needed: [f"{kind} needs it."]})
        shared = ("start_at", "jitter") if needed else ()
        for name in given:
            if name not in ("kind", needed, *shared):
                raise serializers.ValidationError({name: [f"Not with {kind}."]})
        return given


class JobSerializer(fields.StrictSerializer):
    """A job of Ksana's."""

    id = fields.TextField(required=False, allow_blank=True)
    name = fields.TextField(max_length=128)
    enabled = fields.FlagField(required=False)
    type = serializers.ChoiceField(choices=("http", "job", "node"), required=False)
    http = HttpSerializer()
    schedule = ScheduleSerializer()
    timeout = SpanField(least=0.1, most=86400, part=True, required=False)
    max_retries = fields.CountField(min_value=0, max_value=100, required=False)
    retry_backoff = SpanField(most=86400, part=True, required=False)
    last_run_at = serializers.CharField(read_only=True, help_text="Empty: never.")
    next_run_at = serializers.CharField(read_only=True, help_text="Empty: never again.")
    last_status = serializers.ChoiceField(choices=STATUSES, read_only=True)
    last_error = serializers.CharField(read_only=True)

    def to_internal_value(self, data: Any) -> Any:
        """System fields may be sent back, also those that we have no use for."""
        if isinstance(data, dict):
            data = {name: value for name, value in data.items() if name not in SYSTEM}
        return super().to_internal_value(said(data, "id", "timeout", "retry_backoff"))

    def to_representation(self, instance: Any) -> Any:
        return instance  # it is in these words already


class JobPatchSerializer(JobSerializer):
    """Any part of a job; nested parts are merged, null takes one away."""


class NothingSerializer(fields.StrictSerializer):
    """A verb that says all by itself."""


class AskedSerializer(serializers.Serializer[Any]):
    run_id = serializers.UUIDField(help_text="As it is sent in X-Ksana-Run-Id.")


class JobViewSet(Endpoint, viewsets.GenericViewSet[Task]):
    """Tasks as jobs of Ksana's."""

    queryset = Task.objects.live()
    serializer_class = JobSerializer
    pagination_class = None
    filter_backends = ()
    lookup_url_kwarg = "id"
    scopes = {"run_now": "operate", "pause": "operate", "resume": "operate"}

    @extend_schema(responses={200: JobSerializer(many=True)})
    def list(self, request: Request) -> Response:
        """All jobs, by their age."""
        found: Any = []
        last = 0
        while batch := list(self.get_queryset().filter(pk__gt=last).order_by("pk")[:BATCH]):
            found += self.told(batch)
            last = batch[-1].pk
        return Response(found)

    @extend_schema(responses={201: JobSerializer})
    def create(self, request: Request) -> Response:
        """A new job; a well-formed id is kept, and a once that has passed is missed at once."""
        job = self.given(request, JobSerializer)
        if job.get("type", "http") != "http":
            raise invalid({"type": ["A new job is http."]})
        with transaction.atomic():
            now = clock.now()
            with in_their_words():
                task = Task(**intake.scheduled(dialect.new(job), current=None))
            if given := job.get("id"):
                task.uuid = free(given)
            if not job.get("enabled", True):
                task.status = TaskStatus.DISABLED
            self.save(standing.create, task, now=now, by=who(request), before=None)
            place = reverse("job-detail", kwargs={"id": task.uuid})
            return self.one(task, status.HTTP_201_CREATED, Location=place)

    def retrieve(self, request: Request, id: str) -> Response:
        """One job."""
        return self.one(self.get_object())

    @extend_schema(request=JobPatchSerializer(partial=True), responses={200: JobSerializer})
    def partial_update(self, request: Request, id: str) -> Response:
        """Change parts of a job."""
        changes = dict(request.data)
        with transaction.atomic():
            now = clock.now()
            self.queryset = Task.objects.live().select_for_update()
            task = self.get_object()
            asked = self.changed(task, changes)
            before = task.run_at
            with in_their_words():
                new = intake.scheduled(dialect.values_of(asked, current=task), current=task)
            for name, value in (new | intake.unmasked(new, task)).items():
                setattr(task, name, value)
            self.save(standing.edit, task, now=now, by=who(request), before=before)
            self.switch(task, asked.get("enabled"), now=now)
            return self.one(task)

    @extend_schema(responses={204: None})
    @transaction.atomic
    def destroy(self, request: Request, id: str) -> Response:
        """It never runs again."""
        standing.delete(self.get_object(), now=clock.now(), by=who(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses={202: AskedSerializer})
    @action(detail=True, methods=["post"], url_path="run-now")
    def run_now(self, request: Request, id: str) -> Response:
        """Run it once, at once; when it is due next does not change."""
        self.given(request, NothingSerializer)
        with asked():
            run = trigger.trigger(self.get_object().pk, now=clock.now())
        return Response({"run_id": str(run.uuid)}, status=status.HTTP_202_ACCEPTED)

    @extend_schema(request=None, responses={200: JobSerializer})
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, id: str) -> Response:
        """Disable it."""
        self.given(request, NothingSerializer)
        return self.switched(False)

    @extend_schema(request=None, responses={200: JobSerializer})
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, id: str) -> Response:
        """Enable it; what passed meanwhile is not made up for."""
        self.given(request, NothingSerializer)
        return self.switched(True)

    # --- how it is done ---------------------------------------------------------------------

    def check_id(self) -> None:
        text = self.kwargs.get("id")
        if text is not None and not UUID.fullmatch(text):
            raise ApiError("INVALID_ID", "The id of a job is a UUID.")

    def get_object(self) -> Task:
        task = self.get_queryset().filter(uuid=uuid.UUID(self.kwargs["id"])).first()
        if task is None:
            raise ApiError("NOT_FOUND", f"There is no job {self.kwargs['id']}.")
        return task

    def changed(self, task: Task, changes: dict[str, Any]) -> dict[str, Any]:
        """The parts of the job that are given, each whole again and checked."""
        shown = dialect.job_of(task)
        changes = said(changes, "id")
        if empty := [name for name in changes if changes[name] is None and name in shown]:
            raise invalid({name: ["Must not be null."] for name in empty})
        if changes.get("type", shown["type"]) != shown["type"]:
            raise invalid({"type": [f"It is {shown['type']}, and stays that."]})
        whole = dialect.merged(shown, changes)
        serializer = JobSerializer(data={name: whole[name] for name in changes}, partial=True)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def save(self, verb: Any, task: Task, *, now: Any, by: str, before: Any) -> None:
        with in_their_words():
            intake.check(task, now=now, rescheduled=False)
        try:
            verb(task, now=now, by=by)
        except standing.NameTaken as error:
            raise ApiError("NAME_TAKEN", str(error)) from error
        due = task.schedule_kind == ScheduleKind.ONCE and task.run_at
        if due and due != before and due <= now and task.status == TaskStatus.ENABLED:
            standing.miss(task, due, now=now)

    def switch(self, task: Task, enabled: bool | None, *, now: Any) -> None:
        if enabled is True:
            standing.enable(task, now=now, by=who(self.request))
        elif enabled is False:
            standing.disable(task, reason="", now=now, by=who(self.request))

    @transaction.atomic
    def switched(self, enabled: bool) -> Response:
        self.queryset = Task.objects.live().select_for_update()
        task = self.get_object()
        self.switch(task, enabled, now=clock.now())
        return self.one(task)

    def one(self, task: Task, code: int = status.HTTP_200_OK, **headers: str) -> Response:
        return Response(self.told([task])[0], status=code, headers=headers)

    def told(self, tasks: Sequence[Task]) -> Sequence[dict[str, Any]]:
        ended = TaskRun.objects.ended_of(tasks)
        begun = TaskRun.objects.begun_of(tasks)
        whole = allows(self.request, "write")  # others do not see the secrets of a job
        return [told(t, ended.get(t.pk), begun.get(t.pk), whole=whole) for t in tasks]


NAMES = {
    "target_url": "http.url", "http_method": "http.method", "headers": "http.headers",
    "body_template": "http.body", "cron_expr": "schedule.cron", "every": "schedule.every",
    "run_at": "schedule.run_at", "start_at": "schedule.start_at", "jitter": "schedule.jitter",
    "schedule_kind": "schedule.kind", "timeout_seconds": "timeout",
    "retry_policy": "retry_backoff",
}  # fmt: skip


@contextmanager
def in_their_words() -> Iterator[None]:
    """What is wrong is told by the names that a job has."""
    try:
        yield
    except ValidationError as error:
        named = {NAMES.get(name, name): told for name, told in error.message_dict.items()}
        raise ValidationError(named) from error


def told(task: Task, ended: TaskRun | None, begun: TaskRun | None, *, whole: bool) -> Any:
    job = dialect.job_of(task)
    if not whole:
        http = job["http"]
        http["url"] = masking.url(http["url"])
        http["headers"] = masking.headers(http["headers"], also=task.secret_headers)
        http["body"] = masking.body(http["body"], paths=task.secret_paths)
    last = LAST_STATUS[Status(ended.status)] if ended else ""
    if ended is None and task.status == TaskStatus.DISABLED:
        last = "paused"
    failed = ended is not None and ended.status not in SUCCEEDED
    return job | {
        "last_run_at": clock.text(begun.start_time) if begun else "",
        "next_run_at": clock.text(task.next_run_at) or "",
        "last_status": last,
        "last_error": (ended.error_message or ended.reason) if ended and failed else "",
    }


def free(text: str) -> uuid.UUID:
    """The id that a client gives its job; also deleted ones keep theirs."""
    if not UUID.fullmatch(text):
        raise invalid({"id": ["Must be a UUID, or empty."]})
    found = uuid.UUID(text)
    if Task.objects.filter(uuid=found).exists():
        raise ApiError("NAME_TAKEN", f"The id {found} is taken.")
    return found
