"""What came of an attempt; whether it is made again, and when."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronjob.lib.http import Reply
from cronjob.lib.masking import MASK
from runs import calls, retry
from runs.calls import Call, Outcome
from runs.models import TaskRun
from tasks import rules
from tests import marks
from tests.factories import NOON, SECOND, make_run

FIXED = rules.RETRY_DEFAULTS | {"max_retries": 3, "strategy": "fixed", "initial_delay": 5}
DOUBLING = FIXED | {"strategy": "exponential", "max_delay": 60}


def outcome(kind="http", code=None, **fields):
    return Outcome(run_id=1, fence=1, attempt=1, kind=kind, code=code, **fields)


# --- whether ------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [408, 425, 429, 500, 501, 502, 503, 504, 507, 599])
def test_a_status_that_may_pass_is_tried_again(code):
    assert retry.retryable(outcome(code=code))


@pytest.mark.parametrize(
    "code",
    [100, 199, 300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 410, 422, 451, 499, 600],
)
def test_any_other_status_is_final(code):
    assert not retry.retryable(outcome(code=code))


@pytest.mark.parametrize("kind", ["connect", "timeout", "body"])
def test_what_was_not_heard_is_asked_again(kind):
    assert retry.retryable(outcome(kind))
    assert retry.retryable(outcome(kind, 200)), "a success whose body broke off is none"


@pytest.mark.parametrize("kind", ["refused", "template", "callback", "lost"])
def test_what_would_end_the_same_is_not_tried_again(kind):
    assert not retry.retryable(outcome(kind))
    assert not retry.retryable(outcome(kind, 302)), "a redirect to where we may not go"


@pytest.mark.parametrize("kind", ["body", "timeout"])
def test_a_status_that_came_decides_whatever_became_of_its_body(kind):
    assert not retry.retryable(outcome(kind, 404))
    assert retry.retryable(outcome(kind, 503))


def test_a_success_is_not_tried_again():
    assert not retry.retryable(outcome("", 200, ok=True))
    assert retry.next_try(outcome("", 200, ok=True), 0, policy=FIXED, now=NOON, key="k") is None


# --- how long -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (FIXED, [5, 5, 5, 5]),
        (DOUBLING, [5, 10, 20, 40, 60, 60]),
        (DOUBLING | {"initial_delay": 0}, [0, 0, 0]),
        (DOUBLING | {"initial_delay": 0.5}, [0.5, 1, 2, 4]),
        (DOUBLING | {"initial_delay": 90}, [60, 60]),
        (DOUBLING | {"max_delay": 0}, [0, 0]),
        (FIXED | {"initial_delay": 90}, [90, 90]),
        ({}, [5, 10, 20, 40, 60]),
    ],
)
def test_the_delay_before_each_retry(policy, delays):
    assert [retry.delay(policy, n, key="k") for n in range(1, len(delays) + 1)] == delays


def test_the_hundredth_retry_waits_no_longer_than_any():
    policy = DOUBLING | {"initial_delay": 86400, "max_delay": 86400}
    assert retry.delay(policy, 100, key="k") == 86400
    assert retry.delay(DOUBLING, 10**6, key="k") == 60


@given(st.text(), st.integers(1, 100))
def test_jitter_is_a_fifth_at_most_either_way(key, n):
    for policy in (FIXED, DOUBLING):
        plain = retry.delay(policy, n, key=key)
        assert plain * 0.8 <= retry.delay(policy | {"jitter": True}, n, key=key) <= plain * 1.2


def test_jitter_spreads_and_still_says_the_same_twice():
    policy = FIXED | {"jitter": True}
    delays = [retry.delay(policy, n, key=f"run {run}") for run in range(50) for n in (1, 2)]
    assert delays == [retry.delay(policy, n, key=f"run {run}") for run in range(50) for n in (1, 2)]
    assert len(set(delays)) == 100
    assert min(delays) < 4.2
    assert max(delays) > 5.8
    assert 4.7 < sum(delays) / 100 < 5.3


# --- when ---------------------------------------------------------------------------------------


def test_the_number_of_retries_is_what_the_policy_says():
    tries = [
        retry.next_try(outcome(code=500), done, policy=FIXED, now=NOON, key="k")
        for done in range(5)
    ]
    again = NOON + 5 * SECOND
    assert tries == [again, again, again, None, None], "three retries: four attempts"
    none = FIXED | {"max_retries": 0}
    assert retry.next_try(outcome(code=500), 0, policy=none, now=NOON, key="k") is None


def test_delays_grow_with_the_retries_done():
    tries = [
        retry.next_try(outcome("connect"), done, policy=DOUBLING, now=NOON, key="k")
        for done in range(3)
    ]
    assert tries == [NOON + delay * SECOND for delay in (5, 10, 20)]


@pytest.mark.parametrize(
    ("asked", "waits"), [(None, 5), (0.0, 5), (4.9, 5), (5.5, 5.5), (3600.0, 3600)]
)
def test_the_target_may_ask_for_more_patience_and_not_for_less(asked, waits):
    told = outcome(code=429, retry_after=asked)
    at = retry.next_try(told, 0, policy=FIXED, now=NOON, key="k")
    assert at == NOON + timedelta(seconds=waits)


def test_patience_asked_for_is_no_retry_where_none_is_left():
    told = outcome(code=503, retry_after=10.0)
    assert retry.next_try(told, 3, policy=FIXED, now=NOON, key="k") is None
    final = outcome(code=404, retry_after=10.0)
    assert retry.next_try(final, 0, policy=FIXED, now=NOON, key="k") is None


@pytest.mark.parametrize(("wanted", "at"), [(True, NOON + 5 * SECOND), (False, None)])
def test_a_failure_told_by_callback_is_tried_again_if_the_task_wants_it(wanted, at):
    policy = FIXED | {"retry_on_callback_failure": wanted}
    told = outcome("callback", 202)
    assert retry.next_try(told, 0, policy=policy, now=NOON, key="k") == at
    assert retry.next_try(told, 3, policy=policy, now=NOON, key="k") is None


def test_a_retry_across_a_change_of_clocks_waits_real_seconds():
    before = datetime(2026, 3, 29, 0, 59, 58, tzinfo=UTC)  # Berlin: 01:59:58, then 03:00
    at = retry.next_try(outcome("timeout"), 0, policy=FIXED, now=before, key="k")
    assert at == datetime(2026, 3, 29, 1, 0, 3, tzinfo=UTC)


# --- Retry-After --------------------------------------------------------------------------------

RECEIVED = datetime(1994, 11, 6, 8, 49, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("007", 7),
        ("3600", 3600),
        ("3601", 3600),
        ("9" * 5000, 3600),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 37),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 37),
        ("Sun Nov  6 08:49:37 1994", 37),
        ("Sun, 06 Nov 1994 09:49:37 +0100", 37),
        ("Sun, 06 Nov 1994 08:48:00 GMT", 0),
        ("Mon, 06 Nov 2094 08:49:37 GMT", 3600),
        ("Fri, 31 Dec 9999 23:59:59 -2359", None),
        ("Sun, 99 Nov 1994 99:99:99 GMT", None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("1e3", None),
        ("²", None),
        ("١٢", None),
        ("soon", None),
        ("5, 10", None),
        (", " * 30, None),
        ("\x00", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_anything_else_is_nothing(told, seconds):
    assert retry.asked_for({"retry-after": told}, seen=RECEIVED, most=3600) == seconds


def test_a_date_counts_from_the_clock_of_who_wrote_it():
    headers = {
        "retry-after": "Sun, 06 Nov 1994 08:49:37 GMT",
        "date": "Sun, 06 Nov 1994 08:49:07 GMT",
    }
    years_later = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry.asked_for(headers, seen=years_later, most=3600) == 30
    headers["date"] = "yesterday"
    assert retry.asked_for(headers, seen=years_later, most=3600) == 0


def test_without_the_header_nothing_is_asked_for():
    assert retry.asked_for({}, seen=NOON, most=3600) is None


@given(st.text(max_size=80), st.text(max_size=80))
def test_whatever_a_header_holds_it_breaks_nothing(told, date):
    wait = retry.asked_for({"retry-after": told, "date": date}, seen=NOON, most=3600)
    assert wait is None or 0 <= wait <= 3600


# --- what a reply means -------------------------------------------------------------------------

TOKEN = "ab" * 16


def call(**fields):
    told = {"run_id": 42, "task_id": 7, "fence": 3, "attempt": 2, "trace_id": "c" * 32}
    kept = {"method": "POST", "url": "http://svc/", "headers": {"X": "1"}, "body": "{}"}
    return Call(**(told | kept | {"made_at": NOON} | fields))


def answered(code=200, body=b"", *, headers=None, of=None, **fields):
    reply = Reply(code=code, body=body, headers=headers or {}, sent=True, **fields)
    return calls.outcome(of or call(), reply)


@pytest.mark.parametrize(
    ("reply", "kind", "message", "again"),
    [
        ({"code": 200}, "", "", False),
        ({"code": 204, "truncated": True}, "", "", False),
        ({"code": 404}, "http", "404 Not Found", False),
        ({"code": 302}, "http", "302 Found", False),
        ({"code": 503}, "http", "503 Service Unavailable", True),
        ({"code": 599}, "http", "599", True),
        ({"kind": "connect", "message": "refused"}, "connect", "refused", True),
        ({"kind": "timeout", "message": "late", "code": 200}, "timeout", "late", True),
        ({"kind": "body", "message": "broke off", "code": 200}, "body", "broke off", True),
        ({"kind": "refused", "message": "link-local"}, "refused", "link-local", False),
        ({}, "connect", "no answer", True),
    ],
)
def test_what_a_reply_means(reply, kind, message, again):
    told = calls.outcome(call(), Reply(**reply, connect_ms=1, first_byte_ms=2, total_ms=3))
    assert (told.kind, told.message, told.ok) == (kind, message, not kind)
    assert (told.code, told.truncated) == (reply.get("code"), reply.get("truncated", False))
    assert retry.retryable(told) is again
    assert told.timings == {"connect_ms": 1, "first_byte_ms": 2, "total_ms": 3}


def test_an_outcome_says_whose_it_is_and_what_was_sent():
    told = answered(of=call(asynchronous=True))
    assert (told.run_id, told.fence, told.attempt, told.asynchronous) == (42, 3, 2, True)
    sent = (told.method, told.url, told.headers, told.body)
    assert sent == ("POST", "http://svc/", {"X": "1"}, "{}")
    assert told.sent
    assert answered(body=b"x" * 10**6).size > 10**6 > told.size


def test_what_we_broke_off_ourselves_says_nothing_of_the_target():
    told = answered(kind="connect", message="cut off", cut=True)
    assert (told.kind, told.ok, told.sent) == ("lost", False, True)


@pytest.mark.parametrize(
    "broke", [{"kind": "timeout"}, {"kind": "body"}, {"kind": "body", "cut": True}]
)
def test_an_asynchronous_call_is_accepted_by_its_code_whatever_becomes_of_the_body(broke):
    later, now = call(asynchronous=True), call()
    told = answered(202, b"par", of=later, message="no whole answer", **broke)
    assert (told.ok, told.code, told.response_body) == (True, 202, "par")
    assert (told.kind, told.message) == (broke["kind"], "no whole answer")
    assert not answered(202, b"par", of=now, **broke).ok
    assert not answered(503, b"par", of=later, **broke).ok
    assert not answered(None, of=later, **broke).ok


def test_what_never_became_a_reply():
    unmade = calls.outcome(call(problem="no such name", secrets=("such",)), None)
    assert (unmade.kind, unmade.message, unmade.sent) == ("template", f"no {MASK} name", False)
    bug = calls.broken(call(secrets=("abc",)), KeyError("abc"))
    assert (bug.kind, bug.message, bug.sent) == ("lost", f"KeyError: '{MASK}'", True)
    lost = Outcome.of_lost(TaskRun(id=42, fence=3, attempt=2), "died")
    assert (lost.run_id, lost.fence, lost.attempt) == (42, 3, 2)
    assert (lost.kind, lost.message, lost.ok) == ("lost", "died", False)


def test_a_long_message_ends_in_an_ellipsis():
    told = answered(None, kind="connect", message="é" * 2000)
    assert told.message == "é" * 1023 + "…"


def test_retry_after_is_read_with_any_answer_but_a_success(settings):
    settings.CRONJOB_RETRY_AFTER_MAX_SECONDS = 100
    headers = {"RETRY-after": "Thu, 01 Jan 2026 12:00:30 GMT"}
    assert answered(503, headers=headers, total_ms=10_000).retry_after == 20
    assert answered(503, headers={"Retry-After": "101"}).retry_after == 100
    assert answered(503).retry_after is None
    assert answered(200, headers=headers).retry_after is None


# --- what is kept of an answer ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("", "é夜".encode(), "é夜"),
        ("", b"a\xff\xfeb", "a\ufffd\ufffdb"),
        ("text/plain; charset=iso-8859-1", b"\xe9", "é"),
        ("text/plain;charset='GBK'", "夜".encode("gbk"), "夜"),
        ('text/plain; Charset="Shift_JIS"', "夜".encode("shift_jis"), "夜"),
        ("text/plain; charset=utf-16le", "é".encode("utf-16le"), "é"),
        ("text/plain; charset=utf-8", b"\xef\xbb\xbfbom", "bom"),
        ("text/plain; charset=no-such", "é".encode(), "é"),
        ("text/plain; charset=zip", b"x", "x"),
        ("text/plain; charset=idna", b"xn--a", "xn--a"),
        ("text/plain; charset=unicode_escape", b"\\d", "\\d"),
        ("text/plain; charset=\x00", b"x", "x"),
        ("", b"a\x00b", "ab"),
        ("", b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ],
)
def test_a_body_is_read_as_its_type_says_and_never_fails(kind, data, text):
    assert answered(body=data, headers={"content-type": kind}).response_body == text


def test_every_charset_that_is_known_can_be_read():
    for number in range(1, 17):
        answered(body=b"\xe9", headers={"Content-Type": f"x; charset=iso-8859-{number}"})
        answered(body=b"\xe9", headers={"Content-Type": f"x; charset=windows-125{number}"})
    names = "utf8 utf-32 utf-16be us-ascii koi8-r koi8-u gb2312 gb18030 big5 euc-jp euc-kr"
    for name in names.split():
        answered(body=b"\xe9", headers={"Content-Type": f"x; charset={name}"})


def test_what_grows_when_it_becomes_text_is_cut_at_the_cap(settings):
    settings.CRONJOB_RESPONSE_BYTES_MAX = 8
    told = answered(body=b"abc\xff\xff\xff\xff\xff")
    assert (told.response_body, told.truncated) == ("abc\ufffd", True)
    told = answered(body=b"12345678")
    assert (told.response_body, told.truncated) == ("12345678", False)


@pytest.mark.parametrize(
    ("kind", "text", "kept"),
    [
        ("application/json", '{"pin": "1", "a": 2}', f'{{"pin": "{MASK}", "a": 2}}'),
        ("", '\n[{"pin": "1"}]', f'[{{"pin": "{MASK}"}}]'),
        ("application/json", '{"pin": "1', MASK),
        ("text/html", "<h1>502</h1>", "<h1>502</h1>"),
        ("application/json", "[" * 600 + "]" * 600, None),
        (
            "application/json",
            '{"pin": "\\ud800", "a": "\\ud800"}',
            f'{{"pin": "{MASK}", "a": "?"}}',
        ),
    ],
)
def test_secret_paths_are_masked_in_answers_too(kind, text, kept):
    of = call(secret_paths=("pin", "*.pin", "*" + ".*" * 100))
    told = answered(body=text.encode(), headers={"Content-Type": kind}, of=of)
    assert kept is None or told.response_body == kept


def test_what_was_secret_in_the_request_is_so_in_the_answer():
    of = call(secrets=("Bearer abcdef", "abcdef", TOKEN), secret_headers=("x-pin",))
    headers = {
        "Set-Cookie": "a=b", "X-Pin": "1", "X-Echo": "abcdef", "X-Plain": "x" * 9000,
        "Location": "http://svc/?token=t&page=2", "X-\x00Nul": "a\x00b",
    }  # fmt: skip
    told = answered(302, f"Bearer abcdef, {TOKEN}".encode(), headers=headers, of=of)
    assert told.response_body == f"{MASK}, {MASK}"
    assert told.response_headers == {
        "Set-Cookie": MASK, "X-Pin": MASK, "X-Echo": MASK, "X-Plain": "x" * 8191 + "…",
        "Location": f"http://svc/?token={MASK}&page=2", "X-Nul": "ab",
    }  # fmt: skip
    failed = answered(None, kind="connect", message="no way to abcdef", of=of)
    assert failed.message == f"no way to {MASK}"


@marks.use
@pytest.mark.django_db
@pytest.mark.parametrize("data", [b"\x00\xff\xed\xa0\x80\xf0\x9f", b'{"a": "\\ud800\\u0000"}'])
def test_whatever_comes_back_the_database_can_keep_it(data):
    told = answered(500, data, headers={"X\x00": "\x00\xff"}, of=call(secret_paths=("b",)))
    make_run(response_body=told.response_body, response_headers=told.response_headers)
