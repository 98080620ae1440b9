"""What must not be read by whoever may not change it: masked by name, in headers, URLs, bodies."""

import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

MASK = "********"
HEADERS = ("authorization", "proxy-authorization", "cookie", "set-cookie", "*-token", "*-key")
PARAMETERS = ("*token*", "*key*", "*secret*")


def headers(values: Mapping[str, str], *, also: Iterable[str] = ()) -> dict[str, str]:
    """The same headers; those that carry credentials, or are named in `also`, without values."""
    names = (*HEADERS, *(name.lower() for name in also))
    return {name: MASK if named(name, names) else value for name, value in values.items()}


def url(text: str) -> str:
    """The same URL; query values whose names speak of secrets are gone."""
    start, mark, query = text.partition("?")
    if not mark:
        return text
    query, hash_, fragment = query.partition("#")
    return start + mark + "&".join(pair(p) for p in query.split("&")) + hash_ + fragment


def pair(text: str) -> str:
    name, equals, _ = text.partition("=")
    return name + equals + MASK if equals and named(name, PARAMETERS) else text


def origin(text: str) -> str:
    """Whom a URL leads to, and how: a secret for one is none of another's business."""
    scheme, _, rest = text.partition("://")
    return f"{scheme}://{re.split('[/?#]', rest, maxsplit=1)[0]}".lower()


def url_unmasked(shown: str, present: str) -> str:
    """The URL with the query values of the present one where it shows none."""
    start, mark, query = shown.partition("?")
    pairs = (part.partition("=") for part in present.partition("?")[2].partition("#")[0].split("&"))
    known = {name: value for name, _, value in pairs}
    parts = (part.partition("=") for part in query.split("&"))
    return start + mark + "&".join(
        name + equals + (known.get(name, value) if value == MASK else value)
        for name, equals, value in parts
    )  # fmt: skip


def body_unmasked(shown: str, present: str) -> str:
    """The JSON with what stands in the present one where it shows nothing."""
    if MASK not in shown:
        return shown
    try:
        filled = instead(json.loads(shown), json.loads(present))
    except (ValueError, RecursionError):
        return shown
    return json.dumps(filled, ensure_ascii=False)


def instead(shown: Any, present: Any) -> Any:
    if shown == MASK:
        return present
    if isinstance(shown, dict) and isinstance(present, dict):
        return {k: instead(v, present.get(k, v)) for k, v in shown.items()}
    if isinstance(shown, list) and isinstance(present, list) and len(shown) == len(present):
        return [instead(v, p) for v, p in zip(shown, present, strict=True)]
    return shown


def forgotten(text: str, before: str, *, paths: Iterable[str]) -> str:
    """The JSON without the secrets that stand in it as they did before."""
    try:
        value, old = json.loads(text), json.loads(before)
    except (ValueError, RecursionError):
        return "" if text == before else text
    for path in paths:
        value = unlike(value, old, path.split("."))
    return json.dumps(value, ensure_ascii=False)


def unlike(value: Any, old: Any, path: list[str]) -> Any:
    if not path:
        return "" if value == old else value
    first, rest = path[0], path[1:]
    if isinstance(value, dict) and isinstance(old, dict):
        return {
            k: unlike(v, old[k], rest) if first in ("*", k) and k in old else v
            for k, v in value.items()
        }
    if isinstance(value, list) and isinstance(old, list):
        hit = [first in ("*", str(n)) and n < len(old) for n in range(len(value))]
        return [unlike(v, old[n], rest) if hit[n] else v for n, v in enumerate(value)]
    return value


def body(text: str, *, paths: Iterable[str], mask: str = MASK) -> str:
    """The same JSON without what the paths lead to; what is not JSON is not shown at all."""
    paths = list(paths)
    if not paths or not text:
        return text
    try:
        value = json.loads(text)
        for path in paths:
            value = without(value, path.split("."), mask)
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return mask


def without(value: Any, path: list[str], mask: str) -> Any:
    """The value with what stands at the path masked; `*` is any name or place."""
    if not path:
        return mask
    first, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {k: without(v, rest, mask) if first in ("*", k) else v for k, v in value.items()}
    if isinstance(value, list):
        hit = enumerate(value)
        return [without(v, rest, mask) if first in ("*", str(n)) else v for n, v in hit]
    return value


TOKEN_PATH = re.compile(r"(/callbacks/+)[^/\s?\"']+")
TOKEN = re.compile(r"\b[0-9a-f]{32}\b")  # as callback tokens look


def path(text: str) -> str:
    """Any text in which a path may stand, without the token of a callback."""
    return TOKEN_PATH.sub(rf"\1{MASK}", text) if "/callbacks/" in text else text


def tokens(text: str) -> str:
    return TOKEN.sub(MASK, text)


# A connection's URL as it should be; of anything else nothing is shown.
CONNECTION = re.compile(
    r"((?:postgres|postgresql|sqlite|redis|rediss)://)(?:([^\s:@/?#,\[\]]*)(:[^\s:@/?#,\[\]]*)?@)?"
    r"([^\s@?#,]*)(?:\?[^\s@#,]*)?"
)


def password(text: str) -> str:
    """The URL of a connection without its password and its query."""
    found = CONNECTION.fullmatch(text)
    if not found:
        return MASK
    scheme, user, secret, rest = found.groups()
    who = "" if user is None else f"{user}:{MASK}@" if secret else f"{user}@"
    return f"{scheme}{who}{rest}"


def named(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern) for pattern in patterns)
