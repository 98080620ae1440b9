"""JSON that every database can keep: no NUL, no half characters, no infinities, no abyss."""

import json
from typing import Any

DEPTH_MAX = 64
BITS_MAX = 3300  # about a thousand digits


class Unkeepable(ValueError):
    """A value that cannot be stored as it is."""


def loads(text: str | bytes) -> Any:
    """Read JSON, strictly."""
    try:
        value = json.loads(text, parse_constant=refuse, parse_float=finite)
    except RecursionError as error:
        raise Unkeepable("nested too deeply") from error
    check(value)
    return value


def encoding(text: bytes) -> str:
    """Of JSON that came in: one of the Unicode encodings."""
    return json.detect_encoding(text)


def refuse(constant: str) -> None:
    raise Unkeepable(f"{constant} is not a JSON number")


def finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise Unkeepable(f"{text[:32]} is too large a number")
    return value


def check(value: Any, *, depth: int = 0) -> None:
    if depth > DEPTH_MAX:
        raise Unkeepable(f"nested more than {DEPTH_MAX} levels deep")
    match value:
        case None | bool():
            pass
        case str():
            check_text(value)
        case int():
            if value.bit_length() > BITS_MAX:
                raise Unkeepable("a number has too many digits")
        case float():
            finite(str(value))
        case list():
            for item in value:
                check(item, depth=depth + 1)
        case dict():
            for name, item in value.items():
                check_text(name)
                check(item, depth=depth + 1)
        case _:
            raise Unkeepable(f"{type(value).__name__} is nothing that JSON has")


def check_text(text: str) -> None:
    if "\x00" in text:
        raise Unkeepable("text must not hold the character NUL")
    if not text.isascii():
        text.encode()  # half of a surrogate pair is a UnicodeEncodeError, which is a ValueError
