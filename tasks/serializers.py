"""What a task and its moments look like from outside."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from cronjob.api import fields
from cronjob.api.telling import told
from runs.explain import VERDICTS, Explanation
from runs.models import TaskRun
from runs.serializers import RunRowSerializer
from tasks import models
from tasks.changes import Change, Verb
from tasks.models import Task
from tasks.preview import MOMENTS_MAX, Moment


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
    tags = fields.WordsField(required=False)
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
    headers = fields.HeadersField(required=False)
    body_template = fields.TextField(allow_blank=True, trim_whitespace=False, required=False)
    connect_timeout_seconds = fields.SecondsField(min_value=0.1, max_value=86400, required=False)
    timeout_seconds = fields.SecondsField(min_value=0.1, max_value=86400, required=False)
    follow_redirects = fields.FlagField(required=False)
    secret_headers = fields.WordsField(required=False)
    secret_paths = fields.WordsField(required=False)
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
        """Without its secrets, unless somebody said that this one may be told whole."""
        found: dict[str, Any] = super().to_representation(instance)
        return found if vars(instance).get("whole") else found | instance.masked()

    @extend_schema_field(LastRunSerializer(allow_null=True))
    def get_last_run(self, task: Task) -> dict[str, Any] | None:
        run = vars(task).get("last_run")
        return told(LastRunSerializer, run) if run else None


class PreviewSerializer(TaskSerializer):
    """The schedule fields of a task, which need not exist."""

    count = fields.CountField(min_value=1, max_value=MOMENTS_MAX, required=False, default=10)

    def get_fields(self) -> dict[str, Any]:
        known = super().get_fields()
        since = fields.TimeField(required=False, help_text="Moments after this one; else now.")
        names = ("schedule_kind", "cron_expr", "every", "run_at", "start_at", "end_at", "jitter")
        return {n: known[n] for n in (*names, "timezone", "count")} | {"from": since}


class MomentSerializer(serializers.Serializer[Moment]):
    at = fields.TimeField()
    local = serializers.SerializerMethodField(help_text="In the task's time zone.")
    fires_at = fields.TimeField(help_text="The moment and its share of the jitter.")
    note = serializers.CharField(allow_null=True, help_text="What daylight saving did.")

    def get_local(self, moment: Moment) -> str:
        return moment.local.isoformat()


class MomentsSerializer(serializers.Serializer[Any]):
    moments = MomentSerializer(many=True)


class DescribedMomentsSerializer(MomentsSerializer):
    description = serializers.CharField()


class StatusSerializer(serializers.Serializer[Any]):
    status = serializers.ChoiceField(choices=models.TaskStatus.choices)


class ChangeSerializer(serializers.Serializer[Change]):
    """One step from a version of a task to the next; secrets masked."""

    id = serializers.IntegerField()
    at = fields.TimeField()
    who = serializers.CharField(help_text="A key, a user of the console, an import, the system.")
    verb = serializers.ChoiceField(choices=Verb.choices)
    reason = serializers.CharField()
    version = serializers.IntegerField(help_text="That it led to.")
    changes = serializers.SerializerMethodField(help_text="What was changed, old and new.")

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "object"}})
    def get_changes(self, change: Change) -> dict[str, Any]:
        return {n: {"old": change.old[n], "new": change.new[n]} for n in change.new}


class RestoreSerializer(fields.StrictSerializer):
    version = fields.CountField(min_value=1, help_text="The one to go back to.")


class ExplainedSerializer(serializers.Serializer[Explanation]):
    """Why a task ran or did not run at some time."""

    at = fields.TimeField()
    local = serializers.SerializerMethodField(help_text="In the task's time zone.")
    verdict = serializers.ChoiceField(choices=VERDICTS)
    summary = serializers.CharField(help_text="The same in words.")
    run = RunRowSerializer(allow_null=True)
    blocked_by = serializers.ListField(child=serializers.IntegerField())
    by = serializers.CharField(help_text="Who disabled it.")
    since = fields.TimeField(allow_null=True, help_text="Of the outage, or of being disabled.")
    until = fields.TimeField(allow_null=True)
    previous = fields.TimeField(allow_null=True, help_text="The moment before.")
    next = fields.TimeField(allow_null=True, help_text="The moment after.")
    notes = serializers.ListField(child=serializers.CharField(), help_text="Odd days nearby.")

    @extend_schema_field({"type": "string", "format": "date-time"})
    def get_local(self, told: Explanation) -> str:
        return told.at.astimezone(self.context["zone"]).isoformat()


class DeletedSerializer(serializers.Serializer[Any]):
    deleted = serializers.BooleanField()
