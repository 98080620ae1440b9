import json

import pytest

from cronjob.lib import masking
from cronjob.lib.masking import MASK


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "cookie",
        "Set-Cookie",
        "X-Auth-Token",
        "x-api-key",
        "X-Cronjob-Callback-Token",
    ],
)
def test_headers_that_carry_credentials_are_masked(name):
    assert masking.headers({name: "secret", "Accept": "*/*"}) == {name: MASK, "Accept": "*/*"}


def test_headers_that_are_named_are_masked_whatever_their_case():
    assert masking.headers({"X-Password": "p"}, also=["x-password"]) == {"X-Password": MASK}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("http://svc/a", "http://svc/a"),
        ("http://svc/a?page=2", "http://svc/a?page=2"),
        ("http://svc/a?access_token=t&page=2", f"http://svc/a?access_token={MASK}&page=2"),
        ("http://svc/a?API-KEY=k#top", f"http://svc/a?API-KEY={MASK}#top"),
        ("http://svc/a?client_secret=s=s", f"http://svc/a?client_secret={MASK}"),
        ("http://svc/a?token", "http://svc/a?token"),
    ],
)
def test_query_values_that_speak_of_secrets_are_masked(given, shown):
    assert masking.url(given) == shown


@pytest.mark.parametrize(
    ("path", "masked"),
    [
        ("user.password", {"user": {"name": "n", "password": MASK}, "items": [{"key": 1}, 2]}),
        ("items.*.key", {"user": {"name": "n", "password": "p"}, "items": [{"key": MASK}, 2]}),
        ("items.0.key", {"user": {"name": "n", "password": "p"}, "items": [{"key": MASK}, 2]}),
        ("user", {"user": MASK, "items": [{"key": 1}, 2]}),
        ("nobody.password", {"user": {"name": "n", "password": "p"}, "items": [{"key": 1}, 2]}),
        ("*", {"user": MASK, "items": MASK}),
    ],
)
def test_what_a_path_leads_to_is_masked(path, masked):
    body = json.dumps({"user": {"name": "n", "password": "p"}, "items": [{"key": 1}, 2]})
    assert json.loads(masking.body(body, paths=[path])) == masked


def test_a_body_that_is_not_json_is_not_shown_when_something_in_it_is_secret():
    assert masking.body("password={{ run_id }}", paths=["password"]) == MASK
    assert masking.body("password={{ run_id }}", paths=[]) == "password={{ run_id }}"
    assert masking.body("", paths=["a"]) == ""


def test_the_password_of_a_url_is_masked():
    assert masking.password("postgresql://me:p%40ss@db/x?a=b") == f"postgresql://me:{MASK}@db/x"
    assert masking.password("redis://db:6379/0") == "redis://db:6379/0"
