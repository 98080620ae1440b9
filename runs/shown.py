"""What of a request and of its answer may be kept: no secrets, nothing that no database takes."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import unquote

from cronjob.lib import http, masking
from cronjob.lib.masking import MASK

HEADER_MAX = 8192
SECRET_LEAST = 6  # anything shorter would be found where it is not meant
WORDS = re.compile(r"[\s=]([^\s;,=]+=*)(?=[\s;,]|$)")  # abc of "Bearer abc" and "id=abc; x=y"


@lru_cache(maxsize=4096)  # the same few names come again and again
def header(name: str, also: tuple[str, ...]) -> tuple[str, bool, bool]:
    """As it is kept, whether its value is secret, and whether that is a URL."""
    return shown(name), is_secret(name, also), name[-8:].lower() == "location"


@lru_cache(maxsize=4096)
def is_secret(name: str, also: tuple[str, ...]) -> bool:
    # Our key tells a moment, and lets nobody in.
    patterns = () if name.lower() == "idempotency-key" else masking.HEADERS
    return masking.named(name, (*patterns, *also))


def found_secrets(request: http.Request, also: tuple[str, ...]) -> tuple[str, ...]:
    """The secrets of a request, to be known again if they turn up in an answer."""
    found = [value for name, value in request.headers.items() if is_secret(name, also)]
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
    values: Mapping[str, str], also: tuple[str, ...], known: Iterable[str]
) -> dict[str, str]:
    told = {}
    for name, value in values.items():
        kept, secret, leads = header(name[:256], also)
        text = MASK if secret else shown(masking.url(value) if leads else value, known)
        kept = shown(name, known)[:256] if known else kept
        told[kept] = shortened(text, HEADER_MAX)
    return told


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
