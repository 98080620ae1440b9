"""The form of a task: the same rules as everywhere, since Task.clean() has them."""

from typing import Any

from django import forms

from cronjob.console import base
from cronjob.console.forms import (
    BodyField,
    DurationField,
    HeadersField,
    JsonField,
    PartsField,
    WordsField,
)
from cronjob.lib import clock
from tasks import intake
from tasks.models import MOMENT_FIELD, SCHEDULE_FIELDS, Task, default_retry_policy
from tasks.rules import DELAY_MAX, STRATEGIES

NUMBER = base.UnfoldAdminIntegerFieldWidget
SWITCH = base.UnfoldBooleanSwitchWidget

RETRY_PARTS: dict[str, tuple[str, forms.Field]] = {
    "max_retries": ("Retries", forms.IntegerField(min_value=0, max_value=100, widget=NUMBER)),
    "strategy": (
        "Delay grows",
        forms.ChoiceField(
            choices=[(name, name) for name in STRATEGIES], widget=base.UnfoldAdminSelectWidget
        ),
    ),
    "initial_delay": (
        "First delay, seconds",
        forms.FloatField(min_value=0, max_value=DELAY_MAX, widget=NUMBER),
    ),
    "max_delay": (
        "Longest delay, seconds",
        forms.FloatField(min_value=0, max_value=DELAY_MAX, widget=NUMBER),
    ),
    "jitter": ("Vary by 20 %", forms.BooleanField(required=False, widget=SWITCH)),
    "retry_on_callback_failure": (
        "Also when a callback reports failure",
        forms.BooleanField(required=False, widget=SWITCH),
    ),
}


class RetryField(PartsField):
    def compress(self, data_list: Any) -> dict[str, Any]:
        policy = super().compress(data_list)
        for name in ("initial_delay", "max_delay"):
            if isinstance(policy.get(name), float) and policy[name].is_integer():
                policy[name] = int(policy[name])
        return policy


class ScheduleForm(forms.ModelForm):
    """When a task runs; by itself it is what a preview is made from."""

    every_seconds = DurationField(label="Every", help_text="Such as 90s, 5m or 1h30m.")
    jitter_seconds = DurationField(
        label="Jitter", zero=True, help_text="Spread starts over this time; empty: none."
    )

    class Meta:
        model = Task
        fields = SCHEDULE_FIELDS
        help_texts = {
            "cron_expr": "Minute, hour, day, month, weekday; six with the second first; @daily.",
            "run_at": "In UTC.",
            "start_at": "In UTC; no moment before it.",
            "end_at": "In UTC; no moment after it.",
        }

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        for name in set(given) - set(self.changed_data) - {"opened_version"}:
            if self.instance.pk:  # what is shown may be less exact than what is kept
                given[name] = getattr(self.instance, name)
        for kind, field in MOMENT_FIELD.items():
            if kind != given.get("schedule_kind"):  # the form does not show it
                given[field] = None
                self.errors.pop(field, None)
        return given

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # runs Task.clean()
        if not self.errors and ("run_at" in self.changed_data or not self.instance.pk):
            try:
                self.instance.check_moment(now=clock.now())
            except forms.ValidationError as error:
                self._update_errors(error)  # type: ignore[attr-defined]


class TaskForm(ScheduleForm):
    """Keeps the version it was opened at, so that two people do not undo each other's work."""

    opened_version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    tags = WordsField(help_text="Words by commas; a tag can be paused as a whole.")
    body_template = BodyField(label="Body")
    work = JsonField(
        required=False,
        widget=base.UnfoldAdminTextareaWidget,
        help_text="A JSON object: queue and job_type for JOB, model for NODE.",
    )
    headers = HeadersField(help_text="One “Name: value” a line. Placeholders are filled in.")
    secret_headers = WordsField(
        help_text="Further headers to mask in runs; Authorization, Cookie, *-Token and *-Key are."
    )
    secret_paths = WordsField(
        help_text="Parts of JSON bodies to mask, such as user.password or items.*.key."
    )
    retry_policy = RetryField(RETRY_PARTS, label="Retries", initial=default_retry_policy)

    class Meta(ScheduleForm.Meta):
        fields = None  # type: ignore[assignment]
        exclude = ("status",)  # noqa: DJ006  all that is editable; enabling is a verb of its own

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk and "opened_version" in self.fields:
            self.fields["opened_version"].initial = self.instance.version

    def clean(self) -> dict[str, Any]:
        given = super().clean()
        opened = given.get("opened_version")
        if opened is not None and opened != self.instance.version:
            problem = "Somebody else has changed this task meanwhile. Open it again to see how."
            raise forms.ValidationError(problem, code="version")
        name = (given.get("name") or "").strip()
        if Task.objects.filter(live_name=name).exclude(pk=self.instance.pk).exists():
            self.add_error("name", "Another task has this name.")
        if problem := intake.out_of_reach(given.get("exec_type", "")):
            self.add_error("exec_type", problem)
        return given
