"""When a task is due: pure, in instants of UTC; who asks says what time it is."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import takewhile
from zoneinfo import ZoneInfo

from tasks import daylight
from tasks.cron import LAST_YEAR, ONE_SECOND, Cron

INSTANT = timedelta(microseconds=1)  # the least by which two moments can differ
MILLISECOND = timedelta(milliseconds=1)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)  # nothing was due before
LATEST = datetime(LAST_YEAR, 12, 31, tzinfo=UTC)  # nothing will be due after


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One of `cron`, `every` (with its `anchor`) and `once`, or none: then it has no moments."""

    zone: ZoneInfo
    cron: Cron | None = None
    every: timedelta | None = None
    anchor: datetime | None = None  # the grid of `every` goes through it
    once: datetime | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    jitter: timedelta = timedelta(0)
    key: bytes = b""  # whose jitter it is: other tasks with the same moments get other shares

    def next_after(self, after: datetime) -> datetime | None:
        """The first moment later than `after` and within the window, both ends of which count."""
        try:
            moment = self.unbounded(max(after, self.opening))
        except OverflowError:  # beyond what a date can say
            return None
        return moment if moment is not None and moment <= self.closing else None

    @property
    def opening(self) -> datetime:
        """Moments are later than this."""
        return max(self.start_at or EARLIEST, EARLIEST) - INSTANT

    @property
    def closing(self) -> datetime:
        return min(self.end_at or LATEST, LATEST)

    def unbounded(self, after: datetime) -> datetime | None:
        if self.cron is not None:
            return daylight.next_after(self.cron, self.zone, after)
        if self.every is not None:
            assert self.anchor is not None
            return self.anchor + ((after - self.anchor) // self.every + 1) * self.every
        return self.once if self.once is not None and self.once > after else None

    def moments(self, after: datetime) -> Iterator[datetime]:
        """Every moment later than `after`, one by one, without an end if there is none."""
        moment = self.next_after(after)
        while moment is not None:
            yield moment
            moment = self.next_after(moment)

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The moments later than `after` and not later than `until`."""
        return takewhile(lambda moment: moment <= until, self.moments(after))

    def count(self, after: datetime, until: datetime) -> int:
        """How many `between` would give, without going through them."""
        after, until = max(after, self.opening), min(until, self.closing)
        if until <= after:
            return 0
        if self.cron is not None:
            return daylight.count(self.cron, self.zone, after, until)
        if self.every is not None:
            assert self.anchor is not None
            return (until - self.anchor) // self.every - (after - self.anchor) // self.every
        return int(self.once is not None and after < self.once <= until)

    def latest(self, n: int, *, after: datetime, until: datetime) -> list[datetime]:
        """The newest `n` that `between` would give, oldest first, found from the end."""
        found: list[datetime] = []
        while len(found) < n and (moment := self.last_before(until, after=after)):
            found.append(moment)
            until = moment - INSTANT
        return found[::-1]

    def last_before(self, until: datetime, *, after: datetime) -> datetime | None:
        """The last moment not later than `until`: back in growing steps, then halving."""
        after, until = max(after, self.opening), min(until, self.closing)
        step, late = ONE_SECOND, until
        while (
            moment := self.next_after(early := max(after, late - step))
        ) is None or moment > until:
            if early <= after:
                return None
            late, step = early, 2 * step
        while (following := self.next_after(moment)) is not None and following <= until:
            moment = following
            while late - moment > ONE_SECOND:  # is there one in the later half?
                middle = moment + (late - moment) / 2
                later = self.next_after(middle)
                if later is not None and later <= until:
                    moment = later
                else:
                    late = middle
        return moment

    def fires_at(self, moment: datetime) -> datetime:
        """The moment and its share of the jitter: always the same, and before the next moment."""
        span = self.jitter
        if not span:
            return moment
        span = min(span, (self.next_after(moment) or LATEST) - moment)
        digest = blake2b(self.key + moment.isoformat().encode(), digest_size=8).digest()
        share = int.from_bytes(digest) * (span // MILLISECOND) >> 64
        return moment + share * MILLISECOND
