"""Who is asking, and what they may do: a key or a console login, and the scope of each verb."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from rest_framework import authentication, exceptions
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from cronjob.api.errors import ApiError
from cronjob.api.models import ApiKey

# What a person's rights in the console are worth here.
PERMISSIONS = {
    "read": ("tasks.view_task",),
    "operate": ("tasks.operate_task",),
    "write": ("tasks.add_task", "tasks.change_task", "tasks.delete_task"),
}


class KeyUser(AnonymousUser):
    """Stands for a key where Django and DRF expect a user."""

    is_authenticated = True  # type: ignore[assignment]

    def __init__(self, key: ApiKey) -> None:
        super().__init__()
        self.key = key

    def __str__(self) -> str:
        return f"key {self.key.name}"


class KeyAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer <key>`; `Token` means the same."""

    def authenticate(self, request: Request) -> tuple[KeyUser, ApiKey] | None:
        kind, _, text = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if kind.lower() not in ("bearer", "token"):
            return None
        found = ApiKey.objects.find(text.strip())
        if found is None:
            raise exceptions.AuthenticationFailed("This key is unknown, expired or revoked.")
        key, now = found
        key.used(now)
        request.META["cronjob.user"] = f"key {key.name}"
        return KeyUser(key), key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class HasScope(BasePermission):
    """Each view names the scope of each of its verbs; what is not named needs `write`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not request.user or not request.user.is_authenticated:
            raise exceptions.NotAuthenticated("Send `Authorization: Bearer <key>`.")
        scope = needed(request, view)
        if allows(request, scope):
            return True
        raise ApiError("FORBIDDEN", f"This needs the scope {scope}.")


def who(request: Request) -> str:
    """Who asks, as the change log names them."""
    return str(request.user) if isinstance(request.auth, ApiKey) else f"user {request.user}"


def needed(request: Request, view: Any) -> str:
    action = getattr(view, "action", None) or (request.method or "").lower()
    scopes: dict[str, str] = getattr(view, "scopes", {})
    return scopes.get(action, "read" if request.method in SAFE_METHODS else "write")


def allows(request: Request, scope: str) -> bool:
    if isinstance(request.auth, ApiKey):
        return request.auth.allows(scope)
    return scope in PERMISSIONS and request.user.has_perms(PERMISSIONS[scope])
