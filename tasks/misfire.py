"""What becomes of a backlog: which moments still run, and which are only recorded as missed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from tasks.schedule import INSTANT, Schedule


@dataclass(frozen=True, slots=True)
class Span:
    """Moments of which nothing but the first, the last and the number is kept."""

    first: datetime
    last: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    runs: list[datetime]  # moments that become runs, oldest first
    late: bool  # they are caught up with
    missed: Span | None  # by policy; older than the runs
    full: Span | None  # for want of room; newer than the runs
    following: datetime | None  # the next moment, still to come


def plan(
    schedule: Schedule, oldest: datetime, *,
    now: datetime, policy: str, grace: timedelta, catchup_limit: int, room: int,
) -> Plan:  # fmt: skip
    """Judge the moments from `oldest`, which is due, up to now; at most `room` of them can run."""
    newest, following = due(schedule, oldest, now)
    # The oldest is due whatever its schedule says by now: zones change their rules.
    count = 1 + (schedule.count(oldest, newest) if newest > oldest else 0)
    late = now - schedule.fires_at(oldest) > grace
    limits = {"FIRE_NOW": 1, "SKIP": 0, "CATCH_UP_LIMITED": catchup_limit}
    wanted = min(count, limits[policy]) if late else count
    first = first_of(schedule, wanted, count, oldest, newest)
    missed = full = None
    if wanted < count:
        last = before(schedule, first, oldest) if first else newest
        missed = Span(oldest, last, count - wanted)
    some = moments(schedule, first, newest)
    runs = list(islice(some, room))
    if len(runs) < wanted:
        full = Span(next(some), newest, wanted - len(runs))
    return Plan(runs=runs, late=late, missed=missed, full=full, following=following)


def backlog(schedule: Schedule, oldest: datetime, now: datetime) -> Span | None:
    """What is due by now and will not run, whatever the policy says."""
    if schedule.fires_at(oldest) > now:
        return None
    newest, _ = due(schedule, oldest, now)
    return Span(oldest, newest, 1 + schedule.count(oldest, newest))


def due(schedule: Schedule, oldest: datetime, now: datetime) -> tuple[datetime, datetime | None]:
    """The newest moment that is due, jitter and all, and the one after it."""
    following = schedule.next_after(oldest)
    if following is None or schedule.fires_at(following) > now:
        return oldest, following  # nearly always
    newest = schedule.last_before(now, after=oldest) or oldest
    if schedule.fires_at(newest) > now:  # only the newest can still be waiting for its share
        return before(schedule, newest, oldest), newest
    return newest, schedule.next_after(newest)


def first_of(
    schedule: Schedule, wanted: int, count: int, oldest: datetime, newest: datetime
) -> datetime | None:
    """The first of the newest ones wanted."""
    if wanted == count:
        return oldest
    return schedule.latest(wanted, after=oldest, until=newest)[0] if wanted else None


def moments(schedule: Schedule, first: datetime | None, newest: datetime) -> Iterator[datetime]:
    """Those that are wanted, one by one."""
    if first is not None:
        yield first
        if first < newest:
            yield from schedule.between(first, newest)


def before(schedule: Schedule, moment: datetime, oldest: datetime) -> datetime:
    return schedule.last_before(moment - INSTANT, after=oldest) or oldest
