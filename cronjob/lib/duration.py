"""Durations as people write them, such as "5m" or "1h30m", held as whole seconds."""

import re

DAY, HOUR, MINUTE = 86_400, 3_600, 60
LONGEST = 10 * 365 * DAY

# Bounds what int() is given, so that a megabyte of digits costs nothing.
_LONGEST_TEXT = 40
_SECONDS = re.compile(r"[0-9]+")
_UNITS = re.compile(r"(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?")
_HELP = (
    'Write it like "90s", "5m", "1h30m" or "2d" (whole numbers with the units d, h, m, s, '
    "each at most once and in that order), or as whole seconds."
)


class BadDuration(ValueError):
    """A duration that cannot be read or is out of range."""


def parse(text: str | int, *, zero: bool = False) -> int:
    """Return the seconds that a duration stands for; zero is refused unless asked for."""
    seconds = _read(text)
    if seconds < 0 or (seconds == 0 and not zero):
        raise BadDuration(f"A duration must be {'zero or more' if zero else 'more than zero'}.")
    if seconds > LONGEST:
        raise BadDuration(f"A duration must be at most 10 years ({LONGEST} seconds).")
    return seconds


def format(seconds: int) -> str:
    """Write seconds in hours, minutes and seconds, leaving out the units that are zero."""
    if seconds < 0:
        raise BadDuration("A duration cannot be negative.")
    hours, rest = divmod(seconds, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    units = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{unit}" for count, unit in units if count) or "0s"


def _read(text: object) -> int:
    """Return the number of seconds written, whatever its size."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    if not isinstance(text, str):
        raise BadDuration(f"A duration is text or whole seconds. {_HELP}")
    text = text.strip()
    if not text:
        raise BadDuration(f"The duration is empty. {_HELP}")
    if len(text) > _LONGEST_TEXT:
        raise BadDuration(f"The duration is over {_LONGEST_TEXT} characters long. {_HELP}")
    if _SECONDS.fullmatch(text):
        return int(text)
    found = _UNITS.fullmatch(text)
    if found is None:
        raise BadDuration(f'Cannot read "{text}" as a duration. {_HELP}')
    counts = (int(count or 0) for count in found.groups())
    return sum(count * size for count, size in zip(counts, (DAY, HOUR, MINUTE, 1), strict=True))
