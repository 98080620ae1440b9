"""The OpenAPI description: every answer that can come, with the one shape of errors."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiResponse
from rest_framework import serializers

from cronjob.api.errors import CODES
from cronjob.api.examples import EXAMPLES, PROBES, Probe
from cronjob.api.keys import needed
from cronjob.api.views import ID_MAX

NUMBER = {"type": "integer", "minimum": 1, "maximum": ID_MAX}
HEADERS = {
    "ETag": "The version of the task, for If-Match.",
    "Location": "Where it is.",
    "Retry-After": "Seconds.",
}
TELLS_VERSION = (
    "tasks_create", "tasks_retrieve", "tasks_update", "tasks_partial_update",
    "tasks_restore_create",
)  # fmt: skip


class ErrorSerializer(serializers.Serializer[Any]):
    code = serializers.ChoiceField(choices=tuple(CODES))
    message = serializers.CharField()
    request_id = serializers.CharField()
    fields_ = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()), required=False
    )

    def get_fields(self) -> Any:
        fields = super().get_fields()
        fields["fields"] = fields.pop("fields_")
        return fields


class BearerScheme(OpenApiAuthenticationExtension):
    target_class = "cronjob.api.keys.KeyAuthentication"
    name = "key"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "A key from `createkey`."}


def one_of(answer: Any) -> Any:
    """Of a list its one row: the description puts the list around it again."""
    rows = answer.get("results", answer) if isinstance(answer, dict) else answer
    return rows[0] if isinstance(rows, list) else rows


class Schema(AutoSchema):
    def get_override_parameters(self) -> list[Any]:
        return []

    def get_summary(self) -> str | None:
        return EXAMPLES[self.get_operation_id()].summary

    def get_examples(self) -> list[Any]:
        """The body, and the answer to it."""
        example = EXAMPLES[self.get_operation_id()]
        told = []
        if example.body is not None:
            told.append(
                OpenApiExample("request", example.body, request_only=True, media_type="*/*")
            )
        if example.answer is not None:
            codes = ["200", "201", "202"]
            row = one_of(example.answer)
            told.append(OpenApiExample("answer", row, response_only=True, status_codes=codes))
        return told

    def get_description(self) -> str:  # type: ignore[override]
        if not self.view.permission_classes:
            return super().get_description()
        scope = needed(self.view.request, self.view)
        return f"{super().get_description()}\n\nScope: `{scope}`.".strip()

    def _resolve_path_parameters(self, variables: Any) -> Any:
        """The paths take any text, so that what is no id is told of in the one shape."""
        found = super()._resolve_path_parameters(variables)
        ours = {"type": "string", "format": "uuid"} if self.path.startswith("/jobs") else NUMBER
        return [one | ({"schema": ours} if one["name"] == "id" else {}) for one in found]

    def _get_response_bodies(self, direction: Any = "response") -> Any:
        bodies = super()._get_response_bodies(direction)
        for status, meaning in self.errors().items():
            told = OpenApiResponse(ErrorSerializer, description=meaning)
            bodies.setdefault(status, self._get_response_for_code(told, status))
        for status, body in bodies.items():
            if names := self.headers(status):
                kind = {"schema": {"type": "string"}}
                body["headers"] = {name: {"description": HEADERS[name]} | kind for name in names}
        return bodies

    def headers(self, status: str) -> list[str]:
        found = {"201": ["Location"], "429": ["Retry-After"]}.get(status, [])
        task = self.get_operation_id() in TELLS_VERSION and status in ("200", "201")
        return [*found, "ETag"] if task else found

    def errors(self) -> dict[str, str]:
        if self.method != "GET" and (told := getattr(self.view, "answers", None)):
            return dict(told)
        found = {
            "400": "Not JSON, or not valid: `fields` says what.",
            "401": "No valid key.",
            "403": "The key lacks the scope.",
        }
        if "{id}" in self.path:
            found["404"] = "There is no such thing."
        if self.method != "GET":
            found |= {"409": "Something else holds: `code` says what.", "413": "Too large."}
        return found


def with_probes(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """The views that are no endpoints of the framework are part of the description, too."""
    for path, probe in PROBES.items():
        result["paths"][path] = {"get": described(path, probe)}
    return result


def described(path: str, probe: Probe) -> dict[str, Any]:
    text = isinstance(probe.answer, str)
    kind = {"type": "string"} if text else {"type": "object"}
    content = {"schema": kind, "examples": {"answer": {"value": probe.answer}}}
    media = "text/plain" if text else "application/json"
    responses: dict[str, Any] = {"200": {"description": probe.summary, "content": {media: content}}}
    error = {"schema": {"$ref": "#/components/schemas/Error"}}
    for status, meaning in probe.statuses.items():
        what = content if status == "503" else error
        responses[status] = {"description": meaning, "content": {"application/json": what}}
    return {
        "operationId": path.rpartition("/")[2],
        "summary": probe.summary,
        "description": "No key is needed.",
        "tags": ["probes"],
        "parameters": [probe.parameter] if probe.parameter else [],
        "responses": responses,
        "security": [],
    }
