"""What a cron expression may be, and how it is stored: what is taken, what is refused, and fuzz."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks import cron
from tests.tasks.test_rules import fuzz, refused


@pytest.mark.parametrize(
    ("expression", "stored"),
    [
        ("*/5 * * * *", "0 */5 * * * *"),
        ("0 */5 * * * *", "0 */5 * * * *"),
        ("  0   0 *  * * ", "0 0 0 * * *"),
        ("*/10 * * * * *", "*/10 * * * * *"),
        ("0 8-18/2 * * MON-FRI", "0 0 8-18/2 * * MON-FRI"),
        ("1,2,30-40/5 * * * *", "0 1,2,30-40/5 * * * *"),
        ("*/20,7 * * * *", "0 */20,7 * * * *"),
        ("0 0 ? * ?", "0 0 0 ? * ?"),
        ("? ? ? ? ?", "0 ? ? ? ? ?"),
        ("*/5\t* * * *", "0 */5 * * * *"),
        ("0 0 L * *", "0 0 0 L * *"),
        ("0 0 15W * *", "0 0 0 15W * *"),
        ("0 0 * * 5#2", "0 0 0 * * 5#2"),
        ("0 0 * * L5", "0 0 0 * * L5"),
        ("0 0 * jan,DEC sun", "0 0 0 * jan,DEC sun"),
        ("0 0 * * 7", "0 0 0 * * 7"),
        ("0 0 * * fri-mon", "0 0 0 * * fri-mon"),
        ("0 0 25-5 * *", "0 0 0 25-5 * *"),
        ("0 0 29 2 *", "0 0 0 29 2 *"),
        ("0 0 31 2,3 *", "0 0 0 31 2,3 *"),
        ("0 0 30 2 1", "0 0 0 30 2 1"),  # either matches: the Mondays of February
        ("0 0 31 4 */2", "0 0 0 31 4 */2"),
        ("@yearly", "0 0 0 1 1 *"),
        ("@annually", "0 0 0 1 1 *"),
        ("@monthly", "0 0 0 1 * *"),
        ("@weekly", "0 0 0 * * 0"),
        ("@daily", "0 0 0 * * *"),
        ("@midnight", "0 0 0 * * *"),
        ("@hourly", "0 0 * * * *"),
        (" @Hourly ", "0 0 * * * *"),
    ],
)
def test_a_cron_expression_is_stored_in_six_fields(expression, stored):
    assert cron.normalise(expression) == stored
    assert cron.normalise(stored) == stored


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("", "Five fields"),
        ("* * * *", "Five fields"),
        ("0 0 0 * * * 2030", "Five fields"),
        ("@reboot", "Five fields"),
        ("@every 5m", "Five fields"),
        ("R * * * *", "minute: R and H"),
        ("0 h * * *", "hour: R and H"),
        ("H/5 * * * *", "minute: R and H"),
        ("0 0 R(1-5) * *", "day of month: R and H"),
        ("5,H * * * * *", "second: R and H"),
        ("0 0 * * r", "day of week: R and H"),
        ("10-5 * * * *", "minute: the range 10-5"),
        ("7-7 * * * * *", "second: the range 7-7"),
        ("0 0 5-5 * *", "day of month: the range 5-5"),
        ("0 0 31-L * *", "day of month: the range 31-l"),
        ("0 0 * * 7-0", "day of week: the range 7-0"),
        ("0 0 25-5/3 * *", "day of month: 25-5 wraps and takes no step"),
        ("0 0 * * sat-tue/2", "day of week: sat-tue wraps and takes no step"),
        ("0 0 * 3-mar *", "month: the range 3-mar"),
        ("0 0 * * mon-1/2", "day of week: the range mon-1"),
        ("0 22-2 * * *", "hour: the range 22-2"),
        ("0 1-5,22-2/2 * * *", "hour: the range 22-2"),
        ("60 * * * *", "minute: 60 is out of range, 0 to 59"),
        ("0 24 * * *", "hour: 24 is out of range, 0 to 23"),
        ("0 0 0 * *", "day of month: 0 is out of range, 1 to 31"),
        ("0 0 32 * *", "day of month: 32"),
        ("0 0 * 13 *", "month: 13"),
        ("0 0 * * 8", "day of week: 8 is out of range, 0 to 7"),
        ("0-60 * * * *", "minute: 60 is out of range"),
        ("*/0 * * * *", "minute: a step of 0"),
        ("1,,2 * * * *", "minute: “1,,2”"),
        ("1.5 * * * *", "minute: “1.5”"),
        ("0 0 * march *", "month: “march”"),
        ("0 0 * * 5#6", "day of week: “5#6”"),
        ("*,5 * * * *", "minute: “*” in a list"),
        ("0 0 5,? * *", "day of month: “*” in a list"),
        ("0 0 W15 * *", "day of month: write the working day"),
        ("0 0 1,15W * *", "day of month: write the working day"),
        ("0 0 * * 0-6,5#3", "day of week: days of every week"),
        ("0 0 * * 1,L5", "day of week: days of every week"),
        ("every day", "Five fields"),
        ("0 0 30 2 *", "never"),
        ("0 0 31 4,6,9,11 ?", "never"),
        ("0 0 31W 2 *", "never"),
        ("１ * * * *", "ASCII"),
        ("0 0 * * mön", "ASCII"),
        ("0 0 * * *\n", "ASCII"),
        ("0 0 * * *\0", "ASCII"),
        ("*" * 257, "256"),
        (" " * 257, "256"),
    ],
)
def test_a_cron_expression_that_would_surprise_is_refused(expression, problem):
    refused(cron.normalise, expression, problem)


def test_what_is_stored_is_never_longer_than_its_column():
    longest = ",".join("0" * 124) + " * * * *"
    assert len(longest) == 255
    refused(cron.normalise, longest, "256")  # with the second it would have 257
    assert len(cron.normalise(longest[2:])) == 255


cron_pieces = st.sampled_from(
    ["*", "?", "L", "W", "0", "1", "5", "7", "15W", "31", "59", "60", "99", "5#2", "5#L", "L5",
     "mon", "fri-mon", "jan", "sat#", "R", "H(", "h(1-2)", "@daily", "/", "-", ",", "#", "*/5",
     "*/0", "1-5", "5-1", "0-59/7", "1-1", "-1", "--1", ",-", "/", "5/", "1/2/3", "*-5", "00",
     "２", "+1", "1e3", "0x5", "w", "l"]
)  # fmt: skip
cron_fields = st.lists(cron_pieces, min_size=1, max_size=3).map("".join)
cron_likely = st.lists(cron_fields, min_size=4, max_size=7).map(" ".join)
cron_short = st.text("0123456789*/,-LW#?HR ", max_size=40)


@fuzz
@given(st.text() | cron_likely | cron_short)
@example("0," * 124 + "0 * * * *")
def test_any_text_is_a_cron_expression_or_refused(text):
    try:
        stored = cron.normalise(text)
    except ValueError:
        return
    assert cron.normalise(stored) == stored
    assert len(stored.split(" ")) == 6
    assert len(stored) <= cron.LONGEST
