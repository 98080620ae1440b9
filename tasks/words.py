"""A cron expression in words: they tell what it means, however it was written."""

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

from tasks.cron import Cron, parse

LONGEST = 500
FEW = 6  # so many are listed one by one
MINUTE, HOUR = 60, 3600
MONTHS, WEEKDAYS = (
    names.split()
    for names in (
        "January February March April May June July August September October November December",
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    )
)
WHICH = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", "l": "last"}


class Unit(NamedTuple):
    name: str
    seconds: int
    cycle: str
    per_cycle: int


UNITS = (
    Unit("second", 1, "minute", 60),
    Unit("minute", MINUTE, "hour", 60),
    Unit("hour", HOUR, "day", 24),
)
Clock = tuple[tuple[int, ...], ...]  # the seconds, minutes and hours, or the first of these


def describe(normal: str) -> str:
    """What a normalised expression means, as one sentence without its period."""
    cron = parse(normal)
    time = clock_words(cron)
    at = time.startswith("At")
    days = calendar_words(cron, at=at)
    # It must be plain where the time ends and the days begin.
    close = at and "," not in time and not days.startswith(tuple(WEEKDAYS))
    sentence = f"{time}{' ' if close else ', '}{days}" if days else time
    return sentence if len(sentence) <= LONGEST else f"Whenever clock and date match {normal}"


# --- the time of day ------------------------------------------------------------------------------


def clock_words(cron: Cron) -> str:
    clock = (cron.seconds, cron.minutes, cron.hours)
    # On a day when the clock is put forward or back, fixed times do not come evenly.
    if cron.interval and (words := anew_words(clock) or even_words(clock)):
        return words
    if prod(map(len, clock)) <= FEW:
        return "At " + listed([time_words(clock, time) for time in product(*reversed(clock))])
    return pattern_words(clock)


def time_words(clock: Clock, time: Sequence[int]) -> str:
    return ":".join(f"{part:02}" for part in (time[:2] if clock[0] == (0,) else time))


def anew_words(clock: Clock) -> str | None:
    """Times evenly apart from the start of each day, hour or minute on, but not across its end."""
    for depth in (3, 2, 1):
        unit, values = UNITS[depth - 1], clock[depth - 1]
        step, rest = rhythm(clock[:depth])
        if step > rest and len(values) > 2 and not any(inner[0] for inner in clock[:depth]):
            return f"{every(step)}, counted anew each {unit.cycle}"
        if len(values) < unit.per_cycle:
            return None
    return None


def even_words(clock: Clock) -> str | None:
    """Times evenly apart, around the clock or from the first to the last of a day."""
    step, rest = rhythm(clock)
    second, minute, hour = (values[0] for values in clock)
    if step and step == rest and not (second or minute or hour):
        return every(step)
    if step == rest == MINUTE:
        return f"{every(step)} at second {second}"
    if step == rest == HOUR:
        return f"{every(step)} at minute {minute}" + (f" and second {second}" if second else "")
    if not step or prod(map(len, clock)) == 2:
        return None
    first, last = ([values[at] for values in reversed(clock)] for at in (0, -1))
    return f"{every(step)} from {time_words(clock, first)} to {time_words(clock, last)}"


def rhythm(clock: Clock) -> tuple[int, int]:
    """The seconds from each time to the next, 0 if they differ, and from the last to the first."""
    gaps: set[int] = set()
    span = 0
    for unit, values in zip(UNITS, clock, strict=False):
        gaps |= {(b - a) * unit.seconds - span for a, b in pairwise(values)}
        span += (values[-1] - values[0]) * unit.seconds
    return gaps.pop() if len(gaps) == 1 else 0, unit.seconds * unit.per_cycle - span


def every(step: int) -> str:
    unit = next(unit for unit in reversed(UNITS) if step % unit.seconds == 0)
    number = step // unit.seconds
    return f"Every {unit.name}" if number == 1 else f"Every {number} {unit.name}s"


def pattern_words(clock: Clock) -> str:
    """What is neither even nor few: seconds of minutes of hours."""
    seconds, minutes, hours = clock
    parts = [] if seconds == (0,) else [values_words("second", seconds, 60)]
    parts += [values_words("minute", minutes, 60), hours_words(hours)]
    if parts[-2:] == ["every minute", "every hour"]:
        del parts[-1]
    words = " of ".join(parts)
    return f"E{words[1:]}" if words.startswith("every") else f"At {words}"


def hours_words(hours: Sequence[int]) -> str:
    # `Hours 9 to 17` could be taken to end at 17:00.
    if 2 < len(hours) < 24 and even_step(hours) == 1:
        return f"every hour from {hours[0]:02}:00 to {hours[-1]:02}:59"
    return values_words("hour", hours, 24)


# --- days and months ------------------------------------------------------------------------------


def calendar_words(cron: Cron, *, at: bool) -> str:
    """Which days of which months, nothing if all; restricted both ways, a day may match either."""
    chosen = sorted(cron.months - {0})
    months = "" if len(chosen) == 12 else month_words([month - 1 for month in chosen])
    every_date = cron.days is not None and (cron.every_day or len(cron.days) == 31)
    every_weekday = cron.weekdays is not None and len(cron.weekdays) == 7 and not cron.nth
    if every_date or every_weekday or (cron.days is None and cron.weekdays is None):
        return f"every day in {months}" if months else ""
    if cron.days is not None and cron.weekdays is not None:
        either = f"{date_words(cron)} or {any_weekday_words(cron)}"
        return f"{either}, only in {months}" if months else either
    words = weekday_words(cron) if cron.days is None else date_words(cron, alone=at)
    if len(chosen) == 1 and words.endswith("of the month"):
        return words.removesuffix("the month") + months
    return f"{words}, in {months}" if months else words


def month_words(places: Sequence[int]) -> str:
    return span(places, MONTHS) or listed([MONTHS[place] for place in places])


def date_words(cron: Cron, *, alone: bool = False) -> str:
    """`alone`: with neither an `Every` before nor an `or` behind that its comma would blur."""
    if cron.nearest is not None:
        return f"on the working day nearest to day {cron.nearest} of the month"
    dates = sorted(cron.days or ())
    step = even_step(dates)
    to_the_end = step > 1 and dates[0] == 1 and dates[-1] + step > 31
    if alone and to_the_end and len(dates) > FEW and not cron.last_day:
        return f"every {step} days, counted anew each month"
    words = [values_words("day", dates, 31)] if dates else []
    return f"on {listed([*words, *['the last day'] * cron.last_day])} of the month"


def weekday_words(cron: Cron) -> str:
    if cron.nth:
        return nth_words(cron)
    days = weekdays_of(cron)
    return span(days, WEEKDAYS) or f"on {listed([f'{WEEKDAYS[day]}s' for day in days])}"


def any_weekday_words(cron: Cron) -> str:
    if cron.nth:
        return nth_words(cron)
    days = weekdays_of(cron)
    if words := span(days, WEEKDAYS):
        return f"on any day from {words}"
    return f"on any {listed([WEEKDAYS[day] for day in days], 'or')}"


def weekdays_of(cron: Cron) -> list[int]:
    """Their places in a week that begins on Monday."""
    return sorted((day - 1) % 7 for day in cron.weekdays or ())


def nth_words(cron: Cron) -> str:
    which: dict[str, list[str]] = {}
    for day in weekdays_of(cron):
        chosen = cron.nth.get((day + 1) % 7, ())
        if chosen:
            ordinals = listed([word for n, word in WHICH.items() if n in chosen])
            which.setdefault(ordinals, []).append(WEEKDAYS[day])
    groups = [f"the {ordinals} {listed(days)}" for ordinals, days in which.items()]
    return f"on {listed(groups)} of the month"


# --- lists ----------------------------------------------------------------------------------------


def values_words(name: str, values: Sequence[int], count: int) -> str:
    if len(values) == count:
        return f"every {name}"
    step = even_step(values)
    if step > 1 and len(values) > FEW:
        nth = {2: "2nd", 3: "3rd"}.get(step, f"{step}th")
        return f"every {nth} {name} from {values[0]} to {values[-1]}"
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    words: list[str] = []
    for run in runs:
        words += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return f"{name}{'s' if values[1:] else ''} {listed(words)}"


def even_step(values: Sequence[int]) -> int:
    """How far each is from the one before, 0 if that differs."""
    steps = {b - a for a, b in pairwise(values)}
    return steps.pop() if len(steps) == 1 else 0


def span(places: Sequence[int], names: Sequence[str]) -> str | None:
    """From one name to another, past the end as well: `Friday to Monday`."""
    firsts = [place for place in places if (place - 1) % len(names) not in places]
    if len(places) < 3 or len(firsts) > 1:
        return None
    return f"{names[firsts[0]]} to {names[(firsts[0] + len(places) - 1) % len(names)]}"


def listed(words: Sequence[str], last: str = "and") -> str:
    """One, two and three."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
