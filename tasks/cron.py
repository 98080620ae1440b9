"""Cron expressions: croniter (imported here and nowhere else) reads them, the search is ours."""

import calendar
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache

from croniter import CroniterError, croniter

LONGEST = 256
YEARS_AHEAD = 50  # nothing that comes later is waited for
LAST_YEAR = 9998  # one short of what a datetime can hold, since zones move it
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
STEPS = dict(zip(FIELDS, (59, 59, 23, 31, 12, 7), strict=True))
ANY = ("*", "?")


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
    if len(normal) > LONGEST:
        raise BadCron(f"At most {LONGEST} characters, with the second.")
    if parse(normal).next_day(date(2000, 1, 1)) is None:
        raise BadCron("It never fires: there is no such day.")
    return normal


def refuse_surprises(name: str, word: str) -> None:
    """What croniter accepts and nobody means: random and hashed values, ranges run backwards."""
    if re.search(r"(?i)(^|[,/-])[rh]($|[,/(-])", word):
        raise BadCron(f"{name}: R and H are not supported, since they cannot be foreseen.")
    for step in re.findall(r"/(\d+)", word):
        if int(step) > STEPS[name]:
            raise BadCron(f"{name}: a step of {step} is out of range.")
    if name in FIELDS[:3]:
        for first, last in re.findall(r"(\d+)-(\d+)", word):
            if int(first) >= int(last):
                raise BadCron(f"{name}: the range {first}-{last} is empty or runs backwards.")


@lru_cache(maxsize=4096)
def parse(normal: str) -> "Cron":
    """Read a normalised expression once, to be searched many times."""
    try:
        expanded, nth = croniter.expand(normal, second_at_beginning=True)
    except (CroniterError, ValueError, OverflowError) as error:
        # croniter quotes the expression with the second last; ours has it first.
        reason = re.sub(r"\[[^\]]*\]\s*", "", str(error))
        raise BadCron(f"Not a cron expression: {reason}") from error
    _, _, days, months, weekdays, _ = expanded
    words = normal.lower().split()
    nearest = re.fullmatch(r"(\d+)w", words[3])
    return Cron(
        months=frozenset(numbers(months, 13)),
        days=None if words[3] in ANY else frozenset(d for d in days if d not in ("*", "l")),
        every_day=days == ["*"],
        last_day="l" in days,
        nearest=int(nearest[1]) if nearest else None,
        weekdays=None if words[5] in ANY else frozenset(numbers(weekdays, 7)),
        nth={day: frozenset(which) for day, which in nth.items()},
    )


def numbers(values: list[int | str], size: int) -> tuple[int, ...]:
    return tuple(range(size)) if values == ["*"] else tuple(sorted(int(v) for v in values))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cron:
    """An expression taken apart: which days of the calendar it names."""

    months: frozenset[int]
    days: frozenset[int] | None  # None: not restricted
    every_day: bool
    last_day: bool
    nearest: int | None  # 15W
    weekdays: frozenset[int] | None  # 0 is Sunday; None: not restricted
    nth: dict[int, frozenset[int | str]]  # 5#3, L5
    known: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    def next_day(self, day: date) -> date | None:
        """The first day not before this one."""
        year, month, first = day.year, day.month, day.day
        last_year = min(year + YEARS_AHEAD, LAST_YEAR)
        while year <= last_year:
            if month in self.months:
                days = self.days_of(year, month)
                if (at := bisect_left(days, first)) < len(days):
                    return date(year, month, days[at])
            year, month, first = year + month // 12, month % 12 + 1, 1
        return None

    def days_of(self, year: int, month: int) -> tuple[int, ...]:
        days = self.known.get((year, month))
        if days is None:
            if len(self.known) > 1200:  # a century: whoever looks further looks again
                self.known.clear()
            days = self.known[year, month] = tuple(self.matching_days(year, month))
        return days

    def matching_days(self, year: int, month: int) -> Iterator[int]:
        """Restricted by both day of month and day of week, a day may match either."""
        length = calendar.monthrange(year, month)[1]
        by_date = None if self.days is None else self.dates(year, month, length)
        by_weekday = None if self.weekdays is None else self.weekday_dates(year, month, length)
        for day in range(1, length + 1):
            free = by_date is None and by_weekday is None
            if free or day in (by_date or ()) or day in (by_weekday or ()):
                yield day

    def dates(self, year: int, month: int, length: int) -> set[int]:
        assert self.days is not None
        found = set(range(1, 32)) if self.every_day else set(self.days)
        if self.last_day:
            found.add(length)
        if self.nearest is not None:
            found = (
                {nearest_weekday(year, month, self.nearest)} if self.nearest <= length else set()
            )
        return found

    def weekday_dates(self, year: int, month: int, length: int) -> set[int]:
        assert self.weekdays is not None
        found = set()
        for day in range(1, length + 1):
            weekday = (calendar.weekday(year, month, day) + 1) % 7
            which = self.nth.get(weekday)
            last = day + 7 > length
            if weekday in self.weekdays and (
                not self.nth or (which and ((day - 1) // 7 + 1 in which or (last and "l" in which)))
            ):
                found.add(day)
        return found


def nearest_weekday(year: int, month: int, day: int) -> int:
    """The working day nearest to a date, without leaving its month."""
    length = calendar.monthrange(year, month)[1]
    weekday = calendar.weekday(year, month, day)
    if weekday == calendar.SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == calendar.SUNDAY:
        return day + 1 if day < length else day - 2
    return day
