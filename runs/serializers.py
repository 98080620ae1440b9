"""What a run looks like from outside, and what may be asked of one."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from cronjob.api import fields
from cronjob.api.bulk import BulkSerializer
from cronjob.api.telling import told
from runs.models import Pause, TaskRun
from runs.states import Status, Trigger
from tasks.rules import check_body

MILLISECOND = timedelta(milliseconds=1)
# What a page of runs neither shows nor reads.
HEAVY = (
    "request_headers", "request_body", "response_headers", "response_body", "timings", "attempts",
)  # fmt: skip
UNSHOWN = (
    "template", "override_body", "request_key", "request_hash", "fence", "slot", "moment",
    "ready_at", "due_at", "deadline_at", "lost", "priority", "force_async",
)  # fmt: skip
DETAIL = [f.name for f in TaskRun._meta.concrete_fields if f.name not in UNSHOWN]
ROW = [name for name in DETAIL if name not in HEAVY]


class MissedSerializer(serializers.Serializer[TaskRun]):
    to = fields.TimeField(source="missed_to")
    count = serializers.IntegerField(source="missed_count")

    def get_fields(self) -> Any:
        return {"from": fields.TimeField(source="missed_from")} | super().get_fields()


class RunRowSerializer(serializers.Serializer[TaskRun]):
    """A run in a page: without bodies, headers, timings and earlier attempts."""

    id = serializers.IntegerField()
    uuid = serializers.UUIDField()
    task_id = serializers.IntegerField()
    task_name = serializers.CharField(source="task.name")
    trigger = serializers.ChoiceField(choices=Trigger.values)
    status = serializers.ChoiceField(choices=Status.values)
    reason = serializers.CharField(help_text="Why, if the status does not say.")
    attempt = serializers.IntegerField(help_text="0 until the first one begins.")
    max_attempts = serializers.IntegerField()
    scheduled_time = fields.TimeField()
    start_time = fields.TimeField(allow_null=True, help_text="Of the current attempt.")
    end_time = fields.TimeField(allow_null=True)
    lateness_ms = serializers.IntegerField(allow_null=True, help_text="Of the first attempt.")
    duration_ms = serializers.SerializerMethodField()
    request_method = serializers.CharField()
    request_url = serializers.CharField()
    response_code = serializers.IntegerField(allow_null=True)
    response_truncated = serializers.BooleanField()
    error_kind = serializers.CharField()
    error_message = serializers.CharField()
    next_retry_time = fields.TimeField(allow_null=True)
    callback_deadline = fields.TimeField(allow_null=True)
    progress = serializers.FloatField(allow_null=True)
    progress_message = serializers.CharField()
    trace_id = serializers.CharField()
    owner = serializers.CharField(allow_null=True, help_text="The process that called last.")
    missed = serializers.SerializerMethodField()
    created_at = fields.TimeField()
    updated_at = fields.TimeField()

    def get_duration_ms(self, run: TaskRun) -> int | None:
        if run.start_time is None or run.end_time is None:
            return None
        return max(0, (run.end_time - run.start_time) // MILLISECOND)

    @extend_schema_field(MissedSerializer(allow_null=True))
    def get_missed(self, run: TaskRun) -> dict[str, Any] | None:
        return told(MissedSerializer, run) if run.missed_count else None


class AttemptSerializer(serializers.Serializer[Any]):
    attempt = serializers.IntegerField()
    start_time = fields.TimeField(allow_null=True)
    end_time = fields.TimeField(allow_null=True)
    response_code = serializers.IntegerField(allow_null=True)
    error_kind = serializers.CharField()
    error_message = serializers.CharField()


class TimingsSerializer(serializers.Serializer[Any]):
    connect_ms = serializers.IntegerField(allow_null=True, required=False)
    first_byte_ms = serializers.IntegerField(allow_null=True, required=False)
    total_ms = serializers.IntegerField(allow_null=True, required=False)


class RunSerializer(RunRowSerializer):
    """One run with all that was sent and received, secrets masked."""

    request_headers = serializers.DictField(child=serializers.CharField())
    request_body = serializers.CharField()
    response_headers = serializers.DictField(child=serializers.CharField())
    response_body = serializers.CharField()
    timings = serializers.SerializerMethodField()
    attempts = serializers.SerializerMethodField(help_text="The earlier ones.")

    @extend_schema_field(TimingsSerializer)
    def get_timings(self, run: TaskRun) -> dict[str, Any]:
        return dict(run.timings)

    @extend_schema_field(AttemptSerializer(many=True))
    def get_attempts(self, run: TaskRun) -> list[dict[str, Any]]:
        return list(run.attempts)


class BodySerializer(fields.StrictSerializer):
    override_body = fields.TextField(
        allow_blank=True, trim_whitespace=False, required=False,
        help_text="Instead of the task's body; it may hold the same placeholders.",
    )  # fmt: skip

    def validate_override_body(self, body: str) -> str:
        try:
            return check_body(body)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


class TriggerSerializer(BodySerializer):
    force_async = fields.FlagField(
        required=False, help_text="Let a callback end this run, whatever the task says."
    )


class RunIdSerializer(serializers.Serializer[Any]):
    run_id = serializers.IntegerField()


class ReasonSerializer(fields.StrictSerializer):
    reason = fields.TextField(max_length=256, allow_blank=True, required=False)


class RunBulkSerializer(BulkSerializer):
    action = serializers.ChoiceField(choices=("cancel", "replay"))
    reason = fields.TextField(
        max_length=256, allow_blank=True, required=False, help_text="With `cancel`."
    )


class CanceledSerializer(serializers.Serializer[Any]):
    run_id = serializers.IntegerField()
    status = serializers.ChoiceField(choices=[Status.CANCELED.value])


class PauseSerializer(fields.StrictSerializer):
    reason = fields.TextField(max_length=256, allow_blank=True, required=False)
    until = fields.TimeField(required=False, allow_null=True, help_text="It ends by itself then.")
    tag = fields.TextField(
        max_length=64, allow_blank=True, required=False, help_text="Only tasks that carry it."
    )


class ResumeSerializer(fields.StrictSerializer):
    tag = fields.TextField(
        max_length=64, allow_blank=True, required=False,
        help_text="The pause of this tag, empty that of everything; else every pause.",
    )  # fmt: skip


class PausedSerializer(serializers.Serializer[Pause]):
    tag = serializers.CharField(help_text="Empty: everything.")
    reason = serializers.CharField()
    until = fields.TimeField(allow_null=True)
    created_at = fields.TimeField()


class PausesSerializer(serializers.Serializer[Any]):
    pauses = PausedSerializer(many=True)


class ResumedSerializer(serializers.Serializer[Any]):
    resumed = serializers.BooleanField(help_text="Whether there was a pause to end.")
