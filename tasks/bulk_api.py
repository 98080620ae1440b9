"""One verb for many tasks at once."""

from functools import partial
from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from cronjob.api import bulk, fields
from cronjob.api.bulk import CHANGED, UNCHANGED, Done
from cronjob.api.errors import ApiError, invalid
from cronjob.api.keys import allows, who
from cronjob.lib import clock
from runs import standing, trigger
from runs.api import asked
from runs.states import Trigger
from tasks import rules
from tasks.models import Task, TaskStatus

OPERATE, WRITE = ("enable", "disable", "trigger"), ("tag", "delete")


class TaskBulkSerializer(bulk.BulkSerializer):
    action = serializers.ChoiceField(choices=(*OPERATE, *WRITE))
    reason = fields.TextField(
        max_length=256, allow_blank=True, required=False, help_text="With `enable` or `disable`."
    )
    add_tags = fields.WordsField(required=False, help_text="With `tag`.")
    remove_tags = fields.WordsField(required=False, help_text="With `tag`.")

    def validate_add_tags(self, tags: list[str]) -> list[str]:
        try:
            return rules.check_tags(tags)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


class Bulk:
    """Part of the view set of tasks."""

    @extend_schema(
        request=TaskBulkSerializer,
        responses={200: bulk.BulkDoneSerializer},
        operation_id="tasks_bulk",
    )
    @action(detail=False, methods=["post"])
    def bulk(self: Any, request: Request) -> Response:
        """Enable, disable, trigger, tag or delete what a filter matches; `tag`, `delete`: write."""
        values = self.given(request, TaskBulkSerializer)
        name = values["action"]
        if name in WRITE and not allows(request, "write"):
            raise ApiError("FORBIDDEN", "This needs the scope write.")
        if name == "tag" and not (values.get("add_tags") or values.get("remove_tags")):
            raise invalid({"add_tags": ["Give add_tags, remove_tags or both."]})
        tasks = bulk.matching(Task.objects.live(), self.filterset_class, values["filter"], request)
        verb = partial(VERBS[name], values=values, by=who(request))
        return Response(bulk.each(tasks, values, verb))


def enable(task: Task, dry: bool, *, values: Any, by: str) -> Done:
    if task.status == TaskStatus.ENABLED:
        return UNCHANGED, "", None
    if not dry:
        standing.enable(task, reason=values.get("reason", ""), now=clock.now(), by=by)
    return CHANGED, "", None


def disable(task: Task, dry: bool, *, values: Any, by: str) -> Done:
    reason = values.get("reason", task.disabled_reason)
    if task.status == TaskStatus.DISABLED and task.disabled_reason == reason:
        return UNCHANGED, "", None
    if not dry:
        standing.disable(task, reason=reason, now=clock.now(), by=by)
    return CHANGED, "", None


def run(task: Task, dry: bool, *, values: Any, by: str) -> Done:
    with asked():
        if dry:
            trigger.try_out(task, Trigger.MANUAL)
            return CHANGED, "", None
        return CHANGED, "", trigger.trigger(task.pk, now=clock.now()).pk


def tag(task: Task, dry: bool, *, values: Any, by: str) -> Done:
    with transaction.atomic():
        task = Task.objects.select_for_update().get(pk=task.pk)
        kept = [tag for tag in task.tags if tag not in values.get("remove_tags", ())]
        try:
            tags = rules.check_tags([*kept, *values.get("add_tags", ())])
        except ValueError as error:
            raise invalid({"tags": [str(error)]}) from error
        if tags == task.tags:
            return UNCHANGED, "", None
        if not (dry or task.deleted):
            task.tags = tags
            standing.edit(task, now=clock.now(), by=by)
        return CHANGED, "", None


def delete(task: Task, dry: bool, *, values: Any, by: str) -> Done:
    if not dry:
        standing.delete(task, now=clock.now(), by=by)
    return CHANGED, "", None


VERBS: Any = {"enable": enable, "disable": disable, "trigger": run, "tag": tag, "delete": delete}
