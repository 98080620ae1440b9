"""What a task's fields may hold: tables of what is taken and what is refused, and fuzz."""

from functools import partial

import pytest
from django.core.exceptions import ValidationError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks import rules

fuzz = settings(
    max_examples=200, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)


def refused(check, value, problem=""):
    with pytest.raises(ValueError, match=r"\S") as caught:
        check(value)
    assert problem in str(caught.value)


# --- URLs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://svc",
        "HTTPS://svc.internal:8443/a/b?c=d&e=f#g",
        "http://127.0.0.1:9/",
        "http://[::1]:80/",
        "http://bücher.example/ä?ö=ü",
        "http://svc/@x?mail=a@b",
        "http://{{ task_name }}.svc/",
        "http://svc:{{ attempt }}/",
        "http://svc/{{ run_id }}/{{scheduled_time|date:'Y-m-d'}}?{{ trace_id }}#{{ attempt }}",
        "http://svc/{{ '{{' }}",
    ],
)
def test_an_http_url_with_placeholders_is_taken_as_it_is(url):
    assert rules.check_url(url) == url


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("svc/path", "http://"),
        ("//svc/path", "http://"),
        ("ftp://svc/", "http://"),
        ("file:///etc/passwd", "http://"),
        ("javascript:alert(1)", "http://"),
        ("http://", "http://"),
        ("http:///path", "http://"),
        ("{{ callback_url }}", "http://"),
        ("{{ task_name }}://svc/", "http://"),
        ("http://svc:99999/", "Port"),
        ("http://svc:port/", "Port"),
        ("http://[::1/", "Not a URL"),
        ("http://user@svc/", "user name"),
        ("http://user:password@svc/", "user name"),
        ("http://{{ task_name }}@svc/", "user name"),
        ("http://svc/{{ '@' }}x y", "spaces"),
        (" http://svc/", "spaces"),
        ("http://svc/ ", "spaces"),
        ("http://svc/a b", "spaces"),
        ("http://svc/\r\nX: 1", "spaces"),
        ("http://svc/\0", "spaces"),
        ("http://svc\\@evil/", "spaces"),
        ("http://svc/{{ nope }}", "unknown name"),
        ("http://svc/{{ run_id", "without its }}"),
    ],
)
def test_a_url_that_could_lead_astray_is_refused(url, problem):
    refused(rules.check_url, url, problem)


url_pieces = st.lists(
    st.sampled_from(
        ["http", "https", "://", "[", "]", "@", ":", "/", "?", "#", "\\", "{{", "}}", " run_id ",
         "|date:", '"Y"', "a", "é", "℀", "％", ".", "%", "::1", "v1.", "80", "99999", "\t", "٣"]
    )
    | st.text(max_size=3),
    max_size=12,
).map("".join)  # fmt: skip


@fuzz
@given(st.text() | url_pieces | url_pieces.map("http://{}".format))
def test_any_text_is_a_url_or_refused(text):
    try:
        assert rules.check_url(text) == text
    except ValueError:
        return
    assert not text or text.lower().startswith(("http://", "https://"))


# --- headers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "application/json", "X-Empty": "", "x-a_b.c~": "é ü"},
        {"Authorization": "Bearer {{ run_id }}"},
        {f"X-{number}": "" for number in range(100)},
        {"X": "a" * 8192},
    ],
)
def test_headers_are_taken_as_they_are(headers):
    assert rules.check_headers(headers) == headers


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        (None, "object"),
        ([], "object"),
        ({f"X-{number}": "" for number in range(101)}, "100"),
        ({"": "x"}, "not a header name"),
        ({"X Y": "x"}, "not a header name"),
        ({"X:": "x"}, "not a header name"),
        ({"X\n": "x"}, "not a header name"),
        ({"Ä": "x"}, "not a header name"),
        ({"host": "x"}, "set by the caller"),
        ({"Content-Length": "1"}, "set by the caller"),
        ({"Connection": "close"}, "set by the caller"),
        ({"X-Cronjob-Run-Id": "1"}, "set by the caller"),
        ({"A": "1", "a": "2"}, "given twice"),
        ({"X": 1}, "text"),
        ({"X": None}, "text"),
        ({"X": "a" * 8193}, "8192"),
        ({"X": "a\nB: c"}, "one line"),
        ({"X": "a\r"}, "one line"),
        ({"X": "a\0"}, "one line"),
        ({"X": "中"}, "Latin-1"),
        ({"X": "{{ nope }}"}, "X: Character"),
    ],
)
def test_headers_that_could_not_be_sent_are_refused(headers, problem):
    refused(rules.check_headers, headers, problem)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from([*rules.RETRY_DEFAULTS, *rules.WORK["JOB"], "model", "Host", "X-A"])
headers = st.dictionaries(names | st.text(), st.text(), max_size=5)
objects = st.dictionaries(names | st.text(max_size=4), json_values, max_size=5)


@fuzz
@given(headers | objects | json_values, st.sampled_from(["SYNC", "ASYNC", "JOB", "NODE"]))
def test_any_json_is_taken_or_refused_wherever_json_may_stand(value, exec_type):
    checks = [
        rules.check_headers,
        rules.check_tags,
        rules.check_secret_headers,
        rules.check_secret_paths,
        rules.check_retry_policy,
        partial(rules.check_work, exec_type=exec_type),
    ]
    for check in checks:
        try:
            kept = check(value)
        except ValueError:
            continue
        assert check(kept) == kept


# --- time zones and names -------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Shanghai", "Etc/GMT+3"])
def test_a_zone_by_its_iana_name_is_taken(zone):
    rules.validate_zone(zone)


@pytest.mark.parametrize(
    "zone",
    [
        "", " UTC", "utc ", "Berlin", "Europe", "Europe/", "Mars/Phobos", "+02:00", "../UTC",
        "/etc/localtime", "UTC\0", "x" * 5000, "zone.tab", "tzdata.zi", "leapseconds",
        "right/UTC", "posix/Europe/Berlin", "posixrules", "localtime",
    ],
)  # fmt: skip
def test_what_is_no_iana_name_is_no_zone(zone):
    with pytest.raises(ValidationError, match="is not an IANA time zone"):
        rules.validate_zone(zone)


@fuzz
@given(st.text() | st.lists(st.sampled_from(["UTC", "/", "..", "Europe", "\0"])).map("".join))
def test_any_text_is_a_zone_or_refused(text):
    try:
        rules.validate_zone(text)
    except ValidationError:
        return
    assert not text.startswith("/")
    assert ".." not in text


# --- everything else ------------------------------------------------------------------------

RETRY = rules.RETRY_DEFAULTS
JOB = {"queue": "mail", "job_type": "send"}


sync, job, node = (partial(rules.check_work, exec_type=kind) for kind in ("SYNC", "JOB", "NODE"))


@pytest.mark.parametrize(
    ("check", "value", "kept"),
    [
        (rules.check_name, "  夜间 統計 <b> ", "夜间 統計 <b>"),
        (rules.check_every, 1, 1),
        (rules.check_every, None, None),
        (rules.check_cron, None, None),
        (rules.check_body, '{"a": {{ run_id|tojson }}}\n', '{"a": {{ run_id|tojson }}}\n'),
        (rules.check_tags, ["b", "a", "b"], ["b", "a"]),
        (rules.check_secret_headers, ["X-Pin"], ["X-Pin"]),
        (rules.check_secret_paths, ["a", "a.*.0", "*"], ["a", "a.*.0", "*"]),
        (rules.check_retry_policy, {}, RETRY),
        (rules.check_retry_policy, {"max_retries": 100}, RETRY | {"max_retries": 100}),
        (rules.check_retry_policy, {"max_delay": 0.5}, RETRY | {"max_delay": 0.5}),
        (sync, None, None),
        (job, JOB | {"payload": [1], "constraints": {}}, JOB | {"payload": [1], "constraints": {}}),
        (node, {"model": "m", "payload": None}, {"model": "m", "payload": None}),
    ],
)
def test_what_is_right_is_kept_in_its_stored_form(check, value, kept):
    assert check(value) == kept


@pytest.mark.parametrize(
    ("check", "value", "problem"),
    [
        (rules.check_name, " ", "visible"),
        (rules.check_name, "a\nb", "visible"),
        (rules.check_name, "a\0", "visible"),
        (rules.check_every, 0, "one second"),
        (rules.check_body, "{{ nope }}", "unknown name"),
        (rules.check_tags, "a", "list"),
        (rules.check_tags, ["a b"], "without spaces"),
        (rules.check_tags, ["a,b"], "commas"),
        (rules.check_tags, ["a\0"], ""),
        (rules.check_tags, ["x" * 65], "1 to 64"),
        (rules.check_tags, [1], "1 to 64"),
        (rules.check_tags, [str(number) for number in range(51)], "50"),
        (rules.check_secret_headers, ["X Pin"], "not a header name"),
        (rules.check_secret_paths, ["a..b"], "not a path"),
        (rules.check_secret_paths, ["a\0"], ""),
        (rules.check_secret_paths, ["x" * 257], "not a path"),
        (rules.check_retry_policy, None, "object"),
        (rules.check_retry_policy, {"retries": 1}, "Unknown: retries"),
        (rules.check_retry_policy, {"max_retries": 101}, "from 0 to 100"),
        (rules.check_retry_policy, {"max_retries": 1.0}, "a whole number"),
        (rules.check_retry_policy, {"max_retries": True}, "a whole number"),
        (rules.check_retry_policy, {"initial_delay": -1}, "from 0 to 86400"),
        (rules.check_retry_policy, {"max_delay": float("nan")}, "from 0 to 86400"),
        (rules.check_retry_policy, {"strategy": "linear"}, "fixed, exponential"),
        (rules.check_retry_policy, {"jitter": 1}, "true or false"),
        (sync, {}, "Only JOB and NODE"),
        (job, None, "JOB needs an object with queue and job_type"),
        (job, {"queue": "q"}, "job_type is required"),
        (job, JOB | {"model": "m"}, "Unknown: model"),
        (job, JOB | {"max_attempts": 0}, "from 1 to"),
        (job, JOB | {"constraints": []}, "constraints must be an object"),
        (job, JOB | {"subject": "x" * 129}, "128"),
        (node, {"payload": {}}, "model is required"),
    ],
)
def test_what_is_wrong_is_refused_with_the_reason(check, value, problem):
    refused(check, value, problem)
