"""From times on a clock to instants: what a cron expression means on the odd days of its zone.

Fixed times happen exactly once: what the clock skips at the first instant after the gap, what it
shows twice on the first pass. Intervals happen whenever the clock really shows a match.
"""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tasks.cron import ONE_DAY, ONE_SECOND, Cron

TWO_DAYS = 2 * ONE_DAY
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WALL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  what clocks show has no zone
STRIDE = 5 * ONE_DAY  # no zone has shifted twice within six since 1970


def next_after(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime | None:
    """The first moment of the expression later than `after`."""
    if after.microsecond:  # moments are whole seconds
        after = after.replace(microsecond=0)
    fixed = zone.utcoffset(None)
    if fixed is not None:  # UTC and the like: nothing ever shifts
        wall = cron.first_wall(shown(after + ONE_SECOND, fixed))
        return instant_of(wall, fixed) if wall is not None else None
    return (next_interval if cron.interval else next_fixed)(cron, zone, after)


def next_fixed(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime | None:
    wall = cron.first_wall(wall_at(zone, after) + ONE_SECOND)
    while wall is not None:
        moment = first_shown(zone, wall)
        if moment > after:
            return moment
        wall = cron.first_wall(wall + ONE_SECOND)  # the second pass of a time that has been
    return None


def next_interval(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime | None:
    start = after + ONE_SECOND
    while True:
        offset = offset_at(zone, start)
        wall = cron.first_wall(shown(start, offset))
        if wall is None:
            return None
        moment = instant_of(wall, offset)  # if the offset is the same until then
        ahead = min(moment, start + TWO_DAYS)
        if offset_at(zone, ahead) != offset:
            start = shift(zone, start, ahead)
        elif ahead == moment:
            return moment
        else:  # far away: go on from shortly before, past the shifts in between
            start = max(ahead, moment - TWO_DAYS)


def count(cron: Cron, zone: ZoneInfo, after: datetime, until: datetime) -> int:
    """How many moments lie after `after` and not after `until`; the work grows with the days."""
    start = after.replace(microsecond=0) + ONE_SECOND
    end = until.replace(microsecond=0) + ONE_SECOND
    if end <= start:
        return 0
    edges = [start, *shifts(zone, start, end - ONE_SECOND), end]
    total = 0
    seen = latest_shown(zone, start - ONE_SECOND) + ONE_SECOND  # the first time not yet shown
    for begin, finish in itertools.pairwise(edges):
        offset = offset_at(zone, begin)
        first, last = (shown(at, offset) for at in (begin, finish))
        if not cron.interval:
            if cron.count_walls(seen, first) and cron.first_wall(first) != first:
                total += 1  # however many the clock skipped, they happen together
            first = max(first, seen)
            seen = max(last, seen)
        total += cron.count_walls(first, last)
    return total


# --- zones ----------------------------------------------------------------------------------------


def offset_at(zone: ZoneInfo, instant: datetime) -> timedelta:
    offset = zone.utcoffset(instant.astimezone(zone))
    assert offset is not None
    return offset


def shown(instant: datetime, offset: timedelta) -> datetime:
    """Differences, since replacing the zone of a datetime costs twenty times as much."""
    return WALL_EPOCH + (instant - EPOCH + offset)


def instant_of(wall: datetime, offset: timedelta) -> datetime:
    return EPOCH + (wall - WALL_EPOCH - offset)


def wall_at(zone: ZoneInfo, instant: datetime) -> datetime:
    return shown(instant, offset_at(zone, instant))


def first_shown(zone: ZoneInfo, wall: datetime) -> datetime:
    """The first instant at which the clock shows this time or a later one."""
    offset = zone.utcoffset(wall)
    assert offset is not None
    moment = instant_of(wall, offset)
    if offset_at(zone, moment) == offset:
        return moment
    return shift(zone, wall.replace(tzinfo=zone, fold=1).astimezone(UTC), moment)


def latest_shown(zone: ZoneInfo, instant: datetime) -> datetime:
    """The latest time that the clock has shown up to this instant."""
    local = instant.astimezone(zone)
    if not local.fold:
        return local.replace(tzinfo=None)
    first_pass = local.replace(fold=0).astimezone(UTC)
    last = shift(zone, first_pass, instant) - ONE_SECOND
    return wall_at(zone, last)


def shift(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The instant at which the offset becomes another one; given are whole seconds around it."""
    offset = offset_at(zone, before)
    low, high = 0, int((after - before) / ONE_SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(zone, before + middle * ONE_SECOND) == offset:
            low = middle
        else:
            high = middle
    return before + high * ONE_SECOND


def shifts(zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
    """Every instant after `after` and not after `until` at which the offset changes."""
    after, until = after.replace(microsecond=0), until.replace(microsecond=0)
    while after < until:
        ahead = min(after + STRIDE, until)
        if offset_at(zone, ahead) != offset_at(zone, after):
            ahead = shift(zone, after, ahead)
            yield ahead
        after = ahead
