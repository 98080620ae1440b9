"""Placeholders are filled in, filtered and refused as the documentation says."""

import contextlib
import json
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import django
import pytest
from django.conf import settings
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from cronjob.lib.template import CACHED_LENGTH, NAMES, TemplateError, literal, parse, plain

PARIS = ZoneInfo("Europe/Paris")
VALUES: dict[str, object] = dict.fromkeys(NAMES, "é\n") | {
    "run_id": "r1",
    "attempt": 2,
    "callback_url": None,
    "scheduled_time": datetime(2026, 7, 14, 22, 30, tzinfo=UTC),
    "triggered_at": datetime(2026, 7, 15, 0, 30, 1, 250_999, tzinfo=PARIS),
}
PIECES = ["{{", "}}", "{", "}", '"', "'", " ", "|", ":", "\\", "date", "tojson", "x\n", *NAMES]
HOSTILE = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)
MOMENTS = st.datetimes(datetime(2, 1, 2), datetime(9998, 12, 30), timezones=st.timezones())  # noqa: DTZ001
FORMATS = st.text(min_size=1, max_size=100).filter(lambda text: '"' not in text)


@pytest.fixture(scope="module", autouse=True)
def _django() -> None:
    if not settings.configured:
        settings.configure(USE_TZ=True, USE_I18N=True)
        django.setup()


def told(source: str, *, zone: ZoneInfo = PARIS, **changes: object) -> str:
    return parse(source).render(VALUES | changes, zone=zone)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ run_id }}/{{run_id}}/{{\trun_id\n}}", "r1/r1/r1"),
        ("{{ attempt }} {{ attempt|tojson }} {{ run_id | tojson }}", '2 2 "r1"'),
        ("[{{ callback_url }}] {{ callback_url|tojson }} {{ task_id|tojson }}", '[] null "é\\n"'),
        ("{{ triggered_at }}", "2026-07-14T22:30:01.250Z"),
        ("{{ scheduled_time|tojson }}", '"2026-07-14T22:30:00Z"'),
        ("{{ scheduled_time | date: 'l j F, H:i T' | tojson }}", '"Wednesday 15 July, 00:30 CEST"'),
        ('{{ scheduled_time|date:"}}|" }}', "}}|"),
        ("{{ '{{' }} run_id {{ \"}}\" }}{{ '' }}{{ 'a\\n' }}", "{{ run_id }}a\\n"),
        ('{"a":{"b":{{ attempt }}}}', '{"a":{"b":2}}'),
        ("}} { %} {% if %} {# # }}", "}} { %} {% if %} {# # }}"),
    ],
)
def test_a_placeholder_is_filled_in_and_all_else_is_kept(source: str, text: str) -> None:
    assert told(source) == text


@pytest.mark.parametrize(
    ("source", "character", "complaint"),
    [
        ("é {{ tsk_id }}", 6, 'unknown name "tsk_id" (did you mean task_id?)'),
        ("{{ RUN_ID }}", 4, 'unknown name "RUN_ID" (did you mean run_id?)'),
        ("{{ run_id task_id }}", 11, 'cannot read "task_id" after run_id'),
        ("{{ run_id|tojson|tojson }}", 17, 'cannot read "|tojson" after run_id'),
        ('{{ triggered_at|tojson|date:"Y" }}', 23, 'cannot read "|date:"Y"" after triggered_at'),
        ("{{ triggered_at|date }}", 16, 'cannot read "|date" after triggered_at'),
        ('{{ triggered_at|date:"" }}', 4, "1 to 100 letters"),
        (f'{{{{ triggered_at|date:"{"Y" * 101}" }}}}', 4, "1 to 100 letters"),
        ('{{ run_id|date:"Y" }}', 4, "date takes scheduled_time or triggered_at"),
        ('{{ "a"|tojson }}', 4, 'cannot read ""a"|tojson"'),
        ("a {{ run_id } }", 3, "{{ without its }}"),
        ("{{ \"run_id }} it's", 1, "a quote that is never closed"),
        ('{{"a":1}}', 3, 'cannot read ""a":1"'),
        ('{"x":{"y":{{}}}}', 13, "an empty placeholder"),
    ],
)
def test_anything_else_is_refused(source: str, character: int, complaint: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(source)
    message = str(caught.value)
    assert message.startswith(f"Character {character}: ")
    assert all(help in message for help in (complaint, *NAMES, 'use {{ "{{" }} and {{ "}}" }}'))


def test_a_short_template_is_remembered_and_knows_its_names() -> None:
    assert parse("{{ run_id }} {{ attempt|tojson }} {{ 'task_id' }}").names == {"run_id", "attempt"}
    assert parse("{{ run_id }}") is parse("{{ run_id }}")
    assert parse("x" * (CACHED_LENGTH + 1)) is not parse("x" * (CACHED_LENGTH + 1))


def test_a_time_that_is_not_there_renders_as_nothing() -> None:
    assert told('{{ triggered_at|date:"Y" }}', triggered_at=None) == ""
    assert told('{{ triggered_at|date:"Y"|tojson }}', triggered_at=None) == "null"


@pytest.mark.parametrize(("hour", "text"), [(0, "02 +0200 CEST 1"), (1, "02 +0100 CET 0")])
def test_the_hour_that_happens_twice_keeps_its_offset(hour: int, text: str) -> None:
    moment = datetime(2026, 10, 25, hour, tzinfo=UTC)
    assert told('{{ scheduled_time|date:"H O T I" }}', scheduled_time=moment) == text


def test_names_of_days_and_months_do_not_follow_the_language_of_the_request() -> None:
    with translation.override("fr"):
        assert told('{{ scheduled_time|date:"D M F A" }}') == "Wed Jul July AM"


@pytest.mark.parametrize("value", [7, datetime(2026, 7, 14), datetime.max.replace(tzinfo=UTC)])  # noqa: DTZ001
def test_a_value_that_is_missing_or_no_time_is_an_error(value: object) -> None:
    with pytest.raises(TemplateError, match=r"not a time|no time zone, or is at the calendar"):
        told('{{ scheduled_time|date:"Y" }}', scheduled_time=value)
    with pytest.raises(TemplateError, match="no value for run_id"):
        parse("{{ run_id }}").render({}, zone=PARIS)


@given(HOSTILE)
def test_any_text_is_rendered_or_refused_and_plain_text_is_kept(source: str) -> None:
    try:
        assert told(source) == source or "{{" in source
    except TemplateError:
        assert "{{" in source


@given(HOSTILE)
def test_any_text_can_be_a_value_or_a_literal(text: str) -> None:
    assert told("{{ task_name }}", task_name=text) == text
    assert json.loads(told("{{ task_name|tojson }}", task_name=text)) == text
    assert told(text.replace("{", "{{ '{' }}")) == text


@given(HOSTILE)
def test_any_text_can_be_written_as_a_template_and_read_back(text: str) -> None:
    assert told(literal(text)) == text
    assert plain(literal(text)) == text
    assert "{{" in text or literal(text) == text


@given(HOSTILE)
def test_a_template_without_names_is_plain_and_one_with_names_is_not(source: str) -> None:
    assert plain("{{ run_id }}" + literal(source)) is None
    with contextlib.suppress(TemplateError):
        assert plain(source) == (None if parse(source).names else told(source))


@given(MOMENTS, FORMATS, st.timezones())
def test_any_time_is_told_in_any_zone(moment: datetime, pattern: str, zone: ZoneInfo) -> None:
    formatted = f'{{{{ scheduled_time|date:"{pattern}"|tojson }}}}'
    assert isinstance(json.loads(told(formatted, zone=zone, scheduled_time=moment)), str)
    bare = told("{{ scheduled_time }}", zone=zone, scheduled_time=moment)
    assert bare.endswith("Z")
    assert abs((datetime.fromisoformat(bare) - moment).total_seconds()) < 0.001


@pytest.mark.parametrize("unit", ["{{", "}}", '"', "\"'", "a", " ", "|tojson", "{{run_id}}"])
@pytest.mark.parametrize("head", ["", "{{", "{{ run_id", "{{ triggered_at |"])
def test_a_megabyte_of_anything_is_read_or_refused_at_once(head: str, unit: str) -> None:
    started = time.process_time()
    with contextlib.suppress(TemplateError):
        parse(head + unit * (1024 * 1024 // len(unit)) + "x }}")
    assert time.process_time() - started < 1
