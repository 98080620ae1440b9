"""What of a request and of its answer may be kept: no secrets, nothing that no database takes."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from cronjob.lib import http, masking
from cronjob.lib.masking import MASK

NAME_MAX, HEADER_MAX = 256, 8192
SECRET_LEAST = 6  # anything shorter would be found where it is not meant
WORDS = re.compile(r"[\s=]([^\s;,=]+=*)(?=[\s;,]|$)")  # abc of "Bearer abc" and "id=abc; x=y"


NAMES_LENGTH = 1024  # of all names of a message together, up to which they are remembered


class Names(NamedTuple):
    """What the names of a message's headers say of their values."""

    secret: tuple[str, ...]
    leading: tuple[str, ...]  # somewhere: their values are URLs
    plain: bool  # neither, and each is kept as it is


def look_at(values: Mapping[str, str], also: tuple[str, ...]) -> Names:
    names = tuple(values)
    short = sum(map(len, names)) <= NAMES_LENGTH
    return (seen if short else seen.__wrapped__)(names, also)


@lru_cache(maxsize=1024)  # the same few names come again and again
def seen(names: tuple[str, ...], also: tuple[str, ...]) -> Names:
    secret = tuple(name for name in names if is_secret(name, also))
    leading = tuple(name for name in names if name[-8:].lower() == "location")
    as_it_is = all(shown(name[:NAME_MAX]) == name for name in names)
    return Names(secret, leading, plain=as_it_is and not (secret or leading))


def is_secret(name: str, also: tuple[str, ...]) -> bool:
    # Our key tells a moment, and lets nobody in.
    patterns = () if name.lower() == "idempotency-key" else masking.HEADERS
    return masking.named(name, (*patterns, *also))


def found_secrets(request: http.Request, also: tuple[str, ...]) -> tuple[str, ...]:
    """The secrets of a request, to be known again if they turn up in an answer."""
    found = [request.headers[name] for name in look_at(request.headers, also).secret]
    found += [word for value in found for word in WORDS.findall(value)]
    if "?" in request.url:
        pairs = re.split("[&#]", request.url.partition("?")[2])
        hidden = [pair.partition("=")[2] for pair in pairs if masking.pair(pair) != pair]
        found += [*hidden, *map(unquote, hidden)]
    known = {text for text in found if len(text) >= SECRET_LEAST and text != MASK}
    return tuple(sorted(known, key=len, reverse=True))


def shown(text: str, known: Iterable[str] = (), paths: Iterable[str] = ()) -> str:
    """The text as it may be kept: without secrets, and without what no database keeps."""
    if not known and not paths and text.isascii() and "\x00" not in text:
        return text  # nearly always
    text = text.replace("\x00", "")
    if paths:
        text = masking.body(text, paths=paths).replace("\x00", "")  # which stood there as \u0000
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # half of a surrogate pair
    for secret in known:
        text = text.replace(secret, MASK)
    return text


def shown_headers(
    values: Mapping[str, str], also: tuple[str, ...], known: tuple[str, ...]
) -> dict[str, str]:
    secret, leading, plain = look_at(values, also)
    together = "".join(values.values())
    if plain and not known and len(together) <= HEADER_MAX and shown(together) is together:
        return dict(values)  # nearly always
    told = {}
    for name, value in values.items():
        text = shown(masking.url(value) if name in leading else value, known)
        text = MASK if name in secret else shortened(text, HEADER_MAX)
        told[shown(name, known)[:NAME_MAX]] = text
    return told


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
