"""The same data by Django REST framework as it comes: no keys, no rules, nothing else written.

What any view of these tables costs: `gunicorn bench.bare:application`, with bench.bare_settings.
"""

from typing import Any

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()

from django.db import transaction  # noqa: E402
from django.urls import path  # noqa: E402
from rest_framework.generics import ListCreateAPIView, RetrieveAPIView  # noqa: E402
from rest_framework.request import Request  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.serializers import ModelSerializer  # noqa: E402
from rest_framework.views import APIView  # noqa: E402

from callbacks.models import AsyncCallback  # noqa: E402
from cronjob.lib import clock  # noqa: E402
from runs.models import TaskRun  # noqa: E402
from tasks.models import Task  # noqa: E402


class TaskSerializer(ModelSerializer[Task]):
    class Meta:
        model = Task
        fields = "__all__"
        extra_kwargs = {name: {"required": False} for name in ("created_at", "updated_at")}

    def create(self, given: Any) -> Task:
        now = clock.now()
        return super().create(given | {"created_at": now, "updated_at": now})


class Tasks(ListCreateAPIView[Task]):
    queryset = Task.objects.order_by("-id")
    serializer_class = TaskSerializer


class OneTask(RetrieveAPIView[Task]):
    queryset = Task.objects.all()
    serializer_class = TaskSerializer


class Trigger(APIView):
    """One row, for a task that is there."""

    def post(self, request: Request, pk: int) -> Response:
        task, now = Task.objects.get(pk=pk), clock.now()
        run = TaskRun.objects.create(
            task=task, trigger="MANUAL", scheduled_time=now, due_at=now, ready_at=now,
            created_at=now, updated_at=now,
        )  # fmt: skip
        return Response({"run_id": run.pk}, status=202)


class Callback(APIView):
    """The row of what came, and the end of the run that it came for."""

    def post(self, request: Request, pk: int) -> Response:
        now = clock.now()
        with transaction.atomic():
            run = TaskRun.objects.select_for_update().get(pk=pk)
            AsyncCallback.objects.create(
                task_run=run, task_id=run.task_id, received_at=now, status="RECEIVED",
                body=str(request.data),
            )  # fmt: skip
            run.status, run.end_time, run.callback_deadline = "CALLBACK_SUCCESS", now, None
            run.save(update_fields=["status", "end_time", "callback_deadline"])
        return Response({"status": run.status})


urlpatterns = [
    path("api/v1/tasks", Tasks.as_view()),
    path("api/v1/tasks/<int:pk>", OneTask.as_view()),
    path("api/v1/tasks/<int:pk>/trigger", Trigger.as_view()),
    path("api/v1/callbacks/<int:pk>", Callback.as_view()),
]
