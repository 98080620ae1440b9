"""Bodies: JSON whatever the Content-Type says, measured first and refused if it cannot be kept."""

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from cronjob.api.errors import ApiError

BYTES_MAX = 4 * 2**20
DEPTH_MAX = 64


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
        value = loads(stream.read(BYTES_MAX + 1))
        if not isinstance(value, dict):
            raise ApiError(
                "INVALID_ARGUMENT",
                "The body must be a JSON object.",
                fields={"body": ["Must be an object."]},
            )
        return value


def loads(body: bytes) -> Any:
    """JSON that every database can keep: no NUL, no half characters, no infinities."""
    try:
        value = json.loads(body, parse_constant=refuse, parse_float=finite)
        check(value, depth=0)
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ParseError(f"The body is not JSON: {problem}.") from error
    return value


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:32]} is too large a number")
    return value


def check(value: Any, *, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise ValueError(f"nested more than {DEPTH_MAX} levels deep")
    match value:
        case str():
            check_text(value)
        case list():
            for item in value:
                check(item, depth=depth + 1)
        case dict():
            for name, item in value.items():
                check_text(name)
                check(item, depth=depth + 1)


def check_text(text: str) -> None:
    if "\x00" in text:
        raise ValueError("text must not hold the character NUL")
    if not text.isascii():
        text.encode()  # half of a surrogate pair is a UnicodeEncodeError, which is a ValueError
