"""What a report and its answer look like from outside."""

from typing import Any

from rest_framework import serializers

from callbacks.receive import Says
from cronjob.api import fields
from runs.states import Status


class ReportSerializer(serializers.Serializer[Any]):
    """What is not known here is kept with the callback, and means nothing to us."""

    status = serializers.ChoiceField(choices=[says.value for says in Says])
    data = serializers.JSONField(  # type: ignore[assignment]
        required=False, allow_null=True, help_text="Anything; kept as it comes."
    )
    error_message = fields.TextField(
        required=False, allow_null=True, allow_blank=True, help_text="With FAILED: what went wrong."
    )
    progress = fields.SecondsField(
        required=False, allow_null=True, min_value=0, max_value=1, help_text="With RUNNING: 0 to 1."
    )
    message = fields.TextField(
        required=False, allow_null=True, allow_blank=True, help_text="With RUNNING: a few words."
    )
    extend = fields.FlagField(
        required=False,
        allow_null=True,
        help_text="With RUNNING: the deadline moves by `callback_timeout_sec`.",
    )


class IdsSerializer(ReportSerializer):
    task_id = fields.CountField(min_value=1)
    run_id = fields.CountField(min_value=1)


class AnsweredSerializer(serializers.Serializer[Any]):
    run_id = serializers.IntegerField()
    final_status = serializers.ChoiceField(
        choices=[*Status.values],
        allow_null=True,
        help_text="CALLBACK_SUCCESS is told as SUCCESS; null: the run goes on.",
    )
