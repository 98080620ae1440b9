"""What is sent for an attempt, and what is kept of it."""

import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronjob import __version__
from cronjob.lib import template
from cronjob.lib.masking import MASK
from runs import calls
from runs.models import TaskRun
from tasks.models import Task
from tests import marks
from tests.factories import NOON, SECOND, make_run, make_task

TASK, RUN, TRACE = (uuid.UUID(int=n << 120 | n) for n in (1, 2, 3))
TOKEN = "4a" * 16
CALLBACK = f"https://cronjob.example/api/v1/callbacks/{TOKEN}"
LATER = NOON + 1.25 * SECOND
HOSTILE = [
    "a/b", "../..", "a?b#c", "a&b=c", "x@evil.test", "evil.test/", "a:b", "a\\b", "a b", "50%25",
    'say "hi"', "{{ run_id }}", "<script>", "Zürich", "夜间任务", "🦊", "a\tb", "", "'; DROP TABLE",
]  # fmt: skip


def run_of(run=None, **task):
    """A run under way of an unsaved task."""
    known = {"id": 7, "uuid": TASK, "name": "sync stats", "target_url": "http://svc/hook"}
    planned = {"moment": NOON, "scheduled_time": NOON, "trace_id": TRACE.hex, **(run or {})}
    claimed = {"id": 42, "uuid": RUN, "attempt": 1, "fence": 1} | planned
    made = TaskRun(task=Task(**(known | task)), **claimed)
    if made.template is None:
        made.template = json.loads(json.dumps(calls.freeze(made.task)))
    return made


def prepared(run=None, **task):
    made = run if isinstance(run, TaskRun) else run_of(run, **task)
    return calls.prepare(made, now=LATER, callback_url=CALLBACK, callback_token=TOKEN)


def sent(run=None, **task):
    call = prepared(run, **task)
    assert (call.problem, call.request is None) == ("", False)
    return call.request


def problem(run=None, **task):
    call = prepared(run, **task)
    assert call.request is None
    return call.problem


def body(run=None, **task):
    return sent(run, **({"http_method": "POST"} | task)).body.decode()


# --- templates ----------------------------------------------------------------------------------

FILLED = {
    "run_id": "42", "task_id": "7", "task_name": "sync stats", "attempt": "1",
    "scheduled_time": "2026-01-01T12:00:00Z", "triggered_at": "2026-01-01T12:00:01.250Z",
    "trace_id": TRACE.hex, "callback_url": CALLBACK, "callback_token": TOKEN,
}  # fmt: skip


@pytest.mark.parametrize("name", template.NAMES)
def test_every_name_can_stand_in_url_headers_and_body(name):
    source = f"{{{{ {name} }}}}"
    request = sent(
        exec_type="ASYNC", target_url=f"http://svc/{source}?v={source}#{source}",
        headers={"X-It": f"<{source}>"}, body_template=f"[{source}]",
    )  # fmt: skip
    text = FILLED[name]
    in_url = calls.quote(text, safe="")
    assert request.url == f"http://svc/{in_url}?v={in_url}#{in_url}"
    assert request.headers["X-It"] == f"<{text}>"
    assert request.body.decode() == f"[{text}]"


def test_dates_are_told_in_the_zone_of_the_task_on_the_odd_day_too():
    moment = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    task = {"timezone": "Europe/Berlin"}
    task["body_template"] = '{{ scheduled_time|date:"H:i T" }} {{ scheduled_time|tojson }}'
    assert body({"scheduled_time": moment}, **task) == '02:30 CET "2026-10-25T01:30:00Z"'
    assert body({"scheduled_time": moment - 3600 * SECOND}, **task)[:10] == "02:30 CEST"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_an_empty_body_says_what_the_attempt_is(method):
    request = sent(http_method=method)
    assert json.loads(request.body) == {
        "run_id": 42, "task_id": 7, "task_name": "sync stats", "attempt": 1,
        "scheduled_time": "2026-01-01T12:00:00Z", "triggered_at": "2026-01-01T12:00:01.250Z",
        "trace_id": TRACE.hex,
    }  # fmt: skip
    assert request.headers["Content-Type"] == "application/json"
    told = json.loads(sent(http_method=method, exec_type="ASYNC").body)
    assert (told["callback_url"], told["callback_token"]) == (CALLBACK, TOKEN)
    assert set(told) == set(template.NAMES)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
def test_other_methods_send_no_body_of_their_own(method):
    request = sent(http_method=method)
    assert (request.body, "Content-Type" in request.headers) == (b"", False)
    assert sent(http_method=method, body_template="x").body == b"x"
    assert body(body_template="{{ '' }}") == "", "and so can a POST"


def test_a_body_given_with_the_trigger_follows_the_same_rules():
    task = {"body_template": "task {{ run_id }}"}
    assert body({"override_body": None}, **task) == "task 42"
    assert body({"override_body": "mine {{ attempt }}"}, **task) == "mine 1"
    assert json.loads(body({"override_body": ""}, **task))["run_id"] == 42
    assert sent({"override_body": ""}, **task).body == b"", "it is a GET"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('{"job_id": "<filled-by-service>"}', f'{{"job_id": "{TASK}"}}'),
        ('{"run_id":"<filled-by-service>"}', f'{{"run_id":"{RUN}"}}'),
        ('{"run_id" :\n"\\u003cfilled-by-service\\u003e"}', f'{{"run_id" :\n"{RUN}"}}'),
        ('{"id": "<filled-by-service>"}', '{"id": "<filled-by-service>"}'),
        ("<filled-by-service>", "<filled-by-service>"),
    ],
)
def test_what_ksana_fills_in_is_filled_in_and_all_else_is_kept(source, text):
    assert body(body_template=source) == text
    value = body(name=source + "{{ run_id }}", body_template="{{ task_name }}")
    assert value == source + "{{ run_id }}", "a value is not read as a template"


@pytest.mark.parametrize(
    ("source", "json_like"),
    [
        ('{"a": 1}', True), (' [1, "é"]\n', True), ("1" * 5000, True),
        ("NaN", False), ("a=1", False), ("[" * 100_000, False),
    ],
)  # fmt: skip
def test_a_body_without_a_type_gets_one(source, json_like):
    kind = "application/json" if json_like else "text/plain; charset=utf-8"
    assert sent(body_template=source).headers["Content-Type"] == kind
    for own in ("x/y", ""):
        given = sent(body_template=source, headers={"content-TYPE": own}).headers
        assert [v for n, v in given.items() if n.lower() == "content-type"] == [own]


def test_a_body_is_written_as_its_type_says_or_not_at_all_and_whole():
    large = "é" * 2_000_000
    assert body(body_template=large + "{{ run_id }}") == large + "42"
    headers = {"Content-Type": 'text/plain; charset="GBK"'}
    assert sent(headers=headers, body_template="夜").body == "夜".encode("gbk")
    assert "gbk" in problem(headers=headers, body_template="🦊").lower()


# --- headers ------------------------------------------------------------------------------------


def test_a_call_says_what_it_is():
    headers = sent(headers={"Accept": "x/y"}, run={"attempt": 2, "trigger": "CATCH_UP"}).headers
    span = headers.pop("traceparent").split("-")
    assert (span[:2], len(span[2]), span[3]) == (["00", TRACE.hex], 16, "01")
    assert headers == {
        "Accept": "x/y",
        "Idempotency-Key": f"{TASK}:2026-01-01T12:00:00Z",
        "User-Agent": f"Cronjob/{__version__}",
        "X-Cronjob-Task-Id": "7", "X-Cronjob-Run-Id": "42", "X-Cronjob-Attempt": "2",
        "X-Cronjob-Scheduled-At": "2026-01-01T12:00:00Z",
        "X-Cronjob-Triggered-At": "2026-01-01T12:00:01.250Z",
        "X-Cronjob-Reason": "CATCH_UP", "X-Ksana-Run-Id": str(RUN),
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "forced"), [("ASYNC", False), ("SYNC", True)])
def test_an_asynchronous_call_says_where_to_report(kind, forced):
    run = run_of({"force_async": forced}, exec_type=kind, callback_method="PUT")
    call = prepared(run)
    told = {n: v for n, v in call.request.headers.items() if "Callback" in n}
    names = [f"X-Cronjob-Callback-{part}" for part in ("Url", "Token", "Method")]
    assert told == dict(zip(names, (CALLBACK, TOKEN, "PUT"), strict=True))
    assert call.asynchronous
    lonely = calls.prepare(run, now=LATER)
    assert (lonely.request, "CRONJOB_BASE_URL" in lonely.problem) == (None, True)
    assert TOKEN not in str(sent().headers)


def test_defaults_stand_under_the_task_and_the_task_under_us(settings):
    settings.CRONJOB_DEFAULT_HEADERS = {"X-Team": "a", "accept": "b", "user-agent": "c"}
    mine = {"ACCEPT": "d", "Idempotency-KEY": "e", "Traceparent": "f", "x-ksana-run-id": "g"}
    request = sent(headers=mine)
    lower = {name.lower(): value for name, value in request.headers.items()}
    assert len(lower) == len(request.headers)
    assert (lower["x-team"], lower["accept"]) == ("a", "d")
    assert lower["user-agent"].startswith("Cronjob/")
    assert set(request.private_headers) & set(request.headers) == {"X-Team", "ACCEPT"}


@pytest.mark.parametrize(
    ("trigger", "moment", "key"),
    [
        ("SCHEDULE", NOON, "2026-01-01T12:00:00Z"),
        ("CATCH_UP", NOON + timedelta(microseconds=1), "2026-01-01T12:00:00.000001Z"),
        ("MANUAL", None, f"run:{RUN}"),
        ("REPLAY", None, f"run:{RUN}"),
    ],
)
def test_the_idempotency_key_is_equal_on_every_attempt(trigger, moment, key):
    for attempt in (1, 2):
        run = {"trigger": trigger, "moment": moment, "attempt": attempt, "fence": attempt + 3}
        assert sent(run).headers["Idempotency-Key"] == f"{TASK}:{key}"


def test_a_trace_goes_through_all_attempts_with_a_span_for_each():
    first, second = (prepared({"fence": fence}) for fence in (1, 2))
    spans = [call.request.headers["traceparent"] for call in (first, second)]
    assert [span[3:35] for span in spans] == [TRACE.hex] * 2
    assert spans[0] != spans[1]
    for unfit in ("", "0" * 32, "A" * 32, "x"):
        assert prepared({"trace_id": unfit}).trace_id == RUN.hex


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ('say "hi" 100%', 'say "hi" 100%'),
        ("Zürich 夜", "Z%C3%BCrich %E5%A4%9C"),
        (" edges ", "edges"),
    ],
)
def test_a_value_in_a_header_is_ascii(value, told):
    sources = {"X-It": "{{ task_name }}", "X-Json": "{{ task_name|tojson }}", "X-Own": "é"}
    headers = sent(name=value, headers=sources).headers
    assert (headers["X-It"], headers["X-Own"]) == (told, "é")
    assert headers["X-Json"].isascii()
    assert json.loads(headers["X-Json"]) == value


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "a\x1b[0m", "a\x7f"])
def test_a_line_break_or_control_in_a_header_stops_the_call(value):
    assert "Header X-It" in problem(name=value, headers={"X-It": "{{ task_name }}"})
    assert "Header X-It" in problem(headers={"X-It": value})


@pytest.mark.parametrize("name", ["Host", "content-LENGTH", "X-Cronjob-A", "a b", "a\r\nb", "é"])
def test_a_header_that_is_not_to_be_given_stops_the_call(name, settings):
    assert "cannot be given" in problem(headers={name: "x"})
    settings.CRONJOB_DEFAULT_HEADERS = {name: "x"}
    assert "cannot be given" in problem()


# --- URL ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_stays_in_the_part_of_the_url_that_it_stands_in(value):
    request = sent(name=value, target_url="http://svc:80/a/{{ task_name }}/b?c={{ task_name }}&d=1")
    parts = calls.urlsplit(request.url)
    assert (parts.netloc, parts.path.count("/"), parts.query.count("&")) == ("svc:80", 3, 1)
    assert (unquote(parts.path), unquote(parts.query)) == (f"/a/{value}/b", f"c={value}&d=1")


@pytest.mark.parametrize("value", [*HOSTILE, ".", ".evil.test", "a.b", "1]"])
@pytest.mark.parametrize("source", ["{}.svc/", "svc{}", "svc:{}"])
def test_a_value_can_be_a_label_of_the_host_and_nothing_more(source, value):
    assert "URL" in problem(name=value, target_url="http://" + source.format("{{ task_name }}"))
    url = "http://{{ task_name }}.svc:80{{ attempt }}/{{ attempt }}"
    assert sent(name="Billing-2_b", target_url=url).url == "http://Billing-2_b.svc:801/1"


def test_dots_lead_nowhere_else():
    for dots in (".", "..", "..."):
        assert "elsewhere" in problem(name=dots, target_url="http://svc/a/{{ task_name }}/b")


NO_URLS = [
    "", "svc/hook", "ftp://svc/", "http://", "http:///x", "http://a b/", "http://svc/\n",
    "http://svc\\@evil/", "http://u:p@svc/", "http://svc:99999/", "http://svc:0/", "http://[::1",
    "http://svc:x/", "http://svc/{{ run_id", "http://svc/{{ nobody }}", "{{ task_name }}://svc/",
]  # fmt: skip


@pytest.mark.parametrize("url", NO_URLS)
def test_a_url_that_is_none_stops_the_call(url):
    assert problem(target_url=url)


def test_the_templates_of_the_first_claim_serve_every_attempt():
    run = run_of(http_method="PUT", body_template="{{ task_name }} {{ attempt }}")
    run.task.name, run.task.target_url, run.task.body_template = "new", "http://new/", "new"
    run.task.headers, run.task.exec_type, run.task.timeout_seconds = {"X": "new"}, "ASYNC", 1
    run.attempt = run.fence = 2
    call = prepared(run)
    assert (call.method, call.url, call.body) == ("PUT", "http://svc/hook", "sync stats 2")
    assert (call.asynchronous, call.request.total_seconds, call.attempt) == (False, 15, 2)
    assert "X" not in call.headers


def test_how_to_call_comes_from_the_task(settings):
    settings.CRONJOB_RESPONSE_BYTES_MAX = 99
    task = {"connect_timeout_seconds": 2.5, "timeout_seconds": 7.0, "follow_redirects": True}
    request = sent(**task, on_lost="FAIL")
    assert (request.connect_seconds, request.total_seconds) == (2.5, 7.0)
    assert (request.follow_redirects, request.bytes_max, request.repeatable) == (True, 99, False)


@pytest.mark.parametrize("frozen", [[], [1], "x", 5, {"x": 1}, {"target_url": 5, "headers": None}])
def test_nothing_makes_prepare_raise(frozen):
    call = prepared({"template": frozen}, timezone="Nowhere/At_All")
    assert (call.run_id, call.request, bool(call.problem)) == (42, None, True)


TEXT = st.text() | st.sampled_from(["{{ task_name }}", "{{", "\ud800", "\x00", "a/../b"])


@given(TEXT, TEXT, TEXT, TEXT, st.datetimes(timezones=st.timezones()))
def test_whatever_a_row_holds_it_is_sent_or_refused(name, url, value, text, moment):
    run = run_of(
        {"scheduled_time": moment}, name=name, target_url=f"http://svc/{url}",
        headers={"X-It": value}, body_template=text,
    )  # fmt: skip
    run.template = calls.freeze(run.task)
    call = prepared(run)
    if call.request:
        assert re.match(r"http://svc[/?#]", call.request.url)
        assert not re.search(r"[\r\n]", "".join(call.request.headers.values()))
        "".join(call.request.headers.values()).encode("latin-1")


@marks.use
@pytest.mark.on("sqlite")
@pytest.mark.django_db
def test_a_row_read_back_is_sent_alike_without_a_query(django_assert_num_queries):
    task = make_task(http_method="POST", headers={"X-It": "{{ task_name }}"}, exec_type="ASYNC")
    run = make_run(task=task, status="RUNNING", attempt=1, fence=1, template=calls.freeze(task))
    read = TaskRun.objects.select_related("task").get(pk=run.pk)
    with django_assert_num_queries(0):
        assert prepared(read) == prepared(run)
        assert sent(read).headers["X-It"] == task.name


# --- what is kept -------------------------------------------------------------------------------

SECRETS = {
    "headers": {"Authorization": "Bearer abcdefgh", "X-Pass": "hunter22", "X": "Bearer abcdefgh"},
    "secret_headers": ["x-PASS"], "secret_paths": ["user.password"],
    "target_url": "http://svc/abcdefgh?api_key=k%2F345678&page=2",
    "body_template": '{"user": {"password": "p"}, "note": "hunter22 k/345678"}',
}  # fmt: skip


def test_secrets_are_sent_and_not_kept():
    call = prepared(**SECRETS)
    assert call.request.headers["Authorization"] == "Bearer abcdefgh"
    assert call.request.url == SECRETS["target_url"]
    assert json.loads(call.request.body)["user"]["password"] == "p"
    assert [call.headers[name] for name in SECRETS["headers"]] == [MASK, MASK, MASK]
    assert call.url == f"http://svc/{MASK}?api_key={MASK}&page=2"
    assert json.loads(call.body) == {"user": {"password": MASK}, "note": f"{MASK} {MASK}"}
    assert not re.search("abcdefgh|hunter22|345678", repr(call))
    assert prepared(**SECRETS | {"body_template": "password=p"}).body == MASK


def test_the_token_of_a_callback_is_kept_nowhere():
    call = prepared(
        exec_type="ASYNC", http_method="POST", headers={"X-It": "{{ callback_token }}"},
        target_url="http://svc/{{ callback_token }}?to={{ callback_url }}",
    )  # fmt: skip
    assert TOKEN in call.request.url
    assert TOKEN in call.request.body.decode()
    assert TOKEN not in repr(call)
    assert call.headers["X-Cronjob-Callback-Url"] == CALLBACK.replace(TOKEN, MASK)
    assert json.loads(call.body)["callback_token"] == MASK


def test_what_is_no_secret_is_kept():
    call = prepared(headers={"X-Api-Key": "1", "X-Other-Key": MASK}, body_template="12345")
    assert (call.body, call.headers["X-Api-Key"]) == ("12345", MASK)
    assert call.headers["Idempotency-Key"] == f"{TASK}:2026-01-01T12:00:00Z"
    assert call.headers["traceparent"] == call.request.headers["traceparent"]


def test_a_secret_named_after_the_first_claim_is_one_too():
    run = run_of(headers={"X-Pass": "hunter22"}, body_template='{"pin": "1"}')
    run.task.secret_headers, run.task.secret_paths = ["X-Pass"], ["pin"]
    call = prepared(run)
    assert (call.headers["X-Pass"], json.loads(call.body)) == (MASK, {"pin": MASK})


def test_a_call_that_cannot_be_made_keeps_no_secret_either():
    call = prepared(**SECRETS | {"target_url": "http://svc/{{ nobody }}?token=abcdefgh"})
    assert (call.url, call.method) == (f"http://svc/{{{{ nobody }}}}?token={MASK}", "GET")
    assert "abcdefgh" not in repr(call)
