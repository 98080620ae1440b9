"""API keys in the console: shown once, kept as a hash, ended by whoever may."""

import re
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db import connection

from cronjob.api.models import ApiKey, digest
from cronjob.lib import clock
from tests import marks
from tests.console.pages import Page, errors, opened, place, snapshot
from tests.factories import NOON, Api, make_task

pytestmark = marks.both

LIST = place(ApiKey)
ADD = f"{LIST}add/"
HOUR = timedelta(hours=1)


def add(browser, **typed):
    return browser.post(ADD, opened(browser, ADD, "apikey_form") | typed)


def shown(answer):
    """The key on the page that shows it."""
    assert answer.status_code == 200
    (text,) = set(re.findall(r"cj_[0-9a-f]{8}_[\w-]{40,}", answer.content.decode()))
    assert Page(answer).texts("console-code") == [text]
    return text


def asks(text):
    return Api(text).get("tasks").status_code


def everything_kept():
    """Every column of every row of every table, and what the sessions hold, as text."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            found += [str(value) for row in cursor.fetchall() for value in row]
    return found + [str(session.get_decoded()) for session in Session.objects.all()]


def issue(name, *scopes, **fields):
    return ApiKey.objects.issue(name=name, now=NOON, scopes=list(scopes), **fields)[1]


def revoke(browser, *keys):
    chosen = {"action": "revoke", "_selected_action": [key.pk for key in keys], "index": "0"}
    return browser.post(LIST, chosen, follow=True)


def test_a_new_key_is_shown_once_on_a_page_that_no_cache_keeps(console):
    answer = add(console, name="billing")
    text = shown(answer)
    assert "no-store" in answer["Cache-Control"]
    assert "billing" in Page(answer).text
    key = ApiKey.objects.get()
    pages = ("/admin/", LIST, ADD, f"{LIST}{key.pk}/change/", f"{LIST}{key.pk}/history/")
    for url in pages:
        page = console.get(url)
        assert page.status_code == 200, url
        assert text.encode() not in page.content, url


@pytest.mark.parametrize("button", ["_save", "_continue", "_addanother"])
def test_a_new_key_is_shown_whatever_button_was_pressed(console, button):
    assert asks(shown(add(console, name="billing", **{button: "1"}))) == 200


def test_only_a_hash_of_the_key_is_in_the_database(console):
    text = shown(add(console, name="billing"))
    secret = text.split("_", 2)[2]
    kept = everything_kept()
    assert digest(text) in kept
    assert [value for value in kept if secret in value] == []
    assert console.cookies.output().count(secret) == 0


def test_the_log_never_holds_a_key(console, caplog):
    caplog.set_level("DEBUG")
    text = shown(add(console, name="billing"))
    asks(text)
    assert text.split("_", 2)[2] not in caplog.text


def test_a_new_key_works_at_once_and_does_what_its_scopes_say(console):
    make_task()
    reader = Api(shown(add(console, name="reader", scopes=["read"])))
    assert reader.get("tasks").json()["count"] == 1
    task = {"name": "new", "target_url": "http://svc/", "every": "5m"}
    assert reader.post("tasks", task).status_code == 403
    writer = Api(shown(add(console, name="writer", scopes=["write"])))
    assert writer.post("tasks", task).status_code == 201


def test_the_form_suggests_the_least_and_keeps_what_is_typed(console):
    assert opened(console, ADD, "apikey_form")["scopes"] == "read"
    add(
        console, name="worker", scopes=["worker", "node"], queues="mail, video",
        nodes="", expires_at_0="2130-01-01", expires_at_1="00:00",
    )  # fmt: skip
    key = ApiKey.objects.get()
    assert (key.scopes, key.queues, key.nodes) == (["worker", "node"], ["mail", "video"], [])
    assert (key.expires_at.year, key.revoked_at, key.last_used_at) == (2130, None, None)
    assert key.created_by.username == "admin"
    assert clock.now() - key.created_at < HOUR


def test_two_keys_of_the_same_form_are_different(console):
    texts = [shown(add(console, name=f"key {number}")) for number in range(2)]
    assert texts[0] != texts[1]
    assert [asks(text) for text in texts] == [200, 200]


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "taken"}, "name"),
        ({"name": "x" * 129}, "name"),
        ({"name": "a\0"}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes"),
        ({"expires_at_0": "soon", "expires_at_1": "00:00"}, "expires_at"),
        ({"queues": "a\0b"}, "queues"),
        ({"nodes": "a\0b"}, "nodes"),
    ],
)
def test_a_problem_is_told_at_its_field_and_no_key_is_made(console, typed, field):
    issue("taken", "read")
    assert set(errors(add(console, **{"name": "new", **typed}))) == {field}
    assert ApiKey.objects.count() == 1


# --- ending them ----------------------------------------------------------------------------


def test_revoking_ends_a_key_at_once_and_for_good(console):
    text, other = (shown(add(console, name=name)) for name in ("one", "other"))
    key = ApiKey.objects.get(name="one")
    answer = revoke(console, key)
    assert "Revoked 1 of 1 keys." in Page(answer).text
    assert (asks(text), asks(other)) == (401, 200)
    key.refresh_from_db()
    ended = key.revoked_at
    assert "Revoked 0 of 1 keys." in Page(revoke(console, key)).text
    key.refresh_from_db()
    assert (key.revoked_at, asks(text)) == (ended, 401)


def test_a_key_that_has_expired_opens_nothing_and_is_shown_as_ended(console):
    expired = issue("old", "read", expires_at=clock.now() - HOUR)
    coming = issue("new", "read", expires_at=clock.now() + HOUR)
    assert (asks(expired), asks(coming)) == (401, 200)
    page = Page(console.get(f"{LIST}?q=old"))
    assert "ended" in page.text
    assert "usable" not in page.text
    assert "usable" in Page(console.get(f"{LIST}?q=new")).text


def test_a_key_is_neither_changed_nor_deleted(console):
    issue("mine", "read")
    key = ApiKey.objects.get()
    before = snapshot(ApiKey)
    sent = {"name": "yours", "scopes": ["write"], "post": "yes", "_save": "1"}
    assert console.post(f"{LIST}{key.pk}/change/", sent).status_code == 403
    assert console.get(f"{LIST}{key.pk}/delete/").status_code == 403
    assert console.post(f"{LIST}{key.pk}/delete/", sent).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [key.pk], "post": "yes"}
    console.post(LIST, chosen)
    assert snapshot(ApiKey) == before
    page = Page(console.get(LIST))
    assert page.options("action") == ["revoke"]
    assert not Page(console.get(f"{LIST}{key.pk}/change/")).names() & {"_save", "name", "scopes"}


def test_a_page_of_a_key_tells_its_story_but_neither_secret_nor_hash(console):
    issue("mine", "read", "worker", queues=["mail"], expires_at=NOON)
    key = ApiKey.objects.get()
    answer = console.get(f"{LIST}{key.pk}/change/")
    text = Page(answer).text
    for told in ("mine", f"cj_{key.prefix}_…", "worker", "mail", "2026-01-01 12:00:00"):
        assert told in text
    assert key.hash.encode() not in answer.content


def test_the_last_use_is_shown_in_the_list(console):
    text = issue("mine", "read")
    asks(text)
    used = ApiKey.objects.get().last_used_at
    assert f"{used:%Y-%m-%d %H:%M:%S}" in Page(console.get(LIST)).text


def test_nobody_but_an_administrator_makes_or_revokes_keys(editor):
    issue("mine", "read")
    before = snapshot(ApiKey)
    assert (editor.get(ADD).status_code, editor.post(ADD, {"name": "x"}).status_code) == (403, 403)
    assert revoke(editor, ApiKey.objects.get()).status_code == 403
    assert snapshot(ApiKey) == before


def test_a_key_cannot_be_made_that_has_expired_already(console):
    answer = add(console, name="late", expires_at_0="2020-01-01", expires_at_1="00:00:00")
    assert "Must be in the future." in str(errors(answer))
    assert ApiKey.objects.count() == 0
