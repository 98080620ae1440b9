"""The only importer of croniter: what a cron expression may say, in one stored form."""

import re

from croniter import CroniterError, croniter

LONGEST = 256
MACROS = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
FIELDS = ("second", "minute", "hour", "day of month", "month", "day of week")


class BadCron(ValueError):
    """A cron expression that is not one, or that would surprise."""


def normalise(expression: str) -> str:
    """The stored form: six fields by one space each, seconds first."""
    if len(expression) > LONGEST:
        raise BadCron(f"At most {LONGEST} characters.")
    if not expression.isascii() or not expression.isprintable():
        raise BadCron("Only plain ASCII characters.")
    words = MACROS.get(expression.strip().lower(), expression).split()
    if len(words) == 5:
        words.insert(0, "0")
    if len(words) != 6:
        raise BadCron("Five fields (minute first) or six (second first), or a macro like @daily.")
    for name, word in zip(FIELDS, words, strict=True):
        refuse_surprises(name, word)
    normal = " ".join(words)
    try:
        croniter.expand(normal, second_at_beginning=True, strict=True)
    except (CroniterError, ValueError) as error:
        raise BadCron(f"Not a cron expression: {error}") from error
    return normal


def refuse_surprises(name: str, word: str) -> None:
    """What croniter accepts and nobody means: random and hashed values, ranges run backwards."""
    if re.search(r"(?i)(^|[,/-])[rh]($|[,/(-])", word):
        raise BadCron(f"{name}: R and H are not supported, since they cannot be foreseen.")
    if name in FIELDS[:3]:
        for first, last in re.findall(r"(\d+)-(\d+)", word):
            if int(first) >= int(last):
                raise BadCron(f"{name}: the range {first}-{last} is empty or runs backwards.")
