"""What cron expressions, and moments that were missed, are promised to mean: each by its name."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from tasks import cron
from tasks.misfire import Span, plan
from tasks.models import Task
from tasks.schedule import Schedule
from tests import marks

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
EVE = NEW_YEAR - timedelta(microseconds=1)
NEXT_YEAR = datetime(2027, 1, 1, tzinfo=UTC)
UTC_ZONE = ZoneInfo("UTC")


def of(expression):
    return Schedule(zone=UTC_ZONE, cron=cron.parse(cron.normalise(expression)))


def first(expression, number):
    """Its first moments of the year 2026."""
    return list(islice(of(expression).moments(EVE), number))


def of_a_year(expression):
    return of(expression).count(EVE, NEXT_YEAR - SECOND)


def dates(expression, *, month=1):
    """The days of a month of 2026 on which it runs."""
    whole = of(expression).between(EVE, NEXT_YEAR - SECOND)
    return sorted({moment.day for moment in whole if moment.month == month})


# --- fields ---------------------------------------------------------------------------------------


def test_of_six_fields_the_first_is_the_second():
    assert first("15 30 2 4 5 *", 1) == [datetime(2026, 5, 4, 2, 30, 15, tzinfo=UTC)]


def test_five_fields_get_a_zero_for_the_second_in_front():
    assert cron.normalise("30 2 4 5 *") == "0 30 2 4 5 *"
    assert first("30 2 4 5 *", 1) == first("0 30 2 4 5 *", 1)


def test_every_fifth_second_is_five_seconds_after_the_one_before():
    assert first("*/5 * * * * *", 30) == [NEW_YEAR + 5 * n * SECOND for n in range(30)]


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("* 0 0 1 1 *", 60), ("0 * 0 1 1 *", 60), ("0 0 * 1 1 *", 24),
        ("0 0 0 * 1 *", 31), ("0 0 0 1 * *", 12), ("0 0 0 * * *", 365), ("* * * 1 1 *", 86400),
    ],
)  # fmt: skip
@pytest.mark.parametrize("written", ["*", "?"])
def test_a_star_and_a_question_mark_are_every_value_of_their_field(expression, count, written):
    assert of_a_year(expression.replace("*", written)) == count


def test_a_number_is_that_value_and_no_other():
    assert first("5 4 3 2 1 *", 2) == [
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC),
    ]  # fmt: skip


def test_numbers_with_commas_are_each_of_them_and_no_other():
    assert first("7,40 30,5 0 1 1 *", 5) == [
        NEW_YEAR + MINUTE * minute + SECOND * second
        for minute, second in ((5, 7), (5, 40), (30, 7), (30, 40))
    ] + [datetime(2027, 1, 1, 0, 5, 7, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("expression", "part", "values"),
    [
        ("*/25 0 0 1 1 *", "second", [0, 25, 50]),
        ("0 */25 0 1 1 *", "minute", [0, 25, 50]),
        ("0 0 */9 1 1 *", "hour", [0, 9, 18]),
        ("0 0 0 */10 1 ?", "day", [1, 11, 21, 31]),
        ("0 0 0 1 */5 *", "month", [1, 6, 11]),
        ("0 0 0 ? 1 */3", "day", [3, 4, 7, 10, 11, 14, 17, 18, 21, 24, 25, 28, 31]),
    ],
)
def test_a_step_counts_from_the_lowest_value_of_its_field(expression, part, values):
    found = [getattr(moment, part) for moment in first(expression, len(values))]
    assert found == values
    assert of_a_year(expression) == len(values)


@pytest.mark.parametrize(
    ("minute", "values"),
    [
        ("10-13", [10, 11, 12, 13]),
        ("10-40/15", [10, 25, 40]),
        ("10-39/15", [10, 25]),
        ("7/20", [7, 27, 47]),
        ("1-2,50-59/8,30", [1, 2, 30, 50, 58]),
    ],
)
def test_a_range_goes_to_its_last_value_and_its_step_counts_from_its_first(minute, values):
    expression = f"0 {minute} 0 1 1 *"
    assert [moment.minute for moment in first(expression, len(values))] == values
    assert of_a_year(expression) == len(values)


def test_months_and_days_of_the_week_have_names_in_any_case():
    assert dates("0 0 ? JAN mon-Wed") == dates("0 0 ? 1 1-3")
    assert dates("0 0 ? jan,FEB Fri", month=2) == [6, 13, 20, 27]


def test_sunday_is_zero_and_seven():
    assert dates("0 0 ? * 0") == dates("0 0 ? * 7") == dates("0 0 ? * SUN") == [4, 11, 18, 25]


def test_l_is_the_last_day_of_a_month_or_the_last_such_weekday():
    assert [dates("0 0 L * ?", month=month) for month in (1, 2, 4)] == [[31], [28], [30]]
    assert dates("0 0 ? * L5") == [30]


def test_w_is_the_nearest_working_day_within_the_month():
    assert dates("0 0 15W * ?", month=2) == [16]  # the 15th is a Sunday
    assert dates("0 0 1W * ?", month=8) == [3]  # the 1st is a Saturday
    assert dates("0 0 31W * ?", month=5) == [29]  # the 31st is a Sunday


def test_a_hash_is_the_so_manieth_weekday_of_a_month():
    assert (dates("0 0 ? * 5#3"), dates("0 0 ? * THU#1")) == ([16], [1])


@pytest.mark.parametrize(
    ("macro", "meaning"),
    [
        ("@hourly", "0 * * * *"), ("@daily", "0 0 * * *"), ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"), ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"), ("@annually", "0 0 1 1 *"),
    ],
)  # fmt: skip
def test_a_macro_is_the_expression_it_stands_for(macro, meaning):
    assert first(macro, 100) == first(meaning, 100)


def test_a_day_of_the_month_and_a_day_of_the_week_match_either():
    assert dates("0 0 13 * FRI") == [2, 9, 13, 16, 23, 30]
    assert dates("0 0 */10 * FRI") == [1, 2, 9, 11, 16, 21, 23, 30, 31]  # a step restricts as well


# --- what the preview says ------------------------------------------------------------------------


@marks.use
@pytest.mark.on("sqlite")
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("*/7 * * * *", "counted anew each hour"),
        ("0 0 */2 * *", "counted anew each month"),
        ("0 0 13 * 5", "on day 13 of the month or on any Friday"),
    ],
)
def test_the_preview_says_that_steps_begin_anew_and_that_either_day_matches(api, expression, words):
    told = api.post("tasks/preview", {"cron_expr": expression}).json()
    assert words in told["description"]


# --- misfire --------------------------------------------------------------------------------------

EVERY_MINUTE = Schedule(zone=UTC_ZONE, every=MINUTE, anchor=NEW_YEAR)


def judged(policy, passed, *, schedule=EVERY_MINUTE, limit=5):
    """What becomes of all moments since new year when somebody looks so much later."""
    return plan(
        schedule, NEW_YEAR, now=NEW_YEAR + passed, policy=policy, grace=MINUTE,
        catchup_limit=limit, room=1000,
    )  # fmt: skip


def minutes(*numbers):
    return [NEW_YEAR + n * MINUTE for n in numbers]


@pytest.mark.parametrize("late", [2, 10, 100_000])
def test_fire_now_runs_once_however_much_was_missed(late):
    found = judged("FIRE_NOW", late * MINUTE)
    assert found.runs == minutes(late)
    assert found.missed == Span(*minutes(0, late - 1), late)


@pytest.mark.parametrize("late", [2, 10, 100_000])
def test_skip_runs_nothing_that_was_missed(late):
    found = judged("SKIP", late * MINUTE)
    assert (found.runs, found.missed) == ([], Span(*minutes(0, late), late + 1))


@pytest.mark.parametrize("limit", [0, 1, 4, 11, 12])
def test_catch_up_limited_runs_the_newest_up_to_its_limit_oldest_first(limit):
    found = judged("CATCH_UP_LIMITED", 10 * MINUTE, limit=limit)
    assert found.runs == minutes(*range(11))[max(0, 11 - limit) :]
    assert (found.missed.count if found.missed else 0) == 11 - len(found.runs)


@pytest.mark.parametrize("policy", ["FIRE_NOW", "SKIP", "CATCH_UP_LIMITED"])
def test_what_is_not_later_than_the_grace_is_no_misfire_whatever_the_policy(policy):
    found = judged(policy, MINUTE, limit=0)
    assert (found.runs, found.late, found.missed) == (minutes(0, 1), False, None)
    assert judged(policy, MINUTE + SECOND, limit=0).late


@pytest.mark.parametrize("policy", ["FIRE_NOW", "SKIP", "CATCH_UP_LIMITED"])
@pytest.mark.parametrize("passed", [MINUTE / 2, 9.5 * MINUTE, 400 * DAY + MINUTE / 2])
def test_after_any_delay_an_interval_goes_on_with_the_next_moment_of_its_grid(policy, passed):
    following = judged(policy, passed).following
    assert NEW_YEAR + passed < following <= NEW_YEAR + passed + MINUTE
    assert (following - NEW_YEAR) % MINUTE == timedelta(0)


def test_what_comes_once_and_was_missed_under_skip_never_comes_again():
    found = judged("SKIP", DAY, schedule=Schedule(zone=UTC_ZONE, once=NEW_YEAR))
    assert (found.runs, found.following) == ([], None)
    assert found.missed == Span(NEW_YEAR, NEW_YEAR, 1)


@marks.use
@pytest.mark.on("sqlite")
@pytest.mark.django_db
def test_who_says_nothing_about_misfires_fires_now_after_a_minute_of_grace(api):
    body = {"name": "mine", "target_url": "http://svc/", "every": "5m"}
    told = api.post("tasks", body).json()
    task = Task.objects.get(pk=told["id"])
    assert (told["misfire_policy"], told["misfire_grace_seconds"]) == ("FIRE_NOW", 60)
    assert (task.misfire_policy, task.misfire_grace_seconds) == ("FIRE_NOW", 60)
