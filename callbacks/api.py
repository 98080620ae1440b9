"""Callbacks over REST: what a target reports, by the token of an attempt or by ids."""

import json
from io import BytesIO
from typing import IO, Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from callbacks import receive
from callbacks.receive import Busy, Report, Says, Verdict
from callbacks.serializers import AnsweredSerializer, IdsSerializer, ReportSerializer
from cronjob.api.errors import ApiError, flat, invalid
from cronjob.api.telling import lasting
from cronjob.api.views import Endpoint
from cronjob.lib import clock, keepable
from runs.models import TaskRun
from runs.states import FINAL, Status

BYTES_MAX = 2**20
Understood = tuple[Report, dict[str, Any], ApiError | None]


class Receiving(Endpoint):
    """Whatever reaches us should be understood, or at least be kept."""

    takes_chunks = True

    def check_params(self, request: Request) -> None:
        """What is added to the path means nothing to us."""


def reads(request: Any) -> bool:
    return getattr(request, "method", "") in SAFE_METHODS


class TokenView(Receiving):
    """The end of an asynchronous run, from whoever holds the token of one of its attempts."""

    authentication_classes: Any = ()
    permission_classes: Any = ()
    answers = {
        "400": "Not JSON, or not valid: `fields` says what.",
        "404": "Nobody was given this token.",
        "410": "A failure of an attempt that is over, while another one is under way.",
        "413": "Larger than 1 MiB.",
        "429": "Too many reports in a minute; `Retry-After` says when the next may come.",
    }

    @extend_schema(
        request=ReportSerializer, responses={200: AnsweredSerializer}, operation_id="report"
    )
    def post(self, request: Request, token: str) -> Response:
        """First report wins. For a run that is over, the answer is how it ended."""
        known = receive.known(token)
        if known is None:
            raise refused(request)
        report, _, error = understood(request, ReportSerializer)
        try:  # the time is that of the whole report: its body may have taken a while
            verdict = receive.with_token(known, report, now=clock.now(), secret=token)
        except Busy as busy:
            raise too_many(busy.wait) from busy
        except TaskRun.DoesNotExist as gone:  # just now, and its tokens with it
            raise refused(request) from gone
        return told(verdict, error)

    @extend_schema(exclude=True)
    def get(self, request: Request, token: str) -> Response:
        """What was received is read by id, with a key."""
        raise ApiError("INVALID_ID", "The id of a callback is a whole number from 1.")

    def get_authenticators(self) -> list[Any]:
        return [of() for of in Endpoint.authentication_classes] if reads(self.request) else []

    def get_permissions(self) -> list[Any]:
        return [of() for of in Endpoint.permission_classes] if reads(self.request) else []

    @extend_schema(exclude=True)
    def put(self, request: Request, token: str) -> Response:
        return self.post(request, token)

    @extend_schema(exclude=True)
    def patch(self, request: Request, token: str) -> Response:
        return self.post(request, token)


class IdsView(Receiving):
    """The same from whoever holds a key and knows the run."""

    scopes = {"post": "operate", "put": "operate", "patch": "operate"}
    answers = {
        "400": "Not JSON, or not valid: `fields` says what.",
        "401": "No valid key.",
        "403": "The key lacks the scope.",
        "404": "The task has no such run.",
        "409": "The run awaits no callback.",
        "413": "Larger than 1 MiB.",
    }

    @extend_schema(
        request=IdsSerializer, responses={200: AnsweredSerializer}, operation_id="report_by_ids"
    )
    def post(self, request: Request) -> Response:
        """The run must be the task's, and await a callback or be over."""
        report, ids, error = understood(request, IdsSerializer)
        if error:
            raise error
        try:
            run = TaskRun.objects.only("id").get(pk=ids["run_id"], task_id=ids["task_id"])
            return told(receive.with_ids(run, report, now=clock.now()), None)
        except TaskRun.DoesNotExist as error:
            raise ApiError("NOT_FOUND", "The task has no such run.") from error

    @extend_schema(exclude=True)
    def put(self, request: Request) -> Response:
        return self.post(request)

    @extend_schema(exclude=True)
    def patch(self, request: Request) -> Response:
        return self.post(request)


def refused(request: Request) -> ApiError:
    """The same for every token that is not one; who tries many has to wait."""
    address = request.META.get("REMOTE_ADDR", "")[:45]
    if wait := receive.stranger(address, now=clock.now()):
        return too_many(wait)
    return ApiError("NOT_FOUND", "There is no such thing.")


def too_many(wait: int) -> ApiError:
    return ApiError("RATE_LIMITED", f"Too many. Wait {wait} s.", headers={"Retry-After": str(wait)})


def understood(request: Request, form: type[ReportSerializer]) -> Understood:
    """What the body says, and, where it says nothing, what is wrong with it."""
    headers = dict(request.headers)
    told = int(request.META.get("CONTENT_LENGTH") or 0)
    raw = b"" if told > BYTES_MAX else stream_of(request).read(BYTES_MAX + 1)
    if max(told, len(raw)) > BYTES_MAX:
        error = ApiError("PAYLOAD_TOO_LARGE", f"A report may hold {BYTES_MAX} bytes.")
        return Report(problem=error.message, headers=headers), {}, error
    try:
        values, body = read(raw, form)
    except ApiError as error:
        text = raw.decode(keepable.encoding(raw), "replace")
        return Report(problem=error.message, headers=headers, body=text), {}, error
    says = Says(values["status"])
    message = values.get("message" if says == Says.RUNNING else "error_message")
    report = Report(
        says=says, message=message, progress=values.get("progress"),
        extend=values.get("extend") or False, headers=headers, body=body,
    )  # fmt: skip
    return report, values, None


def stream_of(request: Request) -> IO[bytes]:
    """The body; one that comes in chunks ends by itself where the server says so."""
    if request.META.get("CONTENT_LENGTH") or not request.META.get("wsgi.input_terminated"):
        return request.stream or BytesIO()
    stream: IO[bytes] = request.META["wsgi.input"]
    return stream


def read(raw: bytes, form: type[ReportSerializer]) -> tuple[dict[str, Any], str]:
    """The values of the report, and its text."""
    try:
        value = json.loads(raw, parse_constant=keepable.refuse)
        body = raw.decode(keepable.encoding(raw), "replace")
    except RecursionError as error:
        raise ApiError("INVALID_JSON", "The body is nested too deeply.") from error
    except ValueError as error:
        raise ApiError("INVALID_JSON", f"The body is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise invalid({"body": ["Must be an object."]})
    try:
        return dict(lasting(form).run_validation(value)), body
    except serializers.ValidationError as error:
        raise invalid(flat(error.detail)) from error


def told(verdict: Verdict, error: ApiError | None) -> Response:
    if error:
        raise error
    if verdict.code:
        raise ApiError(verdict.code, verdict.ignored)
    run, status = verdict.run, verdict.run.status
    status = Status.SUCCESS if status == Status.CALLBACK_SUCCESS else status
    answer = {"run_id": run.pk, "final_status": status if run.status in FINAL else None}
    if status in (Status.RUNNING, Status.CALLBACK_PENDING):  # so that who asks for time knows
        answer["callback_deadline"] = clock.text(run.callback_deadline)
    return Response(answer)
