"""The kinds of schedule, their windows, jitter and limits, by example."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.cron import BadCron, normalise, parse
from tasks.schedule import Schedule

INSTANT, SECOND = timedelta(microseconds=1), timedelta(seconds=1)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MIN, MAX = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(expression, zone="UTC", **others):
    return Schedule(zone=ZoneInfo(zone), cron=parse(normalise(expression)), **others)


def every(interval, anchor=NOON, **others):
    return Schedule(zone=BERLIN, every=interval, anchor=anchor, **others)


def once(moment, **others):
    return Schedule(zone=BERLIN, once=moment, **others)


def first(schedule, after, number):
    return list(islice(schedule.moments(after), number))


ALL = [
    pytest.param(cron("*/5 * * * *", "Europe/Berlin"), id="cron"),
    pytest.param(cron("*/7 * * * * *"), id="cron with seconds"),
    pytest.param(cron("0 0 1 1 *", "America/New_York"), id="yearly"),
    pytest.param(every(90 * SECOND), id="every"),
    pytest.param(once(NOON), id="once"),
    pytest.param(Schedule(zone=BERLIN), id="manual"),
]


# --- days of the calendar -------------------------------------------------------------------------

DAYS = [  # in a month that begins on a Thursday: 2026-01; and in February 2026, a Sunday
    ("0 0 L * *", [31], [28]),
    ("0 0 L,15 * *", [15, 31], [15, 28]),
    ("0 0 31 * *", [31], []),
    ("0 0 15W * *", [15], [16]),
    ("0 0 1W * *", [1], [2]),
    ("0 0 31W * *", [30], []),
    ("0 0 28W * *", [28], [27]),
    ("0 0 * * 5#3", [16], [20]),
    ("0 0 * * 5#5", [30], []),
    ("0 0 * * L5", [30], [27]),
    ("0 0 * * L0,1#1", [5, 25], [2, 22]),
    ("0 0 13 * 5", [2, 9, 13, 16, 23, 30], [6, 13, 20, 27]),
    ("0 0 */10 * 0", [1, 4, 11, 18, 21, 25, 31], [1, 8, 11, 15, 21, 22]),
    ("0 0 30-2 * *", [1, 2, 30, 31], [1, 2]),
    ("0 0 ? * sat-sun", [3, 4, 10, 11, 17, 18, 24, 25, 31], [1, 7, 8, 14, 15, 21, 22, 28]),
    ("0 0 1-7 FEB ?", [], [1, 2, 3, 4, 5, 6, 7]),
    ("0 0 25-L * *", [25, 26, 27, 28, 29, 30, 31], [25, 26, 27, 28]),
]
UNUSUAL = [  # what croniter takes and means otherwise, or breaks on; refusing it is right as well
    ("0 0 *,5 * *", [*range(1, 32)], [*range(1, 29)]),
    ("0 0 * *,2 *", [*range(1, 32)], [*range(1, 29)]),
    ("0 0 * * *,1", [*range(1, 32)], [*range(1, 29)]),
    ("0 0 W15 * *", [15], [16]),
    ("0 0 31-L * *", [31], []),
    ("0 0 * * 7-0", [4, 11, 18, 25], [1, 8, 15, 22]),
    ("0 0 1 11-2/3 *", [], [1]),
    ("0 0 1 4-2/2 *", [], [1]),
    ("0 0 * * sat-tue/2", [3, 5, 10, 12, 17, 19, 24, 26, 31], [2, 7, 9, 14, 16, 21, 23, 28]),
]


def days(schedule):
    moments = schedule.between(at("2025-12-31T12:00"), at("2026-02-28T12:00"))
    return [(moment.month, moment.day) for moment in moments]


@pytest.mark.parametrize(("expression", "january", "february"), DAYS)
def test_days_are_those_of_the_calendar(expression, january, february):
    found = days(cron(expression))
    assert found == [(1, day) for day in january] + [(2, day) for day in february]


@pytest.mark.parametrize(
    ("expression", "moment"),
    [
        ("0 0 1W 8 *", "2026-08-03"),  # a Saturday, and not before its month
        ("0 0 1W 11 *", "2026-11-02"),  # a Sunday
        ("0 0 30W 5 *", "2026-05-29"),  # a Saturday
        ("0 0 31W 5 *", "2026-05-29"),  # a Sunday, and not after its month
        ("0 0 29W 2 *", "2028-02-29"),
        ("0 0 * 7 L5", "2026-07-31"),  # the month ends with it
        ("0 0 * 7 5#4", "2026-07-24"),
        ("0 0 * 2 1#5", "2044-02-29"),
        ("0 0 ? 10 SUN#1", "2026-10-04"),
    ],
)
def test_the_edges_of_a_month_are_those_of_the_calendar(expression, moment):
    assert cron(expression).next_after(at("2026-01-01")) == at(moment)


@pytest.mark.parametrize(("expression", "january", "february"), UNUSUAL)
def test_days_written_in_an_unusual_way_mean_what_they_say_or_are_refused(
    expression, january, february
):
    try:
        found = days(cron(expression))
    except BadCron:
        return
    assert found == [(1, day) for day in january] + [(2, day) for day in february]


def test_a_list_with_a_star_in_it_is_every_value_or_refused_in_words():
    try:
        schedule = cron("*,5 * * * *")
    except BadCron:
        return
    assert schedule.count(NOON, NOON + HOUR) == 60


# --- every, once, manual --------------------------------------------------------------------------


def test_every_keeps_to_the_grid_through_its_anchor_however_late_one_asks():
    schedule = every(90 * SECOND)
    assert schedule.next_after(NOON) == NOON + 90 * SECOND
    assert schedule.next_after(NOON - INSTANT) == NOON
    assert schedule.next_after(NOON + 91 * SECOND) == NOON + 180 * SECOND
    assert schedule.next_after(NOON + 1000 * DAY) == NOON + 1000 * DAY + 90 * SECOND
    assert schedule.next_after(NOON + 1000 * DAY + SECOND) == NOON + 1000 * DAY + 90 * SECOND


def test_the_first_moment_of_every_is_its_anchor_if_that_is_where_it_starts():
    schedule = every(HOUR, start_at=NOON)
    assert first(schedule, NOON - 9 * DAY, 3) == [NOON, NOON + HOUR, NOON + 2 * HOUR]
    assert first(schedule, NOON, 2) == [NOON + HOUR, NOON + 2 * HOUR]


def test_every_is_elapsed_time_whatever_the_clocks_do():
    for midnight, hours in (("2026-03-29T00:00+01:00", 23), ("2026-10-25T00:00+02:00", 25)):
        start = datetime.fromisoformat(midnight).astimezone(UTC)
        end = start + hours * HOUR
        assert end.astimezone(BERLIN).hour == 0
        schedule = every(HOUR, anchor=start)
        assert list(schedule.between(start, end)) == [start + n * HOUR for n in range(1, hours + 1)]
        assert schedule.count(start, end) == hours
        assert every(DAY, anchor=start).next_after(start) == start + 24 * HOUR


@settings(max_examples=100, deadline=None, database=None)
@given(st.integers(0, 2**31), st.integers(1, 9999), st.integers(-(10**9), 10**9))
def test_every_has_all_of_its_grid_and_nothing_else(start, interval, off):
    begin = datetime.fromtimestamp(start, UTC)
    end, anchor = begin + 9999 * SECOND, begin + off * SECOND
    schedule = every(interval * SECOND, anchor)
    wanted = [at for at in range(start + 1, start + 10_000) if (at - start - off) % interval == 0]
    assert [moment.timestamp() for moment in schedule.between(begin, end)] == wanted
    assert schedule.count(begin, end) == len(wanted)


def test_an_anchor_between_two_seconds_is_kept():
    anchor = NOON + 250 * INSTANT
    schedule = every(SECOND, anchor=anchor)
    assert schedule.next_after(NOON) == anchor
    assert schedule.count(NOON, NOON + MINUTE) == 60
    assert schedule.last_before(NOON + MINUTE, after=NOON) == anchor + 59 * SECOND


def test_once_is_one_moment_to_the_microsecond():
    moment = NOON + 123 * INSTANT
    schedule = once(moment)
    assert first(schedule, NOON - 9 * DAY, 3) == [moment]
    assert schedule.next_after(moment - INSTANT) == moment
    assert schedule.next_after(moment) is None
    assert schedule.count(NOON, moment) == 1
    assert schedule.count(moment, NOON + DAY) == schedule.count(NOON, moment - INSTANT) == 0
    assert schedule.latest(5, after=NOON, until=NOON + DAY) == [moment]
    assert schedule.last_before(moment - INSTANT, after=NOON) is None


def test_what_has_no_schedule_has_no_moments():
    manual = Schedule(zone=BERLIN, jitter=HOUR, start_at=NOON)
    assert manual.next_after(NOON) is None
    assert first(manual, at("1970-01-01"), 1) == []
    assert manual.count(NOON, NOON + 9 * DAY) == 0
    assert manual.latest(3, after=NOON, until=NOON + DAY) == []


# --- windows --------------------------------------------------------------------------------------


def test_a_moment_at_either_end_of_the_window_counts():
    for schedule in (cron("0 * * * *"), every(HOUR)):
        window = replace(schedule, start_at=NOON, end_at=NOON + 2 * HOUR)
        wanted = [NOON, NOON + HOUR, NOON + 2 * HOUR]
        assert list(window.moments(NOON - DAY)) == wanted
        assert window.count(NOON - DAY, NOON + DAY) == 3
        assert window.latest(9, after=NOON - DAY, until=NOON + DAY) == wanted
        assert window.last_before(NOON + DAY, after=NOON - DAY) == wanted[-1]
        inside = replace(schedule, start_at=NOON + INSTANT, end_at=NOON + 2 * HOUR - INSTANT)
        assert list(inside.moments(NOON - DAY)) == [NOON + HOUR]
        assert inside.count(NOON - DAY, NOON + DAY) == 1


def test_a_start_between_two_moments_does_not_move_the_grid():
    assert cron("*/10 * * * *", start_at=NOON + 61 * SECOND).next_after(NOON) == NOON + 10 * MINUTE
    assert every(10 * MINUTE, start_at=NOON + SECOND).next_after(NOON) == NOON + 10 * MINUTE


@pytest.mark.parametrize("schedule", [cron("* * * * *"), every(SECOND), once(NOON)])
def test_an_empty_window_has_no_moments(schedule):
    empty = replace(schedule, start_at=NOON + SECOND / 2, end_at=NOON + SECOND / 3)
    assert empty.next_after(NOON - DAY) is None
    assert empty.count(NOON - DAY, NOON + DAY) == 0
    assert empty.latest(3, after=NOON - DAY, until=NOON + DAY) == []


def test_once_outside_its_window_never_comes():
    assert once(NOON, start_at=NOON + INSTANT).next_after(NOON - DAY) is None
    assert once(NOON, end_at=NOON - INSTANT).next_after(NOON - DAY) is None
    assert once(NOON, start_at=NOON + INSTANT).count(NOON - DAY, NOON + DAY) == 0
    assert once(NOON, start_at=NOON, end_at=NOON).next_after(NOON - DAY) == NOON


@pytest.mark.parametrize("schedule", ALL)
def test_nothing_lies_between_an_instant_and_itself_or_an_earlier_one(schedule):
    for until in (NOON, NOON - INSTANT, NOON - 400 * DAY):
        assert list(schedule.between(NOON, until)) == []
        assert schedule.count(NOON, until) == 0
        assert schedule.latest(3, after=NOON, until=until) == []
        assert schedule.last_before(until, after=NOON) is None


# --- the ends of time -----------------------------------------------------------------------------


def test_nothing_was_due_before_1970():
    assert cron("0 0 * * *").next_after(MIN) == at("1970-01-01")
    assert cron("0 0 * * *", "Europe/Berlin").next_after(MIN) == at("1970-01-01T23:00")
    assert every(DAY, anchor=at("2000-01-01T12:00")).next_after(MIN) == at("1970-01-01T12:00")
    assert once(at("1969-12-31T23:59:59")).next_after(MIN) is None
    assert cron("0 0 * * *").count(MIN, at("1970-01-31")) == 31


@pytest.mark.parametrize("schedule", ALL)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "Europe/Berlin"])
def test_there_is_nothing_after_the_year_9998(schedule, zone):
    schedule = replace(schedule, zone=ZoneInfo(zone))
    for after in (at("9999-01-01"), at("9999-12-31T23:00"), MAX):
        assert schedule.next_after(after) is None
    moments = list(schedule.between(at("9998-12-31T22:00"), MAX))
    assert all(moment.year == 9998 for moment in moments)


@pytest.mark.parametrize("schedule", ALL)
def test_up_to_the_end_of_time_as_many_are_counted_as_there_are(schedule):
    after = at("9998-12-31T12:00")
    assert schedule.count(after, MAX) == len(list(schedule.between(after, MAX)))


def test_what_would_come_after_the_end_of_time_does_not_come():
    assert every(2**31 * SECOND, anchor=at("9990-01-01")).next_after(at("9990-01-01")) is None
    assert every(timedelta.max).next_after(NOON) is None
    assert once(at("9999-01-01")).next_after(NOON) is None
    assert once(at("9998-12-31")).next_after(NOON) == at("9998-12-31")
    assert cron("0 0 29 2 *").next_after(at("9996-02-29")) is None


@pytest.mark.parametrize("schedule", ALL)
@pytest.mark.parametrize("start_at", [MIN, MIN + HOUR, at("1900-01-01")])
def test_a_window_that_starts_in_the_far_past_changes_nothing(schedule, start_at):
    long = replace(schedule, start_at=start_at)
    assert long.next_after(NOON) == schedule.next_after(NOON)
    assert long.count(NOON, NOON + DAY) == schedule.count(NOON, NOON + DAY)


@pytest.mark.parametrize("schedule", ALL)
def test_a_window_that_ends_at_the_end_of_time_changes_nothing(schedule):
    long = replace(schedule, end_at=MAX)
    assert first(long, NOON, 3) == first(schedule, NOON, 3)
    assert long.count(NOON, NOON + DAY) == schedule.count(NOON, NOON + DAY)


def test_nothing_is_found_back_to_the_beginning_of_time():
    schedule = cron("* * * * *", start_at=NOON)
    assert schedule.last_before(NOON - SECOND, after=MIN) is None
    assert schedule.last_before(NOON, after=MIN) == NOON


def test_the_share_of_the_last_moment_stays_within_time():
    last = at("9998-12-31")
    assert once(last, jitter=(2**31 - 1) * SECOND).fires_at(last) >= last


# --- the last before ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "until", "last"),
    [
        (cron("0 0 29 2 *"), "2103-12-31", "2096-02-29"),
        (cron("0 0 29 2 *"), "2104-02-29", "2104-02-29"),
        (cron("59 59 23 31 12 *"), "2026-12-31T23:59:58", "2025-12-31T23:59:59"),
        (cron("* * * * * *"), "2026-06-01T12:00:00.999999", "2026-06-01T12:00:00"),
        (cron("30 2 * * *", "Europe/Berlin"), "2026-03-29T01:30", "2026-03-29T01:00"),
        (cron("*/15 2 * * *", "Europe/Berlin"), "2026-03-29T09:00", "2026-03-28T01:45"),
        (cron("*/15 2 * * *", "Europe/Berlin"), "2026-10-25T09:00", "2026-10-25T01:45"),
        (cron("30 2 * * *", "Europe/Berlin"), "2026-10-25T09:00", "2026-10-25T00:30"),
        (every(7 * DAY), "2026-06-08T11:59:59.999999", "2026-06-01T12:00"),
        (once(NOON), "2099-01-01", "2026-06-01T12:00"),
    ],
)
def test_the_last_before_is_found_however_far_back(schedule, until, last):
    assert schedule.last_before(at(until), after=at("1970-01-01")) == at(last)
    assert schedule.last_before(at(until), after=at(last) - INSTANT) == at(last)
    assert schedule.last_before(at(until), after=at(last)) is None


def test_the_newest_are_found_without_going_through_the_others(monkeypatch):
    calls = []
    asked = Schedule.next_after
    monkeypatch.setattr(Schedule, "next_after", lambda *a: calls.append(a) or asked(*a))
    seconds = cron("* * * * * *", "Europe/Berlin")
    newest = seconds.latest(5, after=NOON - 400 * DAY, until=NOON)
    assert newest == [NOON - n * SECOND for n in range(4, -1, -1)]
    june = cron("* * * * 6 *")
    assert june.latest(1, after=NOON, until=at("2027-05-20")) == [at("2026-06-30T23:59:59")]
    rare = cron("0 0 29 2 *")
    assert rare.latest(2, after=at("1970-01-01"), until=at("2103-01-01")) == [
        at("2092-02-29"), at("2096-02-29"),
    ]  # fmt: skip
    assert len(calls) < 300


# --- jitter ---------------------------------------------------------------------------------------


def test_without_jitter_a_moment_is_when_it_fires():
    assert cron("* * * * *").fires_at(NOON) == NOON


@pytest.mark.parametrize("schedule", ALL[:-1])
def test_the_share_of_the_jitter_depends_on_the_key_and_the_moment_only(schedule):
    schedules = [replace(schedule, jitter=30 * SECOND, key=bytes([n])) for n in range(20)]
    moment = schedule.next_after(NOON - DAY)
    shares = [s.fires_at(moment) - moment for s in schedules]
    assert len(set(shares)) > 15
    assert shares == [replace(s, end_at=MAX).fires_at(moment) - moment for s in schedules]
    assert all(timedelta(0) <= share < 30 * SECOND for share in shares)


def test_the_shares_of_many_moments_are_spread_evenly():
    schedule = cron("* * * * *", jitter=MINUTE, key=b"some task")
    moments = first(schedule, NOON, 1000)
    fires = [schedule.fires_at(moment) for moment in moments]
    assert fires == sorted(set(fires))
    tenths = [int((at - moment) / MINUTE * 10) for at, moment in zip(fires, moments, strict=True)]
    assert all(60 < tenths.count(n) < 140 for n in range(10))


def test_a_jitter_longer_than_the_interval_ends_before_the_next_moment():
    schedule = every(SECOND, jitter=HOUR, key=b"some task", end_at=NOON + 99 * SECOND)
    moments = list(schedule.moments(NOON))
    assert len(moments) == 99
    for moment, following in zip(moments, [*moments[1:], NOON + HOUR], strict=True):
        assert moment <= schedule.fires_at(moment) < following
