"""Every path there is. They are written without a trailing slash; with one they work too."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.urls import include, path, register_converter
from django.views.generic import RedirectView
from rest_framework.routers import SimpleRouter

from callbacks.api import TokenView
from callbacks.reading_api import CallbackView, CallbackViewSet, RunCallbackViewSet
from cronjob import demo, probes
from cronjob.api import docs, errors
from runs.api import PauseView, ResumeView, RunViewSet, TaskRunViewSet
from tasks import ksana
from tasks.api import TaskViewSet


class Anything:
    """A token that is none may hold a slash or a line break, and is answered like any other."""

    regex = r"[\s\S]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class Digits(Anything):
    """What may be the id of something; a token is longer."""

    regex = "[0-9]{1,19}"


admin.autodiscover()
register_converter(Anything, "anything")
register_converter(Digits, "digits")
CALLBACKS: dict[str, Any] = {"get": "list", "post": "post", "put": "put", "patch": "patch"}

router = SimpleRouter(trailing_slash=False, use_regex_path=False)
ksana_router = SimpleRouter(trailing_slash=False, use_regex_path=False)
ksana_router.register("jobs", ksana.JobViewSet, basename="job")
router.register("tasks", TaskViewSet, basename="task")
router.register("runs", RunViewSet, basename="run")

urlpatterns: list[Any] = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("favicon.ico", RedirectView.as_view(url=f"{settings.STATIC_URL}console/icon.svg")),
    path("healthz", probes.healthz),
    path("readyz", probes.readyz),
    path("version", probes.version),
    path("metrics", probes.figures, name="metrics"),
    path("api/schema", docs.SchemaView.as_view(), name="schema"),
    path("api/docs", docs.DocsView.as_view(), name="docs"),
    path("api/v1", docs.IndexView.as_view(), name="index"),
    path("api/v1/healthz", probes.healthz),
    path("api/v1/readyz", probes.readyz),
    path("api/v1/version", probes.version),
    path("api/v1/callbacks", CallbackViewSet.as_view(CALLBACKS), name="callbacks"),
    path("api/v1/callbacks/<digits:id>", CallbackView.as_view(), name="callback-detail"),
    path("api/v1/callbacks/<anything:token>", TokenView.as_view(), name="callback"),
    path("api/v1/tasks/<str:id>/runs", TaskRunViewSet.as_view({"get": "list"}), name="task-runs"),
    path("api/v1/runs/<str:id>/callbacks", RunCallbackViewSet.as_view({"get": "list"})),
    path("api/v1/pause", PauseView.as_view(), name="pause"),
    path("api/v1/resume", ResumeView.as_view(), name="resume"),
    path("api/v1/", include(router.urls)),
    path("health", probes.health),
    path("", include(ksana_router.urls)),
]
if settings.CRONJOB_DEMO:
    urlpatterns.append(path("demo/echo", demo.echo))

handler400 = errors.bad_request
handler404 = errors.not_found
handler500 = errors.internal
