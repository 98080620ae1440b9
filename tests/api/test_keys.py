from datetime import timedelta

import pytest

from cronjob.api.models import ApiKey
from cronjob.lib import clock
from tests import marks
from tests.factories import NOON, Api, make_api, make_key, make_task, make_user

pytestmark = marks.both
HOUR = timedelta(hours=1)


def asks(text, kind="Bearer"):
    return Api().get("tasks", authorization=f"{kind} {text}").status_code


def test_a_key_opens_the_api_as_bearer_and_as_token():
    text = make_key("read")
    assert [asks(text, kind) for kind in ("Bearer", "bearer", "Token")] == [200, 200, 200]


def test_only_the_hash_of_a_key_is_kept():
    text = make_key("read")
    key = ApiKey.objects.get()
    kept = " ".join(str(getattr(key, field.name)) for field in ApiKey._meta.fields)
    assert text not in kept
    assert text.split("_", 2)[2] not in kept
    assert key.prefix == text.split("_")[1]


def test_a_key_that_is_almost_right_opens_nothing():
    text = make_key("read")
    for wrong in (text[:-1], text + "x", text.upper(), text.replace("cj_", "xx_"), "", "cj_", "é"):
        assert asks(wrong) == 401


def test_an_expired_or_revoked_key_opens_nothing():
    expired = make_key("read", expires_at=clock.now() - HOUR)
    valid = make_key("read", expires_at=clock.now() + HOUR)
    assert (asks(expired), asks(valid)) == (401, 200)
    key = ApiKey.objects.get(prefix=valid.split("_")[1])
    assert key.revoke(now=NOON) is True
    assert key.revoke(now=NOON) is False
    assert asks(valid) == 401


def test_the_last_use_is_remembered_at_most_once_a_minute():
    text = make_key("read")
    asks(text)
    first = ApiKey.objects.get().last_used_at
    assert first is not None
    asks(text)
    assert ApiKey.objects.get().last_used_at == first
    ApiKey.objects.update(last_used_at=first - HOUR)
    asks(text)
    assert ApiKey.objects.get().last_used_at >= first


@pytest.mark.parametrize(
    ("scopes", "may"),
    [
        (["read"], {"GET"}),
        (["operate"], {"GET", "disable"}),
        (["write"], {"GET", "disable", "PATCH"}),
        (["worker"], {"GET"}),
        (["node"], set()),
        (["session"], set()),
        (["node", "operate"], {"GET", "disable"}),
    ],
)
def test_a_scope_brings_along_what_it_includes(scopes, may):
    api, task = make_api(*scopes), make_task()
    asked = {
        "GET": api.get("tasks"),
        "disable": api.post(f"tasks/{task.pk}/disable"),
        "PATCH": api.patch(f"tasks/{task.pk}", {"description": "x"}),
    }
    assert {name for name, answer in asked.items() if answer.status_code == 200} == may
    assert {a.status_code for name, a in asked.items() if name not in may} <= {403}


@pytest.mark.parametrize(
    ("rights", "may"),
    [
        ((), set()),
        (("view_task",), {"GET"}),
        (("view_task", "operate_task"), {"GET", "disable"}),
        (("view_task", "change_task", "add_task", "delete_task"), {"GET", "PATCH"}),
    ],
)
def test_a_person_may_do_over_the_api_what_the_console_allows(client, rights, may):
    from django.contrib.auth.models import Permission

    user, task = make_user("somebody"), make_task()
    user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    client.force_login(user)
    base = "/api/v1/tasks"
    asked = {
        "GET": client.get(base),
        "disable": client.post(f"{base}/{task.pk}/disable", "{}", "application/json"),
        "PATCH": client.patch(f"{base}/{task.pk}", '{"description": "x"}', "application/json"),
    }
    assert {name for name, answer in asked.items() if answer.status_code == 200} == may


def test_a_key_counts_before_a_login(client):
    client.force_login(make_user("admin", is_superuser=True))
    headers = {"authorization": f"Bearer {make_key('read')}"}
    assert (
        client.post("/api/v1/tasks", "{}", "application/json", headers=headers).status_code == 403
    )
