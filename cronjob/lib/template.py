"""The placeholders that a task's url, headers and body may hold, such as {{ run_id }}.

Nothing is escaped unless the template asks for tojson, and a value is never read as a template.
The date filter needs Django set up: its month and day names go through Django's translations.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from zoneinfo import ZoneInfo

from django.utils.dateformat import DateFormat
from django.utils.translation import override

TIMES = ("scheduled_time", "triggered_at")
_TEXTS = ("attempt", "trace_id", "callback_url", "callback_token")
NAMES = ("run_id", "task_id", "task_name", *TIMES, *_TEXTS)
NONE: frozenset[str] = frozenset()
CACHED_LENGTH = 64 * 1024
FORMAT_LENGTH = 100  # because every letter of a format is a call when rendering

# Every pattern is read left to right without choices to go back on: linear on any input.
_STOP = re.compile(r"""}}|"[^"]*"?|'[^']*'?""")
_QUOTED = re.compile(r""""[^"]*"|'[^']*'""")
_DATE = r"""(?:\s*\|\s*date\s*:\s*("[^"]*"|'[^']*'))?"""
_FILLED = re.compile(r"""([^\s|:"']+)""" + _DATE + r"(\s*\|\s*tojson)?(.*)", re.DOTALL)
_HELP = (
    f"Known names: {', '.join(NAMES)}. "
    """Filters: |date:"Y-m-d" for a time, then |tojson. """
    """To write braces literally, use {{ "{{" }} and {{ "}}" }}."""
)


class TemplateError(ValueError):
    """A template that cannot be read or filled in."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One name to fill in, with the filters its value goes through."""

    name: str
    date: str | None = None
    tojson: bool = False

    def render(self, values: Mapping[str, object], *, zone: ZoneInfo) -> str:
        """Return the text that takes the placeholder's place."""
        if self.name not in values:
            raise TemplateError(f"There is no value for {self.name}.")
        value = values[self.name]
        if isinstance(value, datetime):
            value = _told(value, date=self.date, zone=zone)
        elif self.date is not None and value is not None:
            raise TemplateError(f"The value of {self.name} is not a time.")
        if self.tojson:
            plain = value if value is None or isinstance(value, int) else str(value)
            return json.dumps(plain, ensure_ascii=False)
        return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Template:
    """A text read once, ready to be filled in many times."""

    parts: tuple[str | Placeholder, ...]
    names: frozenset[str]

    def render(self, values: Mapping[str, object], *, zone: ZoneInfo) -> str:
        """Return the text with every placeholder filled in; dates are told in the zone."""
        return "".join(
            part if isinstance(part, str) else part.render(values, zone=zone) for part in self.parts
        )


def parse(source: str) -> Template:
    """Read a template; short ones are remembered, and those without placeholders need not be."""
    if "{{" not in source:
        return Template(parts=(source,) if source else (), names=NONE)
    return (_read if len(source) <= CACHED_LENGTH else _read.__wrapped__)(source)


def literal(text: str) -> str:
    """Return the template that renders as this text, whatever braces it holds."""
    return text.replace("{{", '{{ "{{" }}')


def plain(source: str) -> str | None:
    """Return the text that a template always renders as; None if it has names to fill in."""
    parts = parse(source).parts
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(parts) else None


@lru_cache(maxsize=1024)
def _read(source: str) -> Template:
    parts: list[str | Placeholder] = []
    known: dict[str, str | Placeholder] = {}  # one used a thousand times is held once
    spot = 0
    while (start := source.find("{{", spot)) >= 0:
        end = _end(source, start=start)
        inside = source[start + 2 : end]
        if inside not in known:
            text = inside.strip()
            known[inside] = _expression(text, at=source.index(text, start + 2))
        parts += [source[spot:start], known[inside]]
        spot = end + 2
    parts.append(source[spot:])
    names = frozenset(part.name for part in known.values() if isinstance(part, Placeholder))
    return Template(parts=tuple(part for part in parts if part != ""), names=names)


def _end(source: str, *, start: int) -> int:
    """Return where the }} is that closes the placeholder, passing over quoted text."""
    for stop in _STOP.finditer(source, start + 2):
        if stop.group() == "}}":
            return stop.start()
    raise _error("{{ without its }}, or with a quote that is never closed", at=start)


def _expression(text: str, *, at: int) -> str | Placeholder:
    """Read what stands between the braces: a quoted text, or a name with its filters."""
    if _QUOTED.fullmatch(text):
        return text[1:-1]
    found = _FILLED.fullmatch(text)
    if found is None:
        raise _error(f'cannot read "{text:.40}"' if text else "an empty placeholder", at=at)
    name, date, tojson, rest = found.groups()
    if name not in NAMES:
        close = get_close_matches(name[:40].lower(), NAMES, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise _error(f'unknown name "{name:.40}"{hint}', at=at)
    if rest:
        left = rest.lstrip()
        raise _error(f'cannot read "{left:.40}" after {name}', at=at + len(text) - len(left))
    if date and (name not in TIMES or not 2 < len(date) <= FORMAT_LENGTH + 2):
        raise _error(f"date takes {' or '.join(TIMES)} and 1 to {FORMAT_LENGTH} letters", at=at)
    return Placeholder(name, date=date and date[1:-1], tojson=bool(tojson))


def _told(time: datetime, *, date: str | None, zone: ZoneInfo) -> str:
    """Write a time by Django's date format in the zone, or as RFC 3339 in UTC without one."""
    if time.utcoffset() is None or not 1 < time.year < 9999:
        raise TemplateError("A time to fill in has no time zone, or is at the calendar's edge.")
    if date is None:
        return _in_utc(time.astimezone(UTC))
    writer = DateFormat(time.astimezone(zone))
    # Django forgets the zone, and with it the offset, in the hour a clock change repeats.
    writer.timezone = zone
    with override(None):  # English, whatever language the request being served is in
        return writer.format(date)


@lru_cache(maxsize=256)  # many runs are due at the same moment
def _in_utc(time: datetime) -> str:
    spec = "milliseconds" if time.microsecond else "seconds"
    return time.isoformat(timespec=spec).removesuffix("+00:00") + "Z"


def _error(what: str, *, at: int) -> TemplateError:
    return TemplateError(f"Character {at + 1}: {what}. {_HELP}")
