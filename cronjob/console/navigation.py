"""The side bar: places by what people do there."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy


def may(permission: str) -> Callable[[HttpRequest], bool]:
    return lambda request: request.user.has_perm(permission)


def place(title: str, icon: str, view: str, permission: str = "") -> dict[str, Any]:
    item: dict[str, Any] = {"title": title, "icon": icon, "link": reverse_lazy(view)}
    return item | ({"permission": may(permission)} if permission else {})


def group(title: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "separator": True, "items": list(items)}


def items(request: HttpRequest) -> list[dict[str, Any]]:
    groups = [
        {"items": [place("Overview", "monitoring", "admin:index")]},
        group(
            "Scheduling",
            place("Tasks", "schedule", "admin:tasks_task_changelist", "tasks.view_task"),
            place("Changes", "history", "admin:tasks_change_changelist", "tasks.view_task"),
            place("Runs", "play_circle", "admin:runs_taskrun_changelist", "runs.view_taskrun"),
            place(
                "Callbacks",
                "call_received",
                "admin:callbacks_asynccallback_changelist",
                "callbacks.view_asynccallback",
            ),
        ),
        group(
            "Access",
            place("API keys", "key", "admin:api_apikey_changelist", "api.view_apikey"),
            place("Users", "person", "admin:auth_user_changelist", "auth.view_user"),
            place("Groups", "group", "admin:auth_group_changelist", "auth.view_group"),
        ),
        group("Developers", place("API docs", "api", "docs", "tasks.view_task")),
    ]
    for entry in groups:
        seen = [i for i in entry["items"] if i.get("permission", lambda _: True)(request)]
        entry["items"] = seen
    return [entry for entry in groups if entry["items"]]


def stylesheet(request: HttpRequest) -> str:
    return static("console/console.css")


def icon(request: HttpRequest) -> str:
    return static("console/icon.svg")
