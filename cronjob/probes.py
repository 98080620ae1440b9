"""What machines ask: alive, ready, which version, and the figures."""

import hmac
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from cronjob import __version__
from cronjob.api.errors import ApiError, invalid, plain
from cronjob.lib import clock, metrics
from cronjob.middleware import local
from runs.models import Process


def probe(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Only asks, is never cached, and refuses like every other path."""

    @csrf_exempt
    @never_cache
    @wraps(view)
    def asked(request: HttpRequest) -> HttpResponse:
        if request.method in ("GET", "HEAD"):
            return view(request)
        refused = ApiError(
            "METHOD_NOT_ALLOWED",
            f"{request.method} is not allowed here.",
            headers={"Allow": "GET, HEAD"},
        )
        return plain(refused)

    return asked


@probe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is asked."""
    return HttpResponse("ok", content_type="text/plain")


@probe
def health(request: HttpRequest) -> HttpResponse:
    """The same in Ksana's words."""
    return JsonResponse({"status": "ok"})


@probe
def version(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"v{__version__}", content_type="text/plain")


@probe
def readyz(request: HttpRequest) -> HttpResponse:
    """503 without the database or with migrations to do; on the scheduler only if asked."""
    if request.GET.get("require", "scheduler") != "scheduler":
        return plain(invalid({"require": ["Only `scheduler` can be required."]}))
    found = {"database": "ok", "migrations": "ok", "scheduler": "degraded"}
    try:
        found["migrations"] = "ok" if migrated() else "pending"
        found["scheduler"] = "ok" if beating() else "degraded"
    except DatabaseError:
        found["database"] = "down" if not reachable() else found["database"]
        found["migrations"] = "unknown" if found["database"] == "down" else "pending"
    needed = ["database", "migrations"]
    if request.GET.get("require") == "scheduler":
        needed.append("scheduler")
    ready = all(found[name] == "ok" for name in needed)
    return JsonResponse(found, status=200 if ready else 503)


def reachable() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def migrated() -> bool:
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())


def beating() -> bool:
    """Whether some scheduler renewed its lease in time."""
    return Process.objects.filter(lease_until__gt=clock.now(), draining=False).exists()


@probe
def figures(request: HttpRequest) -> HttpResponse:
    """Prometheus text, for whoever holds the token, or for this machine where there is none."""
    if not may_read_figures(request):
        hint = "Send the CRONJOB_METRICS_TOKEN as a bearer token, or ask from this machine."
        return plain(
            ApiError("UNAUTHENTICATED" if settings.CRONJOB_METRICS_TOKEN else "FORBIDDEN", hint)
        )
    text: Any = metrics.text()
    return HttpResponse(text, content_type=metrics.CONTENT_TYPE)


def may_read_figures(request: HttpRequest) -> bool:
    if settings.CRONJOB_METRICS_PUBLIC:
        return True
    if not settings.CRONJOB_METRICS_TOKEN:
        return local(request)
    _, _, given = request.headers.get("Authorization", "").partition(" ")
    return hmac.compare_digest(given.encode(), settings.CRONJOB_METRICS_TOKEN.encode())
