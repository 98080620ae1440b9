"""Cron expressions: croniter (imported here and nowhere else) reads them, the search is ours."""

import calendar
import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache

from croniter import croniter

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
NAMES = {
    name: number
    for names, first in (
        ("jan feb mar apr may jun jul aug sep oct nov dec", 1),
        ("sun mon tue wed thu fri sat", 0),
    )
    for number, name in enumerate(names.split(), first)
}
LOWEST = dict(zip(FIELDS, (0, 0, 0, 1, 1, 0), strict=True))
HIGHEST = dict(zip(FIELDS, (59, 59, 23, 31, 12, 7), strict=True))
ANY = ("*", "?")
ONE_SECOND, ONE_DAY = timedelta(seconds=1), timedelta(days=1)


class BadCron(ValueError):
    """A cron expression that is not one, or that would surprise."""


def normalise(expression: str) -> str:
    """The stored form: six fields by one space each, seconds first."""
    if len(expression) > LONGEST:
        raise BadCron(f"At most {LONGEST} characters.")
    if not expression.isascii() or not expression.replace("\t", " ").isprintable():
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
    parts = word.lower().split(",")
    if len(parts) > 1 and set(parts) & set(ANY):
        raise BadCron(f"{name}: “*” in a list is everything; write it alone.")
    if name == FIELDS[3] and "w" in word.lower() and not re.fullmatch(r"\d+w", parts[0]):
        raise BadCron(f"{name}: write the working day nearest to the 15th as 15W.")
    if name == FIELDS[5] and len({"#" in part or "l" in part for part in parts}) > 1:
        raise BadCron(f"{name}: days of every week do not mix with those of one week.")
    for step in re.findall(r"/(\d+)", word):
        if not 1 <= int(step) <= HIGHEST[name]:
            raise BadCron(f"{name}: a step of {step} is out of range.")
    for number in re.findall(r"(?<![/#\d])\d+", word):
        if not LOWEST[name] <= int(number) <= HIGHEST[name]:
            known = f"{LOWEST[name]} to {HIGHEST[name]}"
            raise BadCron(f"{name}: {number} is out of range, {known}.")
    for first, last, step in re.findall(r"(\w+)-(\w+)(/?)", word.lower()):
        names = NAMES | {"l": HIGHEST[name]}
        ends = [str(names.get(end, end)) for end in (first, last)]
        if all(end.isdigit() for end in ends):
            refuse_range(name, f"{first}-{last}", int(ends[1]) - int(ends[0]), step=bool(step))


def refuse_range(name: str, written: str, length: int, *, step: bool) -> None:
    """croniter takes 5-5 for the whole cycle, and starts anew where a range with a step wraps."""
    sunday = name == FIELDS[5] and length == -7
    if length == 0 or sunday or (length < 0 and name in FIELDS[:3]):
        raise BadCron(f"{name}: the range {written} is empty or runs backwards.")
    if length < 0 and step:
        raise BadCron(f"{name}: {written} wraps and takes no step; write a list.")


@lru_cache(maxsize=4096)
def parse(normal: str) -> "Cron":
    """Read a normalised expression once, to be searched many times."""
    try:
        expanded, nth = croniter.expand(normal.replace("?", "*"), second_at_beginning=True)
    except ValueError as error:  # CroniterError is one, and not the only one
        raise BadCron(f"{culprit(normal)}.") from error
    minutes, hours, days, months, weekdays, seconds = expanded
    words = normal.lower().split()
    nearest = re.fullmatch(r"(\d+)w", words[3])
    return Cron(
        seconds=numbers(seconds, 60),
        minutes=numbers(minutes, 60),
        hours=numbers(hours, 24),
        interval=any(set(word) & set("*?-/") for word in words[:3]),
        months=frozenset(numbers(months, 13)),
        days=None if words[3] in ANY else frozenset(d for d in days if d not in ("*", "l")),
        every_day=days == ["*"],
        last_day="l" in days,
        nearest=int(nearest[1]) if nearest else None,
        weekdays=None if words[5] in ANY else frozenset(numbers(weekdays, 7)),
        nth={day: frozenset(which) for day, which in nth.items()},
    )


def culprit(normal: str) -> str:
    """Which field it is that croniter does not understand; it does not tell itself."""
    for place, (name, word) in enumerate(zip(FIELDS, normal.split(), strict=True)):
        alone = ["*"] * 6
        alone[place] = word.replace("?", "*")
        try:
            croniter.expand(" ".join(alone), second_at_beginning=True)
        except ValueError:
            return f"{name}: “{word}” is not understood"
    return "These fields do not go together"


def numbers(values: list[int | str], size: int) -> tuple[int, ...]:
    return tuple(range(size)) if values == ["*"] else tuple(sorted(int(v) for v in values))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cron:
    """An expression taken apart: which times of a clock without a zone it names."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    interval: bool  # a wildcard, step or range in second, minute or hour; otherwise fixed times
    months: frozenset[int]
    days: frozenset[int] | None  # None: not restricted
    every_day: bool
    last_day: bool
    nearest: int | None  # 15W
    weekdays: frozenset[int] | None  # 0 is Sunday; None: not restricted
    nth: dict[int, frozenset[int | str]]  # 5#3, L5
    known: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    def first_wall(self, wall: datetime) -> datetime | None:
        """The first time on the clock, not before this one, that the expression names."""
        today = wall.day in self.days_of(wall.year, wall.month)
        if today and (time := self.first_time(wall.hour, wall.minute, wall.second)):
            return datetime(wall.year, wall.month, wall.day, *time)  # noqa: DTZ001
        day = self.next_day(wall.date() + ONE_DAY)
        if day is None:
            return None
        first = (self.hours[0], self.minutes[0], self.seconds[0])
        return datetime(day.year, day.month, day.day, *first)  # noqa: DTZ001  a wall has no zone

    def first_time(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """The first time of day not before this one."""
        hours, minutes, seconds = self.hours, self.minutes, self.seconds
        if (h := bisect_left(hours, hour)) == len(hours):
            return None
        if hours[h] > hour:
            return hours[h], minutes[0], seconds[0]
        if (m := bisect_left(minutes, minute)) < len(minutes):
            if minutes[m] > minute:
                return hour, minutes[m], seconds[0]
            if (s := bisect_left(seconds, second)) < len(seconds):
                return hour, minute, seconds[s]
            if m + 1 < len(minutes):
                return hour, minutes[m + 1], seconds[0]
        return (hours[h + 1], minutes[0], seconds[0]) if h + 1 < len(hours) else None

    def count_walls(self, start: datetime, end: datetime) -> int:
        """How many times it names from `start` on and before `end`, without going through them."""
        if end <= start:
            return 0
        a_day = len(self.hours) * len(self.minutes) * len(self.seconds)
        days = self.count_days(start.date(), end.date())
        return a_day * days + self.count_times(end) - self.count_times(start)

    def count_days(self, first: date, end: date) -> int:
        """How many of its days there are from `first` on and before `end`."""
        months = range(first.year * 12 + first.month - 1, end.year * 12 + end.month)
        whole = sum(len(self.days_of(m // 12, m % 12 + 1)) for m in months)
        before = bisect_left(self.days_of(first.year, first.month), first.day)
        last = self.days_of(end.year, end.month)
        return whole - before - (len(last) - bisect_left(last, end.day))

    def count_times(self, wall: datetime) -> int:
        """How many of its times lie on the same day before this one."""
        if wall.day not in self.days_of(wall.year, wall.month):
            return 0
        h, m = bisect_left(self.hours, wall.hour), bisect_left(self.minutes, wall.minute)
        found = h * len(self.minutes) * len(self.seconds)
        if wall.hour in self.hours:
            found += m * len(self.seconds)
            if wall.minute in self.minutes:
                found += bisect_left(self.seconds, wall.second)
        return found

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
            if len(self.known) > 60:  # five years: whoever looks further looks again
                self.known.clear()
            found = self.matching_days(year, month) if month in self.months else ()
            days = self.known[year, month] = tuple(found)
        return days

    def matching_days(self, year: int, month: int) -> Iterable[int]:
        """Restricted by both day of month and day of week, a day may match either."""
        first, length = calendar.monthrange(year, month)
        if self.days is None and self.weekdays is None:
            return range(1, length + 1)
        found = {day for day in self.dates(year, month, length) if day <= length}
        for weekday in self.weekdays or ():
            found.update(self.on_weekday(weekday, (weekday - first - 1) % 7 + 1, length))
        return sorted(found)

    def dates(self, year: int, month: int, length: int) -> Iterable[int]:
        if self.days is None:
            return ()
        if self.every_day:
            return range(1, 32)
        if self.nearest is not None:
            return {nearest_weekday(year, month, self.nearest)} if self.nearest <= length else ()
        return self.days | {length} if self.last_day else self.days

    def on_weekday(self, weekday: int, first: int, length: int) -> Iterable[int]:
        """Those of its days, the first of them given, that are meant."""
        days = range(first, length + 1, 7)
        if not self.nth:
            return days
        which = self.nth.get(weekday, ())
        return [d for n, d in enumerate(days, 1) if n in which or (d + 7 > length and "l" in which)]


def nearest_weekday(year: int, month: int, day: int) -> int:
    """The working day nearest to a date, without leaving its month."""
    length = calendar.monthrange(year, month)[1]
    weekday = calendar.weekday(year, month, day)
    if weekday == calendar.SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == calendar.SUNDAY:
        return day + 1 if day < length else day - 2
    return day
