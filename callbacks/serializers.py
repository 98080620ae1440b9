"""What a report and its answer look like from outside."""

from typing import Any

from rest_framework import serializers

from callbacks.models import AsyncCallback, CallbackStatus
from callbacks.receive import Says
from cronjob.api import fields
from runs.states import Status

BEGINNING = 16_384  # characters of a body that a page shows


# What means nothing with another status is not looked at: it must not stand in the way of an end.
ONLY_WITH = {
    "error_message": Says.FAILED,
    "progress": Says.RUNNING, "message": Says.RUNNING, "extend": Says.RUNNING,
}  # fmt: skip


class AnythingField(serializers.JSONField):
    """Any JSON, as it stands."""

    def to_internal_value(self, data: Any) -> Any:
        return data


class ReportSerializer(serializers.Serializer[Any]):
    """What is not known here is kept with the callback, and means nothing to us."""

    status = serializers.ChoiceField(
        choices=[says.value for says in Says],
        # What was sent instead may be a secret, and the reason is kept for all to read.
        error_messages={"invalid_choice": "Must be SUCCESS, FAILED or RUNNING."},
    )
    data = AnythingField(  # type: ignore[assignment]
        required=False, allow_null=True, help_text="Anything; kept as it comes."
    )
    error_message = AnythingField(
        required=False, allow_null=True, help_text="With FAILED: what went wrong."
    )
    progress = fields.SecondsField(
        required=False, allow_null=True, min_value=0, max_value=1, help_text="With RUNNING: 0 to 1."
    )
    message = AnythingField(required=False, allow_null=True, help_text="With RUNNING: a few words.")
    extend = fields.FlagField(
        required=False,
        allow_null=True,
        help_text="With RUNNING: the deadline moves by `callback_timeout_sec`.",
    )

    def to_internal_value(self, data: Any) -> Any:
        says = data.get("status")
        meant = {k: v for k, v in data.items() if ONLY_WITH.get(k, says) == says}
        return super().to_internal_value(meant)


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
    callback_deadline = fields.TimeField(
        required=False, allow_null=True,
        help_text="Of progress: until when the end is awaited; null before the call is accepted.",
    )  # fmt: skip


class CallbackSerializer(serializers.Serializer[AsyncCallback]):
    """What came in, and whether it counted."""

    id = serializers.IntegerField()
    run_id = serializers.IntegerField(source="task_run_id")
    attempt = serializers.IntegerField()
    received_at = fields.TimeField()
    status = serializers.ChoiceField(choices=CallbackStatus.values)
    reason = serializers.CharField(help_text="Why it was ignored.")
    headers = serializers.DictField(child=serializers.CharField())
    body = serializers.CharField()


class CallbackRowSerializer(CallbackSerializer):
    """One in a page: no more than the beginning of its body is read."""

    body = serializers.CharField(source="beginning", help_text=f"The first {BEGINNING} characters.")
    body_cut = serializers.SerializerMethodField(help_text="Whether there is more of the body.")

    def get_body_cut(self, callback: Any) -> bool:
        return len(callback.beginning) < callback.length
