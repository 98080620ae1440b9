"""What a task's fields may hold: tables of what is taken and what is refused, and fuzz."""

from functools import partial

import pytest
from django.core.exceptions import ValidationError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tasks import cron, rules

fuzz = settings(
    max_examples=200, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)


def refused(check, value, problem=""):
    with pytest.raises(ValueError, match=r"\S") as caught:
        check(value)
    assert problem in str(caught.value)


# --- cron -----------------------------------------------------------------------------------


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
        ("0 0\t* * *", "ASCII"),
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
