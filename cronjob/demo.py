"""The three demo tasks, and the endpoint on this machine that they call."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from cronjob.api.errors import ApiError, plain
from cronjob.lib import masking
from cronjob.middleware import local
from runs import standing
from tasks.models import ScheduleKind, Task

ECHO_MAX = 64 * 1024
PATH = "/demo/echo"

DEMOS: list[dict[str, Any]] = [
    {
        "name": "demo: every ten seconds",
        "description": "Calls the echo endpoint of this machine. Change it, or delete it.",
        "schedule_kind": ScheduleKind.EVERY,
        "every_seconds": 10,
    },
    {
        "name": "demo: every minute, by cron",
        "description": "Posts a body with placeholders; look at a run to see them filled in.",
        "schedule_kind": ScheduleKind.CRON,
        "cron_expr": "0 * * * * *",
        "http_method": "POST",
        "headers": {"Content-Type": "application/json"},
        "body_template": '{"run": {{ run_id }}, "due": {{ scheduled_time|tojson }}}',
    },
    {
        "name": "demo: when you say so",
        "description": "Has no schedule; trigger it yourself.",
        "schedule_kind": ScheduleKind.MANUAL,
    },
]


def install(origin: str, *, make: bool, now: datetime) -> None:
    """Let the demo tasks call `origin`; make those that are not there, if wanted."""
    for values in DEMOS:
        demo = Task.objects.live().filter(name=values["name"]).first()
        if demo is None and make:
            demo = Task(**values, tags=["demo"], target_url=origin + PATH)
            demo.full_clean(validate_unique=False, validate_constraints=False)
            standing.create(demo, now=now, by="up")
        elif demo and demo.target_url.endswith(PATH) and demo.target_url != origin + PATH:
            demo.target_url = origin + PATH
            standing.edit(demo, now=now, by="up")


def present() -> bool:
    names = [values["name"] for values in DEMOS]
    return Task.objects.live().filter(name__in=names, target_url__endswith=PATH).exists()


@csrf_exempt
def echo(request: HttpRequest) -> HttpResponse:
    """Answers with what it was sent; to this machine alone."""
    if not local(request):
        return plain(ApiError("FORBIDDEN", "The demo endpoint answers this machine only."))
    if int(request.META.get("CONTENT_LENGTH") or 0) > ECHO_MAX:
        return plain(ApiError("PAYLOAD_TOO_LARGE", f"A body may hold {ECHO_MAX} bytes."))
    told = masking.headers(request.headers, also=("x-cronjob-callback-url",))
    body = masking.tokens(masking.path(request.body.decode(errors="replace")))
    return JsonResponse({"method": request.method, "headers": told, "body": body})
