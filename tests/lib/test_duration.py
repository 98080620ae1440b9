"""Durations are read as people write them and answered in hours, minutes and seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronjob.lib import duration
from cronjob.lib.duration import LONGEST, BadDuration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5_400),
        ("2d", 172_800),
        ("1d2h3m4s", 93_784),
        ("1h0m", 3_600),
        ("05m", 300),
        ("90", 90),
        (90, 90),
        ("  5m\n", 300),
        ("3650d", LONGEST),
        (LONGEST, LONGEST),
    ],
)
def test_a_duration_is_read_as_seconds(text: str | int, seconds: int) -> None:
    assert duration.parse(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["m", "5x", "5M", "5m3h", "5m5m", "1.5h", "1h 30m", "5m!", "+5m", "1e3", "\u0665m", "5ms"],
)
def test_a_duration_written_otherwise_is_refused(text: str) -> None:
    with pytest.raises(BadDuration, match=r'Cannot read ".+" as a duration\. Write it like'):
        duration.parse(text)


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_duration_is_refused(text: str) -> None:
    with pytest.raises(BadDuration, match="is empty"):
        duration.parse(text)


@pytest.mark.parametrize("value", [True, False, 1.5, None, b"5m"])
def test_what_is_neither_text_nor_a_whole_number_is_refused(value: object) -> None:
    with pytest.raises(BadDuration, match="text or whole seconds"):
        duration.parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [0, "0", "0s", "0d0h", -1])
def test_nothing_and_less_is_refused(text: str | int) -> None:
    with pytest.raises(BadDuration, match="more than zero"):
        duration.parse(text)


@pytest.mark.parametrize("text", ["-5", "-5m"])
def test_a_minus_sign_is_refused(text: str) -> None:
    with pytest.raises(BadDuration, match="Cannot read"):
        duration.parse(text)


@pytest.mark.parametrize("text", [0, "0", "0s"])
def test_zero_is_read_when_asked_for(text: str | int) -> None:
    assert duration.parse(text, zero=True) == 0


def test_less_than_zero_is_refused_even_when_zero_is_asked_for() -> None:
    with pytest.raises(BadDuration, match="zero or more"):
        duration.parse(-1, zero=True)


@pytest.mark.parametrize("text", [LONGEST + 1, "3651d", "3650d1s", "9" * 40, 10**50])
def test_more_than_ten_years_is_refused(text: str | int) -> None:
    with pytest.raises(BadDuration, match="at most 10 years"):
        duration.parse(text)


def test_a_very_long_text_is_refused_without_being_quoted() -> None:
    with pytest.raises(BadDuration, match="over 40 characters") as caught:
        duration.parse("9" * 1_000_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (90, "1m30s"),
        (300, "5m"),
        (3_601, "1h1s"),
        (5_400, "1h30m"),
        (86_400, "24h"),
        (LONGEST, "87600h"),
    ],
)
def test_seconds_are_written_in_hours_at_most(seconds: int, text: str) -> None:
    assert duration.format(seconds) == text


def test_negative_seconds_are_not_written() -> None:
    with pytest.raises(BadDuration, match="cannot be negative"):
        duration.format(-1)


@given(st.integers(min_value=0, max_value=LONGEST))
def test_what_is_written_is_read_back(seconds: int) -> None:
    assert duration.parse(duration.format(seconds), zero=True) == seconds


@given(st.text() | st.from_regex(r"[0-9]{0,3}[dhms ]?[0-9]{0,3}[dhms.]?", fullmatch=True))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        seconds = duration.parse(text)
    except BadDuration:
        return
    assert 0 < seconds <= LONGEST
