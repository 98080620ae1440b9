"""What a cron expression is in words: a table to read, and that no words stand for two meanings."""

import re
from collections import defaultdict
from datetime import UTC, datetime
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tasks.cron import BadCron, normalise, parse
from tasks.daylight import next_after
from tasks.words import LONGEST, describe

SENTENCES = [
    # around the clock
    ("* * * * * *", "Every second"),
    ("*/10 * * * * *", "Every 10 seconds"),
    ("0 * * * * *", "Every minute"),
    ("30 * * * * *", "Every minute at second 30"),
    ("0 */5 * * * *", "Every 5 minutes"),
    ("0 0,30 * * * *", "Every 30 minutes"),
    ("0 5/10 * * * *", "Every 10 minutes from 00:05 to 23:55"),
    ("0 0 * * * *", "Every hour"),
    ("0 15 * * * *", "Every hour at minute 15"),
    ("30 15 * * * *", "Every hour at minute 15 and second 30"),
    ("0 0 */2 * * *", "Every 2 hours"),
    ("0 0 0-20/4 * * *", "Every 4 hours"),
    ("0 0 */12 * * *", "Every 12 hours"),
    ("0 30 1/2 * * *", "Every 2 hours from 01:30 to 23:30"),
    # steps that do not divide
    ("*/7 * * * * *", "Every 7 seconds, counted anew each minute"),
    ("0 */7 * * * *", "Every 7 minutes, counted anew each hour"),
    ("0 */45 * * * *", "At minutes 0 and 45 of every hour"),
    ("0 0 */5 * * *", "Every 5 hours, counted anew each day"),
    ("0 15 */5 * * *", "Every 5 hours from 00:15 to 20:15"),
    ("0 0 */13 * * *", "At 00:00 and 13:00"),
    ("30 */7 * * * *", "At second 30 of every 7th minute from 0 to 56 of every hour"),
    # fixed times
    ("0 30 2 * * *", "At 02:30"),
    ("15 30 2 * * *", "At 02:30:15"),
    ("0 0 2,3 * * *", "At 02:00 and 03:00"),
    ("0 15,45 9,12,18 * * *", "At 09:15, 09:45, 12:15, 12:45, 18:15 and 18:45"),
    ("0 0 0,6,12,18 * * *", "At 00:00, 06:00, 12:00 and 18:00"),
    ("0 0,30 9,12,15,18 * * *", "At minutes 0 and 30 of hours 9, 12, 15 and 18"),
    ("0 0 0,2,4,6,8,10,12 * * *", "At minute 0 of every 2nd hour from 0 to 12"),
    # a part of the day
    ("0 */15 2 * * *", "Every 15 minutes from 02:00 to 02:45"),
    ("0 * 2 * * *", "Every minute from 02:00 to 02:59"),
    ("* 30 2 * * *", "Every second from 02:30:00 to 02:30:59"),
    ("0 0/30 9 * * *", "At 09:00 and 09:30"),
    ("0 0 9-17 * * *", "Every hour from 09:00 to 17:00"),
    ("*/10 * 9-17 * * *", "Every 10 seconds from 09:00:00 to 17:59:50"),
    ("0 */15 9-17 * * MON-FRI", "Every 15 minutes from 09:00 to 17:45, Monday to Friday"),
    ("0 0 8-18/2 * * 1-5", "Every 2 hours from 08:00 to 18:00, Monday to Friday"),
    # patterns
    (
        "0 0-30/10 9-17 * * MON-FRI",
        "At minutes 0, 10, 20 and 30 of every hour from 09:00 to 17:59, Monday to Friday",
    ),
    ("0 5-45/5 * * * *", "Every 5th minute from 5 to 45 of every hour"),
    ("0 1-59/2 * * * *", "Every 2 minutes from 00:01 to 23:59"),
    ("0 1-58/3 * * * *", "Every 3 minutes from 00:01 to 23:58"),
    ("0 0-56/2 * * * *", "Every 2nd minute from 0 to 56 of every hour"),
    ("0 3-57/3 * * * *", "Every 3rd minute from 3 to 57 of every hour"),
    ("0 */7 9-17 * * *", "Every 7th minute from 0 to 56 of every hour from 09:00 to 17:59"),
    ("0 */5 0-3,20-23 * * *", "Every 5th minute from 0 to 55 of hours 0 to 3 and 20 to 23"),
    ("5,20,35 * * * * *", "At seconds 5, 20 and 35 of every minute"),
    ("5,20,35 * 9,15 * * *", "At seconds 5, 20 and 35 of every minute of hours 9 and 15"),
    ("* 5 * * * *", "Every second of minute 5 of every hour"),
    ("0 1-5,10,20-22 * * * *", "At minutes 1 to 5, 10 and 20 to 22 of every hour"),
    # days of the week
    ("0 0 9 * * 1-5", "At 09:00, Monday to Friday"),
    ("0 0 9 ? * 1", "At 09:00 on Mondays"),
    ("0 0 9 * * 0,6", "At 09:00 on Saturdays and Sundays"),
    ("0 0 9 * * 7", "At 09:00 on Sundays"),
    ("0 0 9 * * mon,wed,fri", "At 09:00 on Mondays, Wednesdays and Fridays"),
    ("0 0 9 * * 1-3,5", "At 09:00 on Mondays, Tuesdays, Wednesdays and Fridays"),
    ("0 0 9 * * fri-mon", "At 09:00, Friday to Monday"),
    ("0 0 8,12 * * 1", "At 08:00 and 12:00 on Mondays"),
    ("0 0 8,12,18 * * 1", "At 08:00, 12:00 and 18:00, on Mondays"),
    ("0 */5 * * * 1", "Every 5 minutes, on Mondays"),
    ("0 0 0 ? * 5#3", "At 00:00 on the third Friday of the month"),
    ("0 0 0 ? * L5", "At 00:00 on the last Friday of the month"),
    ("0 0 0 ? * 5#1,5#3", "At 00:00 on the first and third Friday of the month"),
    ("0 0 0 ? * 1#1,L5", "At 00:00 on the first Monday and the last Friday of the month"),
    ("0 0 0 ? * 1#2,4#2", "At 00:00 on the second Monday and Thursday of the month"),
    # days of the month
    ("0 0 0 1 * *", "At 00:00 on day 1 of the month"),
    ("0 0 0 1,15 * ?", "At 00:00 on days 1 and 15 of the month"),
    ("0 0 0 1-7 * *", "At 00:00 on days 1 to 7 of the month"),
    ("0 0 0 25-5 * *", "At 00:00 on days 1 to 5 and 25 to 31 of the month"),
    ("0 0 0 L * *", "At 00:00 on the last day of the month"),
    ("0 0 0 15,L * *", "At 00:00 on day 15 and the last day of the month"),
    ("0 0 0 15W * *", "At 00:00 on the working day nearest to day 15 of the month"),
    ("0 0 0 */2 * *", "At 00:00 every 2 days, counted anew each month"),
    ("0 0 0 2/2 * *", "At 00:00 on every 2nd day from 2 to 30 of the month"),
    ("0 0 0 */10 * *", "At 00:00 on days 1, 11, 21 and 31 of the month"),
    ("0 */5 * */2 * *", "Every 5 minutes, on every 2nd day from 1 to 31 of the month"),
    ("0 0 0 1-31 * *", "At 00:00"),
    # months
    ("0 0 0 1 1 *", "At 00:00 on day 1 of January"),
    ("0 0 0 L 2 *", "At 00:00 on the last day of February"),
    ("0 0 0 ? 11 4#4", "At 00:00 on the fourth Thursday of November"),
    ("0 0 0 1 */3 *", "At 00:00 on day 1 of the month, in January, April, July and October"),
    ("0 0 0 * JAN-MAR *", "At 00:00 every day in January to March"),
    ("0 0 0 * nov-feb *", "At 00:00 every day in November to February"),
    ("0 */5 * * 8 1-5", "Every 5 minutes, Monday to Friday, in August"),
    # days of the month or of the week
    ("0 0 0 13 * 5", "At 00:00 on day 13 of the month or on any Friday"),
    ("0 0 0 13 * 1,5", "At 00:00 on day 13 of the month or on any Monday or Friday"),
    ("0 0 0 L * 1-5", "At 00:00 on the last day of the month or on any day from Monday to Friday"),
    ("0 0 0 */2 * 5", "At 00:00 on every 2nd day from 1 to 31 of the month or on any Friday"),
    (
        "0 0 0 13 * */2",
        "At 00:00 on day 13 of the month or on any Tuesday, Thursday, Saturday or Sunday",
    ),
    ("0 0 0 13 6 5", "At 00:00 on day 13 of the month or on any Friday, only in June"),
    ("0 0 0 1 * 5#3", "At 00:00 on day 1 of the month or on the third Friday of the month"),
    ("0 */5 * 13 * 5", "Every 5 minutes, on day 13 of the month or on any Friday"),
    ("0 0 0 */1 * 5", "At 00:00"),
    ("0 0 0 13 * 0-6", "At 00:00"),
]


@pytest.mark.parametrize(("expression", "sentence"), SENTENCES)
def test_an_expression_in_words(expression, sentence):
    assert describe(normalise(expression)) == sentence


def test_what_would_be_too_long_is_quoted():
    odd = "1-59/2,2-59/7"
    normal = normalise(f"{odd} {odd} 1-23/2,2-22/6 1-31/2,2-31/6 1,3,5,7,10,12 1#1,2#2,3#3,4#4,L5")
    assert describe(normal) == f"Whenever clock and date match {normal}"


# --- no sentence for two meanings -----------------------------------------------------------------

SECONDS = "0 30 * 0,30 */20 */7"
MINUTES = (
    "* 0 1 30 59 0,30 15,45 0,1 0,20,40 0,15,30,45 */2 */7 */15 */20 */30 */31 */45 5/10 0/10 1/2 "
    "0-58/2 0-30/10 0-40/5 1-59 0-1 0-2 1-5,7 */5,*/7"
)
HOURS = (
    "* 0 1 23 2,3 0,12 6,18 0,1,2,3 0-3 1-3 1-23 0-22 */2 */5 */6 */7 */12 */13 1/2 0-20/4 0-12/2 "
    "0-10/5 8-18/2 0-3,20-23 0,2,4,6,8,10,12"
)
DATES = (
    "* ? 1 31 1,15 1-3 1-31 1-30 */1 */2 */5 */6 */7 2/2 2-31/2 1-29/2 1-30/5 25-5 L 1,L 31,L 1-L "
    "*/2,L 1W 15W 31W"
)
MONTHS = "* 1 feb 1,2 nov-feb */1 */3 1,3,5,7,8"
WEEKDAYS = (
    "* ? 0 7 1 fri 1-5 mon-fri fri-mon 0-6 */1 */2 1,5 5#3 5#5 L5 5#3,L5 1#3,5#3 1#1,5#3 mon-fri#1 "
    "1#1,1#2,2#1,2#2 1#1,1#2,2#1 1-3,5 1-4"
)


def combined(*fields):
    return map(" ".join, product(*(words.split() for words in fields)))


def by_sentence(expressions, meaning):
    found = defaultdict(set)
    for expression in expressions:
        try:
            normal = normalise(expression)
        except BadCron:
            continue
        found[describe(normal)].add(meaning(normal))
    assert len(found) > 1000
    return found


def times(normal):
    cron = parse(normal)
    return cron.seconds, cron.minutes, cron.hours


def days(normal):
    cron = parse(normal)
    months = product((2023, 2024), range(1, 13))
    return tuple(cron.days_of(year, month) for year, month in months)


def test_no_sentence_stands_for_two_sets_of_times():
    found = by_sentence(combined(SECONDS, MINUTES, HOURS, "*", "*", "*"), times)
    for sentence, meanings in found.items():
        assert len(meanings) == 1, sentence


def test_no_sentence_stands_for_two_sets_of_days():
    found = by_sentence(combined("0", "0", "0", DATES, MONTHS, WEEKDAYS), days)
    for sentence, meanings in found.items():
        assert len(meanings) == 1, sentence


def test_the_first_and_the_last_time_of_a_sentence_are_those_of_a_day():
    for normal in combined("0 30 *", MINUTES, HOURS, "*", "*", "*"):
        sentence, fields = describe(normal), times(normal)
        if " of " not in sentence and (shown := re.findall(r"\d\d:\d\d(?::\d\d)?", sentence)):
            for at in (0, -1):
                second, minute, hour = (values[at] for values in fields)
                assert f"{hour:02}:{minute:02}:{second:02}".startswith(shown[at])


# --- any expression -------------------------------------------------------------------------------

fuzz = settings(
    max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def a_field(low, high, *special, wraps=False):
    value = st.integers(low, high)
    step = st.integers(1, min(high, 31))
    pair = st.tuples(value, value).filter(lambda p: p[0] < p[1] or (wraps and p[0] > p[1]))
    stretch = pair.map(lambda p: f"{p[0]}-{p[1]}")
    item = st.one_of(
        value.map(str),
        stretch,
        step.map("*/{}".format),
        st.tuples(value, step).map(lambda p: f"{p[0]}/{p[1]}"),
        st.tuples(stretch, step).map(lambda p: f"{p[0]}/{p[1]}"),
    )
    items = st.lists(item, min_size=1, max_size=4).map(",".join)
    return st.one_of(st.just("*"), items, *map(st.sampled_from, filter(None, [special])))


nth = st.tuples(st.integers(0, 6), st.integers(1, 5)).map(lambda p: f"{p[0]}#{p[1]}")
nths = st.lists(st.one_of(nth, st.integers(0, 6).map("L{}".format)), min_size=1, max_size=8)
FIELDS = (
    a_field(0, 59),
    a_field(0, 59),
    a_field(0, 23),
    st.one_of(a_field(1, 31, "?", "L", "5,L", wraps=True), st.integers(1, 31).map("{}W".format)),
    a_field(1, 12, "JAN-MAR", "nov-feb", "dec", wraps=True),
    st.one_of(a_field(0, 6, "?", "7", "MON-FRI", "fri-mon", wraps=True), nths.map(",".join)),
)
expressions = st.tuples(*FIELDS).map(" ".join)


def normalised(expression):
    try:
        return normalise(expression)
    except BadCron:
        assume(False)


def moments(normal):
    cron, found = parse(normal), []
    for start in (datetime(2024, 2, 27, tzinfo=UTC), datetime(2031, 6, 14, 11, 59, 7, tzinfo=UTC)):
        moment = start
        for _ in range(50):
            if (moment := next_after(cron, ZoneInfo("UTC"), moment)) is None:
                break
            found.append(moment)
    return found


@fuzz
@given(expressions)
def test_any_expression_has_one_printable_sentence(expression):
    sentence = describe(normalised(expression))
    assert sentence.isprintable()
    assert sentence.split(" ", 1)[0] in ("At", "Every", "Whenever")
    assert len(sentence) <= LONGEST
    assert not sentence.endswith((".", " ", ","))
    assert not re.search(r"None|  |\(\)|\[\]", sentence)


@fuzz
@given(expressions, st.integers(0, 5).flatmap(lambda at: st.tuples(st.just(at), FIELDS[at])))
def test_the_same_words_are_the_same_moments(expression, change):
    at, word = change
    words = expression.split()
    one = normalised(" ".join(words))
    other = normalised(" ".join([*words[:at], word, *words[at + 1 :]]))
    if describe(one) == describe(other):
        assert moments(one) == moments(other)
