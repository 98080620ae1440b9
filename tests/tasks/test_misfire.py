"""What becomes of a backlog: every policy, on time and late, with room and without."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.cron import normalise, parse
from tasks.misfire import Plan, Span, backlog, plan
from tasks.schedule import Schedule

INSTANT, SECOND, MINUTE = timedelta(microseconds=1), timedelta(seconds=1), timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
POLICIES = ["FIRE_NOW", "SKIP", "CATCH_UP_LIMITED"]


def cron(expression, zone="UTC", **others):
    return Schedule(zone=ZoneInfo(zone), cron=parse(normalise(expression)), **others)


def every(interval, **others):
    return Schedule(zone=ZoneInfo("UTC"), every=interval, anchor=NOON, **others)


def once(moment, **others):
    return Schedule(zone=ZoneInfo("UTC"), once=moment, **others)


def judge(schedule, now, oldest=NOON, policy="FIRE_NOW", grace=MINUTE, limit=2, room=100):
    return plan(
        schedule, oldest, now=now, policy=policy, grace=grace, catchup_limit=limit, room=room
    )


def minutes(*numbers):
    return [NOON + n * MINUTE for n in numbers]


def span(first, last, count):
    return Span(NOON + first * MINUTE, NOON + last * MINUTE, count)


MINUTELY = cron("* * * * *")
BACK = NOON + 5.5 * MINUTE  # when somebody looks again, after six moments


# --- on time or late ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("passed", [timedelta(0), SECOND, 59 * SECOND])
def test_the_usual_case_is_one_moment_that_runs(policy, passed):
    assert judge(MINUTELY, NOON + passed, policy=policy, limit=0) == Plan(
        runs=[NOON], late=False, missed=None, full=None, following=NOON + MINUTE
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_exactly_at_the_grace_is_on_time_and_a_moment_later_is_not(policy):
    hourly = every(HOUR)
    for grace in (timedelta(0), SECOND, MINUTE, 59 * MINUTE):
        punctual = judge(hourly, NOON + grace, policy=policy, grace=grace, limit=0)
        assert (punctual.runs, punctual.late, punctual.missed) == ([NOON], False, None)
        late = judge(hourly, NOON + grace + INSTANT, policy=policy, grace=grace, limit=0)
        assert late.late
        assert late.runs == ([NOON] if policy == "FIRE_NOW" else [])
        assert late.missed == (None if policy == "FIRE_NOW" else span(0, 0, 1))
        assert late.following == punctual.following == NOON + HOUR


@pytest.mark.parametrize("policy", POLICIES)
def test_a_backlog_that_is_on_time_runs_as_a_whole(policy):
    found = judge(MINUTELY, BACK, policy=policy, grace=BACK - NOON, limit=0)
    assert found == Plan(
        runs=minutes(0, 1, 2, 3, 4, 5), late=False, missed=None, full=None, following=minutes(6)[0]
    )


@pytest.mark.parametrize(
    ("policy", "limit", "runs", "missed"),
    [
        ("FIRE_NOW", 0, [5], (0, 4, 5)),
        ("FIRE_NOW", 3, [5], (0, 4, 5)),
        ("SKIP", 3, [], (0, 5, 6)),
        ("CATCH_UP_LIMITED", 0, [], (0, 5, 6)),
        ("CATCH_UP_LIMITED", 1, [5], (0, 4, 5)),
        ("CATCH_UP_LIMITED", 3, [3, 4, 5], (0, 2, 3)),
        ("CATCH_UP_LIMITED", 5, [1, 2, 3, 4, 5], (0, 0, 1)),
        ("CATCH_UP_LIMITED", 6, [0, 1, 2, 3, 4, 5], None),
        ("CATCH_UP_LIMITED", 100, [0, 1, 2, 3, 4, 5], None),
    ],
)
@pytest.mark.parametrize("schedule", [MINUTELY, every(MINUTE), cron("0-59/1 12 * * *")])
def test_a_late_backlog_is_judged_as_a_whole_by_its_oldest_moment(
    schedule, policy, limit, runs, missed
):
    newest_is_on_time = BACK - minutes(5)[0] < MINUTE
    found = judge(schedule, BACK, policy=policy, limit=limit)
    assert newest_is_on_time
    assert found == Plan(
        runs=minutes(*runs),
        late=True,
        missed=span(*missed) if missed else None,
        full=None,
        following=minutes(6)[0],
    )


def test_a_moment_that_comes_just_now_belongs_to_the_backlog():
    assert judge(MINUTELY, NOON + MINUTE).runs == minutes(0, 1)
    assert judge(MINUTELY, NOON + MINUTE - INSTANT).runs == minutes(0)
    late = judge(MINUTELY, NOON + 2 * MINUTE)
    assert (late.runs, late.missed) == (minutes(2), span(0, 1, 2))


# --- room -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "grace", "room", "runs", "missed", "full"),
    [
        ("FIRE_NOW", HOUR, 6, [0, 1, 2, 3, 4, 5], None, None),
        ("FIRE_NOW", HOUR, 5, [0, 1, 2, 3, 4], None, (5, 5, 1)),
        ("SKIP", HOUR, 4, [0, 1, 2, 3], None, (4, 5, 2)),
        ("SKIP", HOUR, 1, [0], None, (1, 5, 5)),
        ("SKIP", HOUR, 0, [], None, (0, 5, 6)),
        ("FIRE_NOW", MINUTE, 1, [5], (0, 4, 5), None),
        ("FIRE_NOW", MINUTE, 0, [], (0, 4, 5), (5, 5, 1)),
        ("SKIP", MINUTE, 0, [], (0, 5, 6), None),
        ("CATCH_UP_LIMITED", MINUTE, 3, [2, 3, 4], (0, 1, 2), (5, 5, 1)),
        ("CATCH_UP_LIMITED", MINUTE, 1, [2], (0, 1, 2), (3, 5, 3)),
        ("CATCH_UP_LIMITED", MINUTE, 0, [], (0, 1, 2), (2, 5, 4)),
    ],
)
def test_what_finds_no_room_is_told_apart_from_what_was_missed(
    policy, grace, room, runs, missed, full
):
    found = judge(MINUTELY, BACK, policy=policy, grace=grace, limit=4, room=room)
    assert found.runs == minutes(*runs)
    assert found.missed == (span(*missed) if missed else None)
    assert found.full == (span(*full) if full else None)
    assert found.following == minutes(6)[0]


# --- jitter ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [bytes([n]) for n in range(8)])
@pytest.mark.parametrize("behind", [1, 2, 7])
def test_a_moment_whose_share_has_not_passed_is_still_to_come(key, behind):
    schedule = cron("* * * * *", jitter=50 * SECOND, key=key)
    newest = NOON + behind * MINUTE
    before = judge(schedule, schedule.fires_at(newest) - INSTANT, grace=HOUR)
    assert before.runs == minutes(*range(behind))
    assert before.following == newest
    since = judge(schedule, schedule.fires_at(newest), grace=HOUR)
    assert since.runs == minutes(*range(behind + 1))
    assert since.following == newest + MINUTE


def test_lateness_counts_from_the_share_of_the_oldest_moment():
    schedule = every(HOUR, jitter=30 * MINUTE, key=b"some task")
    fires = schedule.fires_at(NOON)
    assert fires > NOON + MINUTE  # so that it matters
    assert not judge(schedule, fires).late
    assert not judge(schedule, fires + MINUTE).late
    late = judge(schedule, fires + MINUTE + INSTANT, policy="SKIP")
    assert (late.late, late.missed, late.following) == (True, span(0, 0, 1), NOON + HOUR)


def test_a_late_backlog_leaves_out_the_moment_whose_share_has_not_passed():
    schedule = cron("* * * * *", jitter=50 * SECOND, key=b"some task")
    now = schedule.fires_at(NOON + 5 * MINUTE) - INSTANT
    found = judge(schedule, now, policy="CATCH_UP_LIMITED", limit=2)
    assert (found.runs, found.missed) == (minutes(3, 4), span(0, 2, 3))
    assert found.following == NOON + 5 * MINUTE


# --- ends, and odd days ---------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [MINUTELY, every(MINUTE)])
def test_of_a_schedule_that_has_ended_nothing_follows(schedule):
    ended = Schedule(
        zone=schedule.zone, cron=schedule.cron, every=schedule.every, anchor=schedule.anchor,
        end_at=NOON + 3 * MINUTE,
    )  # fmt: skip
    for now in (NOON + 3 * MINUTE, NOON + 900 * DAY):
        found = judge(ended, now, policy="CATCH_UP_LIMITED")
        assert (found.runs, found.missed) == (minutes(2, 3), span(0, 1, 2))
        assert found.following is None
    assert judge(ended, NOON + 900 * DAY, oldest=NOON + 3 * MINUTE).runs == minutes(3)


@pytest.mark.parametrize("jitter", [timedelta(0), HOUR])
def test_what_comes_once_runs_or_is_missed(jitter):
    schedule = once(NOON, jitter=jitter, key=b"some task")
    fires = schedule.fires_at(NOON)
    nothing = {"missed": None, "full": None, "following": None}
    assert judge(schedule, fires) == Plan(runs=[NOON], late=False, **nothing)
    assert judge(schedule, fires + DAY) == Plan(runs=[NOON], late=True, **nothing)
    skipped = judge(schedule, fires + DAY, policy="SKIP")
    assert (skipped.runs, skipped.missed, skipped.following) == ([], span(0, 0, 1), None)
    assert judge(schedule, fires, room=0).full == span(0, 0, 1)


def test_a_backlog_over_an_odd_day_is_counted_as_the_clock_showed_it():
    schedule = cron("*/15 2 * * *", "Europe/Berlin")
    oldest = datetime(2026, 10, 24, 0, tzinfo=UTC)  # 02:00+02:00
    found = judge(schedule, oldest + 3 * DAY, oldest=oldest)
    newest = datetime(2026, 10, 26, 1, 45, tzinfo=UTC)
    assert (found.runs, found.following) == ([newest], newest + 23.25 * HOUR)
    assert found.missed == Span(oldest, newest - 15 * MINUTE, 4 + 8 + 4 - 1)


@pytest.mark.parametrize("behind", [0, 3])
def test_a_moment_that_the_zone_no_longer_has_still_runs(behind):
    # Kept as the next moment until the rules of the zone changed; it was due and is recorded.
    schedule = cron("30 * * * *")
    found = judge(schedule, NOON + behind * HOUR, grace=DAY)
    assert found.runs == [NOON, *(NOON + (n + 0.5) * HOUR for n in range(behind))]
    assert (found.missed, found.full) == (None, None)


# --- a long backlog -------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch):
    """How often the schedule was asked for a moment."""
    made = []
    asked = Schedule.next_after
    monkeypatch.setattr(Schedule, "next_after", lambda *a: made.append(a) or asked(*a))
    return made


@pytest.mark.parametrize(
    ("policy", "grace", "limit", "room", "most"),
    [
        ("FIRE_NOW", MINUTE, 5, 100, 300),
        ("SKIP", MINUTE, 5, 100, 300),
        ("CATCH_UP_LIMITED", MINUTE, 20, 100, 2000),
        ("CATCH_UP_LIMITED", MINUTE, 20, 0, 2000),
        ("FIRE_NOW", 900 * DAY, 5, 100, 400),
        ("FIRE_NOW", 900 * DAY, 5, 0, 300),
    ],
)
@pytest.mark.parametrize("jitter", [timedelta(0), HOUR])
def test_a_year_of_seconds_is_judged_without_going_through_it(
    calls, policy, grace, limit, room, most, jitter
):
    schedule = cron("* * * * * *", "Europe/Berlin", jitter=jitter, key=b"some task")
    now = NOON + 365 * DAY
    found = judge(schedule, now, policy=policy, grace=grace, limit=limit, room=room)
    assert len(calls) < most
    parts = [len(found.runs), *(part.count for part in (found.missed, found.full) if part)]
    assert sum(parts) in ((31_536_001,) if not jitter else (31_536_000, 31_536_001))
    assert found.following in (now, now + SECOND)


# --- against going through everything -------------------------------------------------------------


def gone_through(schedule, due, now, policy, grace, limit, room):
    """The same by listing every moment."""
    late = now - schedule.fires_at(due[0]) > grace
    wanted = {"FIRE_NOW": 1, "SKIP": 0, "CATCH_UP_LIMITED": limit}[policy] if late else len(due)
    missed, wanted = due[: max(len(due) - wanted, 0)], due[max(len(due) - wanted, 0) :]
    return Plan(
        runs=wanted[:room],
        late=late,
        missed=span_of(missed),
        full=span_of(wanted[room:]),
        following=schedule.next_after(due[-1]),
    )


def span_of(moments):
    return Span(moments[0], moments[-1], len(moments)) if moments else None


EXPRESSIONS = [
    "* * * * *", "*/7 * * * *", "*/20 * * * * *", "30 2 * * *", "0,30 2,3 * * *", "0 */2 * * *",
    "0 0 1 * *", "*/15 2 * * *", "0 9-17 * * MON-FRI", "0,1,59 0,23 * * *", "0 0 29 2 *",
]  # fmt: skip
seconds = st.integers(0, 90_000).map(lambda number: number * SECOND)


@st.composite
def cases(draw):
    start = datetime(2026, 3, 28, tzinfo=UTC) + draw(st.sampled_from([0, 1, 210, 211])) * DAY
    others = {"jitter": draw(st.just(0 * DAY) | seconds), "key": draw(st.binary(max_size=4))}
    if draw(st.booleans()):
        others["end_at"] = start + draw(seconds)
    kind = draw(st.sampled_from(["cron", "cron", "every", "once"]))
    if kind == "cron":
        schedule = cron(draw(st.sampled_from(EXPRESSIONS)), "Europe/Berlin", **others)
    elif kind == "every":
        schedule = every(draw(st.integers(11, 9999)) * SECOND, **others)
    else:
        schedule = once(start + draw(seconds), **others)
    oldest = schedule.next_after(start)
    if oldest is None:
        schedule = oldest = None
    return schedule, oldest


@settings(
    max_examples=500, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    cases().filter(lambda case: case[0]),
    seconds,
    st.sampled_from(POLICIES),
    st.sampled_from([timedelta(0), MINUTE, HOUR, DAY]),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_a_plan_is_what_going_through_every_moment_gives(case, passed, policy, grace, limit, room):
    schedule, oldest = case
    now = schedule.fires_at(oldest) + passed
    found = judge(schedule, now, oldest, policy, grace, limit, room)
    passing = takewhile(lambda moment: schedule.fires_at(moment) <= now, schedule.moments(oldest))
    due = [oldest, *passing]
    assert found == gone_through(schedule, due, now, policy, grace, limit, room)
    assert backlog(schedule, oldest, now) == span_of(due)


def test_before_its_share_has_passed_a_moment_is_no_backlog():
    schedule = every(HOUR, jitter=30 * MINUTE, key=b"some task")
    fires = schedule.fires_at(NOON)
    assert backlog(schedule, NOON, fires - INSTANT) is None
    assert backlog(schedule, NOON, fires) == span(0, 0, 1)
