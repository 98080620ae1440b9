"""Schedules against oracles of their own: a clock gone through step by step, and cronsim."""

import calendar
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st

from tasks.cron import BadCron, normalise, parse
from tasks.schedule import Schedule

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FIRST, LAST = datetime(1995, 1, 1, tzinfo=UTC), datetime(2030, 12, 31, tzinfo=UTC)
ZONES = [
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "UTC",
    "Africa/Cairo", "America/Santiago", "Pacific/Apia", "Asia/Kathmandu", "Africa/Casablanca",
    "Europe/Dublin", "Antarctica/Troll", "Antarctica/Casey", "America/Argentina/Tucuman",
    "Asia/Pyongyang",
]  # fmt: skip
NAMES = [*calendar.month_abbr[1:], *calendar.day_abbr[-1:], *calendar.day_abbr[:-1]]


def examples(number):
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=number, deadline=None, database=None, suppress_health_check=slow)


# --- an oracle: the fields read by hand, and a clock that is looked at step by step ---------------


def number(word):
    if word.isdigit():
        return int(word)
    place = NAMES.index(word.title())
    return place + 1 if place < 12 else place - 12


def values(word, low, high):
    """Values, lists, ranges (which may wrap), steps and range steps of one field."""
    found = set()
    for term in word.split(","):
        body, _, step = term.partition("/")
        first, _, last = body.partition("-")
        a = low if body in ("*", "?") else number(first)
        b = high if body in ("*", "?") or (step and not last) else number(last or first)
        b += (b < a) * (high - low + 1)
        found |= {(v - low) % (high - low + 1) + low for v in range(a, b + 1, int(step or 1))}
    return found


class Fields:
    """Does a time of a clock match? Day of month and day of week, both restricted: either."""

    def __init__(self, expression):
        words = expression.lower().split()
        words = words if len(words) == 6 else ["0", *words]
        self.seconds, self.minutes = values(words[0], 0, 59), values(words[1], 0, 59)
        self.hours, self.months = values(words[2], 0, 23), values(words[4], 1, 12)
        self.interval = any(sign in word for word in words[:3] for sign in "*?-/")
        self.date, self.weekday = words[3], words[5]
        self.either = self.date not in ("*", "?") and self.weekday not in ("*", "?")
        self.days = {}

    def __call__(self, wall):
        return (
            wall.minute in self.minutes
            and wall.second in self.seconds
            and wall.hour in self.hours
            and self.is_day(wall.date())
        )

    def is_day(self, day):
        if day not in self.days:
            found = self.is_date(day), self.is_weekday(day)
            self.days[day] = day.month in self.months and (any if self.either else all)(found)
        return self.days[day]

    def is_date(self, day):
        length = calendar.monthrange(day.year, day.month)[1]
        if match := re.fullmatch(r"(\d+)w", self.date):
            wanted = int(match[1])
            working = [d for d in range(1, length + 1) if day.replace(day=d).weekday() < 5]
            return wanted <= length and day.day == min(working, key=lambda d: abs(d - wanted))
        words = [str(length) if word == "l" else word for word in self.date.split(",")]
        return day.day in values(",".join(words), 1, 31)

    def is_weekday(self, day):
        for word in self.weekday.split(","):
            plain, _, nth = word.partition("#")
            last = word.startswith("l")
            right = day.isoweekday() % 7 in values(plain.removeprefix("l"), 0, 6)
            leaves = (day + 7 * DAY).month != day.month
            if right and (leaves if last else not nth or (day.day + 6) // 7 == int(nth)):
                return True
        return False


def wall_at(zone, instant):
    return instant.astimezone(zone).replace(tzinfo=None)


def by_the_clock(fields, zone, start, end, *, step=MINUTE, fixed=None):
    """The moments after `start` and not after `end`, from going through real time."""
    fixed = not fields.interval if fixed is None else fixed
    at = start.replace(second=0, microsecond=0)
    shown = max(wall_at(zone, at - n * MINUTE) for n in range(1, 1441)) + MINUTE - step
    found = []
    while at <= end:
        wall = now = wall_at(zone, at)
        hit = not fixed and fields(now)
        while fixed and wall > shown and not hit:
            hit = fields(wall)
            wall -= step
        shown = max(shown, now)
        if hit and at > start:
            found.append(at)
        at += step
    return found


@cache
def shifts(name):
    """Every change of a zone's offset, to the minute."""
    zone, found, at = ZoneInfo(name), [], FIRST
    while at < LAST:
        low, high = at, at + DAY
        if low.astimezone(zone).utcoffset() != high.astimezone(zone).utcoffset():
            while high - low > MINUTE:
                middle = low + (high - low) // MINUTE // 2 * MINUTE
                same = middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset()
                low, high = (middle, high) if same else (low, middle)
            found.append(high)
        at += DAY
    return found


# --- what is tried --------------------------------------------------------------------------------


def time_fields(low, high, *, often=None):
    value = st.integers(low, high) if often is None else often | st.integers(low, high)
    pair = st.tuples(value, value).filter(lambda p: p[0] != p[1]).map(sorted)
    ranges = pair.map("{0[0]}-{0[1]}".format)
    steps = st.sampled_from([1, 2, 3, 4, 5, 7, 10, 15, 20, 23]).map("/{}".format)
    listed = st.lists(value, min_size=1, max_size=4).map(lambda found: ",".join(map(str, found)))
    stepped = st.tuples(ranges | st.just("*") | value.map(str), steps).map("".join)
    mixed = st.lists(ranges | value.map(str) | stepped, min_size=2, max_size=3).map(",".join)
    return listed, st.just("*") | ranges | stepped | mixed


FIXED_SECOND, SECONDS = time_fields(0, 59)
FIXED_MINUTE, MINUTES = time_fields(0, 59, often=st.sampled_from([0, 1, 15, 29, 30, 31, 45, 59]))
FIXED_HOUR, HOURS = time_fields(0, 23, often=st.sampled_from([0, 1, 2, 3, 23]))
DATES = ["1,15", "1-7", "10-31", "*/2", "3-28/5", "13", "L", "L,15", "29", "31"]
MONTHS = ["*", "*", "jan-jun", "*/2", "3,MAR,10,11", "9-12", "2/3", "2,12"]
WEEKDAYS = ["0", "7", "1-5", "5-7", "sun,SAT", "*/2", "1-6/2", "Mon", "5#3", "7#1", "L5", "0-7"]
OUR_DATES = [*DATES, "?", "15W", "1W", "31W", "25-5"]
OUR_WEEKDAYS = [*WEEKDAYS, "?", "fri-mon", "6-1", "L0", "L5,1#2"]


@st.composite
def expressions(draw, dates=OUR_DATES, weekdays=OUR_WEEKDAYS, seconds=False):
    fixed = draw(st.booleans())
    kinds = [(FIXED_SECOND, SECONDS), (FIXED_MINUTE, MINUTES), (FIXED_HOUR, HOURS)]
    words = [draw(kind[0] if fixed else st.one_of(*kind)) for kind in kinds[not seconds :]]
    star = st.just("*")
    kind = draw(st.sampled_from(["", "", "", "date", "weekday", "both", "month"]))
    words.append(draw(st.sampled_from(dates) if kind in ("date", "both") else star))
    words.append(draw(st.sampled_from(MONTHS) if kind else star))
    words.append(draw(st.sampled_from(weekdays) if kind in ("weekday", "both") else star))
    return " ".join(words)


@st.composite
def windows(draw, least, most):
    """A zone, an instant and a length: mostly around one of its shifts, else anywhere."""
    name = draw(st.sampled_from(ZONES))
    length = draw(st.integers(least // MINUTE, most // MINUTE)) * MINUTE
    if shifts(name) and draw(st.integers(0, 9)):
        before = draw(st.integers(-60, length // MINUTE)) * MINUTE
        start = draw(st.sampled_from(shifts(name))) - before
    else:
        start = FIRST + DAY + draw(st.integers(0, (LAST - FIRST) // MINUTE)) * MINUTE
    return name, start + draw(st.sampled_from([0, 0, 1, 29, 59])) * SECOND, length


def schedule_of(expression, zone, **others):
    try:
        return Schedule(zone=zone, cron=parse(normalise(expression)), **others)
    except BadCron as error:
        reject() if "never" in str(error) else pytest.fail(str(error))


def agree(expression, window, step):
    name, start, length = window
    zone, end = ZoneInfo(name), start + length
    schedule = schedule_of(expression, zone)
    wanted = by_the_clock(Fields(expression), zone, start, end, step=step)
    assert list(schedule.between(start, end)) == wanted
    assert schedule.count(start, end) == len(wanted)
    assert schedule.latest(3, after=start, until=end) == wanted[-3:]
    parts = [start + length * part / 12 for part in range(1, 12)]
    around = [shift + n * MINUTE for shift in shifts(name) for n in (-40, -1 / 60, 0, 10, 40)]
    for at in parts + [at for at in around if start < at < end]:  # from inside as well
        later = [moment for moment in wanted if moment > at]
        assert not later or schedule.next_after(at) == later[0]
        assert schedule.count(start, at) == len(wanted) - len(later)
        assert schedule.count(at, end) == len(later)


APIA = ("Pacific/Apia", datetime(2011, 12, 29, tzinfo=UTC), 3 * DAY)  # a day is left out
MONROVIA = ("Africa/Monrovia", datetime(1972, 1, 7, 0, 20, tzinfo=UTC), HOUR)  # 44:30 left out


@examples(250)
@given(expressions(), windows(6 * HOUR, 3 * DAY))
@example("0 0,12 30,31 12 *", APIA)
@example("30 12 30 12 *", APIA)
@example("*/7 0-23/5 30 12 *", APIA)
def test_moments_are_what_a_clock_shows_minute_by_minute(expression, window):
    agree(expression, window, MINUTE)


@examples(100)
@given(expressions(seconds=True), windows(10 * MINUTE, 2 * HOUR))
@example("0,30,59 0,44,45 0 7 1 *", MONROVIA)
@example("*/7 0,44,45 0 * * *", MONROVIA)
def test_moments_are_what_a_clock_shows_second_by_second(expression, window):
    agree(expression, window, SECOND)


@examples(120)
@given(expressions(dates=["?"], weekdays=["?"]), st.data())
def test_a_day_far_away_is_found_across_the_shifts_before_it(expression, data):
    name = data.draw(st.sampled_from([name for name in ZONES if shifts(name)]))
    day = data.draw(st.sampled_from(shifts(name))) + data.draw(st.integers(-1, 60)) * DAY
    start = day - data.draw(st.integers(2 * 24, 200 * 24)) * HOUR
    zone, expression = ZoneInfo(name), " ".join(expression.split()[:2])
    expression += f" {wall_at(zone, day).day} {wall_at(zone, day).month} *"
    wanted = by_the_clock(Fields(expression), zone, day - 27 * HOUR, day + 27 * HOUR)
    schedule = schedule_of(expression, zone)
    assert list(schedule.between(start, day + 2 * DAY)) == wanted
    assert schedule.count(start, day + 2 * DAY) == len(wanted)


# --- cronsim, which follows Debian ----------------------------------------------------------------


def ask_cronsim(expression, zone, start, end, most):
    """Its next moments, in UTC; it writes L5 the other way round."""
    found = CronSim(re.sub(r"\bL(\d)", r"\1L", expression), start.astimezone(zone))
    moments = (moment.astimezone(UTC) for moment in islice(found, most))
    return list(takewhile(lambda moment: moment <= end, moments))


def named_difference(expression, name, start, end, ours, theirs):
    """Which rule, other than ours, gives exactly what cronsim gave; none: it disagrees."""
    fields, zone, names = Fields(expression), ZoneInfo(name), []
    near = [at for at in shifts(name) if start - DAY < at < end + DAY]
    fixed = not any(word.startswith("*") for word in expression.split()[:2])
    if fields.either and (fields.date[0] == "*" or fields.weekday[0] == "*"):
        names.append("*/2 counts as unrestricted: both days must match")
        fields.either = False
        if near:
            ours = by_the_clock(fields, zone, start, end)
        ours = [moment for moment in ours if fields.is_day(wall_at(zone, moment).date())]
    if near and fixed:
        once = sorted({moment for moment in theirs if moment > start})
        if fields.interval:
            names.append("a range or a step without a star makes no interval")
            ours = by_the_clock(fields, zone, start, end, fixed=True)
        if once != theirs:
            names.append("what the gap merges stays apart, a second pass begins the first again")
            theirs = once
    sides = {at: [wall_at(zone, side).minute for side in (at - MINUTE, at)] for at in near}
    gaps = {at for at in near if wall_at(zone, at) - wall_at(zone, at - SECOND) > SECOND}
    if not fixed and set(ours) < set(theirs) and set(theirs) - set(ours) <= gaps:
        names.append("what a gap swallows is made up for at its end")
        theirs = ours
    uneven = [at for at in near if sides[at] != [59, 0]]
    if uneven and not fixed and ours != theirs:
        names.append("it goes on by whole hours and misses some after a shift within an hour")
        day = [uneven[0] - HOUR < moment < uneven[0] + DAY for moment in set(ours) ^ set(theirs)]
        if all(day) and ours == by_the_clock(fields, zone, start, end):
            theirs = ours
    return " and ".join(names) if names and ours == theirs else None


def compare(expression, name, start, end, most):
    """How many moments were the same, and the name of the difference if they were not."""
    schedule = schedule_of(expression, ZoneInfo(name))
    theirs = ask_cronsim(expression, schedule.zone, start, end, most)
    end = max(theirs[-1], start) if len(theirs) == most else end
    ours = list(schedule.between(start, end))
    if ours == theirs:
        return len(ours), None
    name = named_difference(expression, name, start, end, ours, theirs)
    assert name, (ours[:9], theirs[:9])
    return 0, name


def test_cronsim_agrees_about_more_than_ten_thousand_moments_or_differs_by_name():
    same, names = 0, set()
    instants = st.datetimes(datetime(1996, 1, 1), datetime(2029, 1, 1))  # noqa: DTZ001
    ours = expressions(dates=DATES, weekdays=WEEKDAYS)

    @examples(500)
    @given(ours, st.sampled_from(ZONES), instants)
    def on_ordinary_days(expression, name, instant):
        nonlocal same
        start = instant.replace(tzinfo=UTC)
        start = max([start, *(at + DAY for at in shifts(name) if start - DAY < at <= start)])
        end = next((at - DAY for at in shifts(name) if at > start), start + 40 * 365 * DAY)
        found, difference = compare(expression, name, start, end, 40)
        assert difference is None or difference.startswith("*/2")
        same += found

    @examples(250)
    @given(ours, windows(6 * HOUR, 3 * DAY))
    def on_odd_days(expression, window):
        nonlocal same
        found, difference = compare(expression, window[0], window[1], window[1] + window[2], 500)
        names.add(difference)
        same += found

    on_ordinary_days()
    on_odd_days()
    assert same > 10_000, names


# --- what holds whatever the schedule -------------------------------------------------------------


@st.composite
def schedules(draw):
    """A schedule of any kind, often with a window, and an instant in it or near."""
    name, start, length = draw(windows(6 * HOUR, 3 * DAY))
    others = {"jitter": draw(st.integers(0, 10**5)) * SECOND, "key": draw(st.binary())}
    if draw(st.booleans()):
        others["start_at"] = start + draw(st.floats(0, 0.5)) * length
    if draw(st.booleans()):
        others["end_at"] = start + draw(st.floats(0.4, 1)) * length
    kind = draw(st.sampled_from(["cron", "cron", "every", "once"]))
    if kind == "cron":
        schedule = schedule_of(draw(expressions(seconds=draw(st.booleans()))), ZoneInfo(name))
        others["cron"] = schedule.cron
    elif kind == "every":
        others["every"] = draw(st.integers(1, 10**6)) * SECOND
        others["anchor"] = start + draw(st.floats(-9, 1)) * length
    else:
        others["once"] = start + draw(st.floats(0, 1)) * length
    return Schedule(zone=ZoneInfo(name), **others), start, start + length


@examples(300)
@given(schedules(), st.integers(1, 30))
def test_going_on_is_starting_again_from_any_moment(case, number):
    schedule, start, _ = case
    moments = list(islice(schedule.moments(start), number))
    after = start
    for moment in moments:
        assert moment > after
        for at in (after, after + (moment - after) / 2, moment - SECOND / 10**6):
            assert at == moment or schedule.next_after(at) == moment
        after = moment
    assert len(moments) == number or schedule.next_after(after) is None


@examples(300)
@given(schedules(), st.floats(0, 1), st.floats(0, 1), st.integers(0, 20))
def test_a_window_leaves_out_what_lies_outside_and_the_rest_is_counted(case, begin, finish, number):
    schedule, start, end = case
    after, until = start + begin * (end - start), start + finish * (end - start)
    moments = list(islice(replace(schedule, start_at=None, end_at=None).between(after, until), 999))
    until = moments[-1] if len(moments) == 999 else until
    first, last = schedule.start_at or after, schedule.end_at or until
    moments = [moment for moment in moments if first <= moment <= last]
    assert list(schedule.between(after, until)) == moments
    assert schedule.count(after, until) == len(moments)
    assert schedule.latest(number, after=after, until=until) == moments[::-1][:number][::-1]
    assert schedule.last_before(until, after=after) == (moments[-1] if moments else None)


@examples(200)
@given(schedules())
def test_the_share_of_the_jitter_is_stable_and_passes_before_the_next_moment(case):
    schedule, start, _ = case
    for moment in islice(schedule.moments(start), 10):
        fires, following = schedule.fires_at(moment), schedule.next_after(moment)
        assert moment <= fires <= moment + schedule.jitter
        assert fires == replace(schedule).fires_at(moment)
        assert following is None or fires < following
