"""How one reports: tokens, bodies, methods, limits, and what is kept of it all."""

import json
from datetime import timedelta

import pytest
from django.test import Client

from callbacks import receive
from callbacks.api import BYTES_MAX
from callbacks.models import AsyncCallback, CallbackToken, Stranger
from cronjob.lib import clock, limits
from tests import marks
from tests.callbacks.reports import called, kept, make_async, pending, post, said
from tests.factories import NOON, Api, make_api
from tests.runs.engine import fresh

pytestmark = marks.both


# --- tokens -------------------------------------------------------------------------------------

UNKNOWN = [
    "0" * 32, "0" * 31, "0" * 33, "x", "G" * 32, "%00", "%0a", "..", "a/b", "a/b/c", "%2e%2e%2fa",
    "ü", "0" * 2000, "'; DROP TABLE task_runs", "%ff", "null", "SUCCESS",
]  # fmt: skip


@pytest.mark.parametrize("token", UNKNOWN)
@pytest.mark.parametrize("body", [{"status": "SUCCESS"}, b"{", b"x" * 10])
def test_a_token_that_nobody_was_given_is_the_same_answer_whatever_it_looks_like(token, body):
    run, _ = pending()
    answer = post(token, body)
    told = answer.json()
    told.pop("request_id")
    assert answer.status_code == 404
    assert told == {"code": "NOT_FOUND", "message": "There is no such thing."}
    assert fresh(run).status == "CALLBACK_PENDING"


def test_a_wrong_token_costs_the_same_statements_however_it_looks(django_assert_num_queries):
    run, token = pending()
    post("first", {})  # the address is known from now on
    almost = token[:-1] + ("0" if token[-1] != "0" else "1")
    for wrong in ("x", "0" * 32, almost, token.upper() + "a"):
        with django_assert_num_queries(queries_of_a_stranger()):
            post(wrong, {})
    assert fresh(run).status == "CALLBACK_PENDING"


def queries_of_a_stranger():
    from django.db import connection

    # the token, the time (of PostgreSQL), what is forgotten, the address, its count, which an old
    # SQLite has to be asked for
    counted = 1 if connection.features.can_return_columns_from_insert else 2
    return 4 + counted if connection.vendor == "postgresql" else 3 + counted


def test_the_hash_of_a_token_is_no_token():
    _, token = pending()
    assert said(post(CallbackToken.objects.get().token_hash)) == (404, "NOT_FOUND")
    assert token not in repr(CallbackToken.objects.values())


def test_no_other_credential_is_asked_for_and_none_is_looked_at():
    _, token = pending()
    assert said(post(token, authorization="Bearer nonsense")) == (200, "SUCCESS")


def test_a_browser_that_is_logged_in_needs_no_csrf_token_for_it(admin_user):
    _, token = pending()
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    answer = client.post(
        f"/api/v1/callbacks/{token}", {"status": "SUCCESS"}, content_type="application/json"
    )
    assert said(answer) == (200, "SUCCESS")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_any_method_of_the_three_will_do(method):
    _, token = pending()
    assert said(post(token, method=method)) == (200, "SUCCESS")
    run, _ = pending()
    body = {"task_id": run.task_id, "run_id": run.pk, "status": "SUCCESS"}
    assert said(make_api("operate").call(method, "callbacks", body)) == (200, "SUCCESS")


@pytest.mark.parametrize(
    ("method", "refusal"),
    [("GET", (401, "UNAUTHENTICATED")), ("DELETE", (405, "METHOD_NOT_ALLOWED"))],
)
@pytest.mark.parametrize("known", [True, False])
def test_other_methods_are_refused_alike_for_every_token(method, refusal, known):
    _, token = pending()
    assert said(post(token if known else "x", method=method)) == refusal


def test_a_trailing_slash_makes_no_difference():
    _, token = pending()
    assert said(post(f"{token}/")) == (200, "SUCCESS")


def test_the_token_is_in_no_line_of_the_log(caplog):
    _, token = pending()
    post(token)
    post("0" * 31 + "a")
    assert "callbacks/********" in str([getattr(r, "path", "") for r in caplog.records])
    everything = str([record.__dict__ for record in caplog.records])
    assert token not in everything
    assert "0" * 31 + "a" not in everything


# --- bodies -------------------------------------------------------------------------------------


def test_what_is_sent_is_kept_as_it_came_with_its_headers():
    run, token = pending()
    text = '{ "status":"SUCCESS", "data": {"rows": [1, 2.50, "ü"]}, "extra": null }'
    assert said(post(token, text, X_Mine="yes", User_Agent="curl/8")) == (200, "SUCCESS")
    (row,) = AsyncCallback.objects.filter(task_run=run)
    assert row.body == text
    assert (row.headers["X-Mine"], row.headers["User-Agent"]) == ("yes", "curl/8")
    assert abs(row.received_at - clock.now()) < timedelta(minutes=5)


def test_a_body_in_another_unicode_is_understood():
    run, token = pending()
    assert said(post(token, '{"status": "SUCCESS"}'.encode("utf-16"))) == (200, "SUCCESS")
    assert AsyncCallback.objects.get(task_run=run).body == '{"status": "SUCCESS"}'


@pytest.mark.parametrize("field", ["data", "error_message", "progress", "message", "extend"])
def test_a_field_that_is_null_is_one_that_is_not_there(field):
    _, token = pending()
    assert said(post(token, {"status": "SUCCESS", field: None})) == (200, "SUCCESS")


def test_what_is_added_to_the_path_means_nothing():
    _, token = pending()
    assert said(post(f"{token}?x=1")) == (200, "SUCCESS")


def test_the_content_type_does_not_matter():
    _, token = pending()
    url = f"/api/v1/callbacks/{token}"
    answer = Client().generic("POST", url, '{"status": "SUCCESS"}', "text/plain")
    assert said(answer) == (200, "SUCCESS")


MALFORMED = {
    "nothing": (b"", "INVALID_JSON"),
    "half of it": (b'{"status": "SUCC', "INVALID_JSON"),
    "no text": (b"\xff\xfe\x00", "INVALID_JSON"),
    "a form": (b"status=SUCCESS", "INVALID_JSON"),
    "infinity": (b'{"status": "SUCCESS", "data": Infinity}', "INVALID_JSON"),
    "an abyss": (
        b'{"status": "SUCCESS", "data": ' + b"[" * 9999 + b"]" * 9999 + b"}",
        "INVALID_JSON",
    ),
    "half an abyss": (b'{"status": "SUCCESS", "data": ' + b"[" * 9999, "INVALID_JSON"),
    "a list": (b'[{"status": "SUCCESS"}]', "INVALID_ARGUMENT"),
    "no status": (b'{"data": 1}', "INVALID_ARGUMENT"),
    "another status": (b'{"status": "DONE"}', "INVALID_ARGUMENT"),
    "lower case": (b'{"status": "success"}', "INVALID_ARGUMENT"),
    "an internal status": (b'{"status": "CALLBACK_SUCCESS"}', "INVALID_ARGUMENT"),
    "a status that is none": (b'{"status": ["SUCCESS"]}', "INVALID_ARGUMENT"),
    "progress beyond the end": (b'{"status": "RUNNING", "progress": 1.1}', "INVALID_ARGUMENT"),
    "progress that is none": (b'{"status": "RUNNING", "progress": "half"}', "INVALID_ARGUMENT"),
    "progress that is true": (b'{"status": "RUNNING", "progress": true}', "INVALID_ARGUMENT"),
    "extend that is none": (b'{"status": "RUNNING", "extend": "yes"}', "INVALID_ARGUMENT"),
}


@pytest.mark.parametrize(("body", "code"), MALFORMED.values(), ids=MALFORMED)
def test_what_cannot_be_understood_is_told_and_shown_and_changes_nothing(body, code):
    run, token = pending()
    answer = post(token, body)
    assert said(answer) == (400, code)
    assert fresh(run).status == "CALLBACK_PENDING"
    ((attempt, status, reason),) = kept(run)
    assert (attempt, status) == (1, "IGNORED")
    assert reason == answer.json()["message"][:256]
    assert said(post(token)) == (200, "SUCCESS")


DEEP = "[" * 500 + "1" + "]" * 500
ODD = [
    '{"status": "SUCCESS", "progress": 100}',
    '{"status": "SUCCESS", "message": {"rows": 1}, "extend": "yes"}',
    '{"status": "SUCCESS", "error_message": 0}',
    '{"status": "SUCCESS", "data": "a\\u0000b\\ud83d"}',
    f'{{"status": "SUCCESS", "data": {DEEP}, "error_message": {DEEP}}}',
    '{"status": "SUCCESS", "data": 1e999}',
    '{"status": "SUCCESS", "data": 1, "\\u0000": 2}',
    '{"status": "FAILED", "progress": "half", "extend": 1}',
]


@pytest.mark.parametrize("body", ODD)
@pytest.mark.parametrize("paths", [[], ["data.pin"]])
def test_an_end_that_is_clear_counts_whatever_stands_beside_it(body, paths):
    run, token = pending(make_async(secret_paths=paths))
    assert said(post(token, body)) == (200, json.loads(body)["status"])
    (row,) = AsyncCallback.objects.filter(task_run=run)
    assert paths or row.body == body


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ('"a\\u0000b"', "ab"),
        ('"a\\ud83db"', "a?b"),
        ('["a", 1]', '["a", 1]'),
        ('{"ü": null}', '{"ü": null}'),
        ("0", "0"),
        ("false", "false"),
        (DEEP, DEEP),
    ],
)
def test_what_a_target_says_of_its_failure_may_be_anything(message, shown):
    run, token = pending(retry_policy={"max_retries": 1, "retry_on_callback_failure": True})
    post(token, f'{{"status": "RUNNING", "message": {message}}}')
    assert fresh(run).progress_message == shown[:256]
    assert said(post(token, f'{{"status": "FAILED", "error_message": {message}}}')) == (200, None)
    assert fresh(run).error_message == shown


def test_what_is_too_large_is_refused_before_it_is_read():
    run, token = pending()
    padding = "x" * (BYTES_MAX - len('{"status": "SUCCESS", "data": ""}'))
    too_large = json.dumps({"status": "SUCCESS", "data": padding + "x"})
    assert said(post(token, too_large)) == (413, "PAYLOAD_TOO_LARGE")
    assert said(post("x" * 32, too_large)) == (404, "NOT_FOUND")
    ((_, status, reason),) = kept(run)
    assert (status, reason) == ("IGNORED", f"A report may hold {BYTES_MAX} bytes.")
    assert said(post(token, json.dumps({"status": "SUCCESS", "data": padding}))) == (200, "SUCCESS")


def test_a_long_message_is_cut():
    run, token = pending()
    post(token, {"status": "FAILED", "error_message": "x" * 2000})
    assert fresh(run).error_message == "x" * 1023 + "…"


@pytest.mark.parametrize("message", [None, "", 0])
def test_a_failure_without_a_message_is_a_failure(message):
    run, token = pending()
    body = {"status": "FAILED"} | ({} if message == 0 else {"error_message": message})
    assert said(post(token, body)) == (200, "FAILED")
    assert (fresh(run).error_kind, fresh(run).error_message) == ("callback", "")


@pytest.mark.parametrize(
    "wrong", [{"task_id": "1"}, {"run_id": None}, {"run_id": 0}, {"task_id": 1.5}, {"status": "X"}]
)
def test_ids_that_are_none_are_told_by_field(wrong):
    run, _ = pending()
    body = {"task_id": run.task_id, "run_id": run.pk, "status": "SUCCESS"} | wrong
    answer = make_api("operate").post("callbacks", body)
    assert said(answer) == (400, "INVALID_ARGUMENT")
    assert set(answer.json()["fields"]) == set(wrong)


def test_ids_beyond_any_number_are_no_run():
    body = {"task_id": 2**70, "run_id": 2**70, "status": "SUCCESS"}
    assert said(make_api("operate").post("callbacks", body)) == (404, "NOT_FOUND")


# --- limits -------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(receive, "STRANGERS_MOST", 3)
    monkeypatch.setattr(receive, "USES_MOST", 3)


@pytest.mark.usefixtures("few")
def test_who_tries_many_tokens_has_to_wait_and_those_who_know_theirs_have_not():
    _, token = pending()
    assert [post("x").status_code for _ in range(4)] == [404, 404, 404, 429]
    answer = post("y")
    assert said(answer) == (429, "RATE_LIMITED")
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert said(post(token)) == (200, "SUCCESS")


@pytest.mark.usefixtures("few")
def test_each_address_is_counted_for_itself_as_trusted_proxies_tell_it(settings):
    from ipaddress import ip_network

    settings.CRONJOB_TRUSTED_PROXIES = [ip_network("127.0.0.0/8")]
    for _ in range(4):
        post("x", X_Forwarded_For="192.0.2.1")
    assert said(post("x", X_Forwarded_For="192.0.2.1"))[0] == 429
    assert said(post("x", X_Forwarded_For="192.0.2.2"))[0] == 404
    settings.CRONJOB_TRUSTED_PROXIES = []
    for _ in range(4):
        post("x", X_Forwarded_For="192.0.2.3")
    assert said(post("x", X_Forwarded_For="192.0.2.4"))[0] == 429  # whoever says so


@pytest.mark.usefixtures("few")
def test_a_token_that_is_used_too_often_has_to_wait_and_loses_nothing_for_it():
    run, token = pending()
    _, other = pending()
    more = {"status": "RUNNING", "progress": 0.5}
    assert [post(token, more).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert said(post(other)) == (200, "SUCCESS")
    wait = CallbackToken.objects.filter(task_run=run)
    wait.update(since=clock.now() - limits.MINUTE)
    assert said(post(token)) == (200, "SUCCESS")


def test_a_count_begins_anew_each_minute_and_after_a_step_of_the_clock():
    Stranger.objects.create(address="a")
    assert [limits.hit(Stranger, "a", 2, now=NOON) for _ in range(4)] == [0, 0, 60, 60]
    assert limits.hit(Stranger, "a", 2, now=NOON + timedelta(seconds=59)) == 1
    assert limits.hit(Stranger, "a", 2, now=NOON + limits.MINUTE) == 0
    assert limits.hit(Stranger, "a", 2, now=NOON - limits.MINUTE) == 0


def test_addresses_are_forgotten():
    Stranger.objects.create(address="192.0.2.9", since=clock.now() - timedelta(hours=2))
    post("x")
    assert [row.address for row in Stranger.objects.all()] == ["127.0.0.1"]


def test_the_real_limits_are_those_of_the_documents():
    assert (receive.STRANGERS_MOST, receive.USES_MOST) == (60, 120)


def test_a_token_of_a_call_that_was_never_made_ends_nothing():
    from runs.rescue import put_back

    run, token = called()
    put_back(run, now=NOON)
    assert said(post(token)) == (409, "INVALID_STATE")
    assert fresh(run).status == "SCHEDULED"
    assert Api().post("callbacks", {}).status_code == 401


def test_whoever_goes_on_and_on_about_a_run_that_is_over_fills_no_disk(monkeypatch):
    monkeypatch.setattr(receive, "WHOLE_MOST", 3)
    run, token = pending()
    for _ in range(5):
        post(token, {"status": "SUCCESS", "data": "x" * 100})
    sizes = [len(row.body) > 100 for row in AsyncCallback.objects.filter(task_run=run)]
    assert sorted(sizes) == [False, False, True, True, True]


@pytest.mark.usefixtures("few")
def test_whole_networks_of_ipv6_are_counted_as_one(settings):
    from ipaddress import ip_network

    settings.CRONJOB_TRUSTED_PROXIES = [ip_network("127.0.0.0/8")]
    codes = [post("x", X_Forwarded_For=f"2001:db8::{n}").status_code for n in range(1, 6)]
    assert codes == [404, 404, 404, 429, 429]
    assert post("x", X_Forwarded_For="2001:db8:0:1::1").status_code == 404


@pytest.mark.usefixtures("few")
def test_a_stranger_beyond_the_limit_costs_one_look(django_assert_max_num_queries):
    for _ in range(4):
        post("x")
    with django_assert_max_num_queries(3):  # the token, the time, and the look
        assert post("y").status_code == 429
