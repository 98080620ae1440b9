"""The coming moments of a schedule by people's clocks, the odd ones noted."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from tasks import daylight
from tasks.cron import ONE_DAY, ONE_SECOND
from tasks.schedule import EARLIEST, Schedule

YEAR = 366 * ONE_DAY
MOMENTS_MAX = 500  # more than anybody reads


@dataclass(frozen=True, slots=True)
class Moment:
    at: datetime
    fires_at: datetime  # with its share of the jitter
    local: datetime
    note: str | None


def upcoming(schedule: Schedule, after: datetime, n: int) -> Iterator[Moment]:
    previous = max(after, EARLIEST)
    for at in islice(schedule.moments(after), n):
        note = "; ".join(notes(schedule, previous, at)) or None
        yield Moment(at, schedule.fires_at(at), at.astimezone(schedule.zone), note)
        previous = at


def notes(schedule: Schedule, previous: datetime, moment: datetime) -> Iterator[str]:
    """What daylight saving did to this moment, and to those that would have come before it."""
    zone, cron = schedule.zone, schedule.cron
    previous = max(previous, moment - YEAR)  # what came before that is no longer news
    moved = daylight.offset_at(zone, previous) != daylight.offset_at(zone, moment)
    for shift in daylight.shifts(zone, previous, moment):
        yield from shift_notes(schedule, shift, moment, moved=moved)
    local = moment.astimezone(zone)
    if cron and local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
        if not cron.interval:
            yield f"{local:%H:%M} comes twice: it runs on the first pass only"
        else:
            yield f"{'second' if local.fold else 'first'} pass of an hour that comes twice"


def shift_notes(
    schedule: Schedule, shift: datetime, moment: datetime, *, moved: bool
) -> Iterator[str]:
    zone, cron = schedule.zone, schedule.cron
    before = daylight.wall_at(zone, shift - ONE_SECOND) + ONE_SECOND
    after = daylight.wall_at(zone, shift)
    clocks = said(before, after)
    skipped = cron.count_walls(before, after) if cron else 0
    if cron is None or not skipped:
        if moved:  # of several shifts since the last moment, an even number changes nothing
            today = after.date() == daylight.wall_at(zone, moment).date()
            yield clocks if today else f"{clocks} on {after:%Y-%m-%d}"
    elif cron.interval:
        none = not runs_on(schedule, before)
        yield f"{f'no run on {before:%Y-%m-%d}' if none else f'{skipped} left out'}: {clocks}"
    elif moment == shift:
        together = skipped + (cron.first_wall(after) == after)
        first = cron.first_wall(before) or before
        form = day_form(before, after)
        landed = f"{together}→1" if together > 1 else f"{first:{form}} moved to {after:{form}}"
        yield f"{landed}: {clocks}"


def said(before: datetime, after: datetime) -> str:
    way = "forward" if after > before else "back"
    form = day_form(before, after)
    return f"clocks go {way} {before:{form}} → {after:{form}}"


def day_form(before: datetime, after: datetime) -> str:
    return "%H:%M" if before.date() == after.date() else "%Y-%m-%d %H:%M"


def runs_on(schedule: Schedule, wall: datetime) -> bool:
    """Whether anything is left on that day of the calendar."""
    midnight = wall.replace(hour=0, minute=0, second=0)
    first, end = (daylight.first_shown(schedule.zone, midnight + n * ONE_DAY) for n in (0, 1))
    return schedule.count(first - ONE_SECOND, end - ONE_SECOND) > 0
