"""The one shape of every error: {"code", "message", "request_id"}, and "fields" for bad input."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import (
    PermissionDenied,
    RequestDataTooBig,
    ValidationError,
)
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views import csrf, defaults
from rest_framework import exceptions
from rest_framework.response import Response

from cronjob.lib.log import request_id

logger = logging.getLogger(__name__)

# Every code a client may see, with its status: the table of docs/api.md.
CODES: dict[str, HTTPStatus] = {
    "INVALID_JSON": HTTPStatus.BAD_REQUEST,
    "INVALID_ARGUMENT": HTTPStatus.BAD_REQUEST,
    "INVALID_ID": HTTPStatus.BAD_REQUEST,
    "UNAUTHENTICATED": HTTPStatus.UNAUTHORIZED,
    "FORBIDDEN": HTTPStatus.FORBIDDEN,
    "NOT_FOUND": HTTPStatus.NOT_FOUND,
    "METHOD_NOT_ALLOWED": HTTPStatus.METHOD_NOT_ALLOWED,
    "NAME_TAKEN": HTTPStatus.CONFLICT,
    "CONCURRENCY_LIMIT": HTTPStatus.CONFLICT,
    "VERSION_CONFLICT": HTTPStatus.CONFLICT,
    "INVALID_STATE": HTTPStatus.CONFLICT,
    "IDEMPOTENCY_CONFLICT": HTTPStatus.CONFLICT,
    "GONE": HTTPStatus.GONE,
    "PAYLOAD_TOO_LARGE": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "RATE_LIMITED": HTTPStatus.TOO_MANY_REQUESTS,
    "INTERNAL": HTTPStatus.INTERNAL_SERVER_ERROR,
}


class ApiError(exceptions.APIException):
    """An error with one of the codes above."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        fields: Mapping[str, list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.fields, self.headers = fields, headers or {}


def invalid(fields: Mapping[str, list[str]]) -> ApiError:
    """What was given is not valid; the message tells the first of it, `fields` all."""
    name, (first, *_) = next(iter(fields.items()))
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    return ApiError("INVALID_ARGUMENT", f"{name}: {first}{more}", fields=fields)


def answer(error: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's exception handler: whatever went wrong, in the one shape."""
    from rest_framework.views import set_rollback  # which imports us, by way of its settings

    set_rollback()
    told = understood(error)
    return Response(envelope(told), status=CODES[told.code], headers=dict(told.headers))


def envelope(error: ApiError) -> dict[str, Any]:
    body: dict[str, Any] = {
        "code": error.code,
        "message": error.message,
        "request_id": request_id.get(),
    }
    return body | ({"fields": dict(error.fields)} if error.fields else {})


def understood(error: Exception) -> ApiError:
    """The same error in our words."""
    match error:
        case ApiError():
            return error
        case exceptions.ValidationError():
            return invalid(flat(error.detail))
        case ValidationError():
            return invalid(told_fields(error))
        case exceptions.ParseError():
            return ApiError("INVALID_JSON", str(error.detail))
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            headers = {"WWW-Authenticate": getattr(error, "auth_header", "Bearer")}
            return ApiError("UNAUTHENTICATED", str(error.detail), headers=headers)
        case exceptions.PermissionDenied() | PermissionDenied():
            return ApiError("FORBIDDEN", str(error) or "Not allowed.")
        case exceptions.NotFound() | Http404():
            return ApiError("NOT_FOUND", "There is no such thing.")
        case exceptions.MethodNotAllowed():
            return ApiError("METHOD_NOT_ALLOWED", str(error.detail))
        case exceptions.Throttled():
            headers = {"Retry-After": str(int(getattr(error, "wait", None) or 1))}
            return ApiError("RATE_LIMITED", str(error.detail), headers=headers)
        case RequestDataTooBig():
            return ApiError("PAYLOAD_TOO_LARGE", "The body is too large.")
    logger.error("a request failed", extra={"action": "request"}, exc_info=error)
    return ApiError("INTERNAL", "Something went wrong on our side.")


def flat(detail: Any, name: str = "") -> dict[str, list[str]]:
    """Nested errors as `a.b[0]` -> messages."""
    if isinstance(detail, Mapping):
        pairs = ((f"{name}.{key}" if name else str(key), part) for key, part in detail.items())
    elif any(isinstance(part, list | dict) for part in detail):
        pairs = ((f"{name}[{index}]", part) for index, part in enumerate(detail))
    else:
        return {name or "body": [str(part) for part in detail]}
    return {key: texts for at, part in pairs if part for key, texts in flat(part, at).items()}


def told_fields(error: ValidationError) -> dict[str, list[str]]:
    return error.message_dict if hasattr(error, "error_dict") else {"body": error.messages}


def for_machines(request: HttpRequest) -> bool:
    """Whether whoever asks expects JSON rather than a page."""
    return not request.path_info.startswith(("/admin", "/static"))


def plain(error: ApiError) -> JsonResponse:
    """The same answer outside of DRF."""
    return JsonResponse(envelope(error), status=CODES[error.code], headers=dict(error.headers))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return plain(ApiError("PAYLOAD_TOO_LARGE", "The body is too large."))
    return plain(ApiError("INVALID_ARGUMENT", "The request is not valid."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if for_machines(request):
        return plain(ApiError("NOT_FOUND", "There is no such path."))
    return defaults.page_not_found(request, exception)


def internal(request: HttpRequest) -> HttpResponse:
    if for_machines(request):
        return plain(ApiError("INTERNAL", "Something went wrong on our side."))
    return defaults.server_error(request)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    if for_machines(request):
        return plain(ApiError("FORBIDDEN", f"CSRF check failed: {reason}"))
    return csrf.csrf_failure(request, reason=reason)
