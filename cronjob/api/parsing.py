"""Bodies: JSON whatever the Content-Type says, measured first and refused if it cannot be kept."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from cronjob.api.errors import ApiError
from cronjob.lib import keepable

BYTES_MAX = 4 * 2**20


class BodyParser(BaseParser):
    media_type = "*/*"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        request = (parser_context or {})["request"]
        if int(request.META.get("CONTENT_LENGTH") or 0) > BYTES_MAX:
            raise ApiError("PAYLOAD_TOO_LARGE", f"A body may hold {BYTES_MAX} bytes.")
        try:
            value = keepable.loads(stream.read(BYTES_MAX + 1))
        except ValueError as error:
            raise ParseError(f"The body is not JSON: {error}.") from error
        if not isinstance(value, dict):
            raise ApiError(
                "INVALID_ARGUMENT",
                "The body must be a JSON object.",
                fields={"body": ["Must be an object."]},
            )
        return value
