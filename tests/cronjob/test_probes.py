"""Alive, ready, which version: told to anybody, without a key."""

import re

import pytest
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from cronjob import __version__
from cronjob.lib import clock
from runs.models import Process
from tests import marks
from tests.factories import MINUTE, NOON
from tests.lib.databases import DOWN, empty, instead

pytestmark = marks.both

client = Client()  # one for all: each makes its own list of the static files
PREFIXES = pytest.mark.parametrize("prefix", ["/", "/api/v1/"])


def ask(path, *, prefix="/", **headers):
    return client.get(prefix + path, headers=headers)


def make_process(*, lease_until, draining=False):
    return Process.objects.create(
        name=f"here:1:{lease_until}",
        host="here",
        pid=1,
        draining=draining,
        started_at=NOON,
        last_seen=NOON,
        lease_until=lease_until,
    )


@PREFIXES
def test_whoever_asks_is_told_that_the_process_is_alive(prefix):
    answer = ask("healthz", prefix=prefix)
    assert (answer.status_code, answer.text) == (200, "ok")
    assert answer["Content-Type"].startswith("text/plain")


@PREFIXES
def test_whoever_asks_is_told_the_version(prefix):
    answer = ask("version", prefix=prefix)
    assert (answer.status_code, answer.text) == (200, f"v{__version__}")
    assert re.fullmatch(r"v\d+\.\d+\.\d+\S*", answer.text)
    assert answer["Content-Type"].startswith("text/plain")


@PREFIXES
@pytest.mark.parametrize("path", ["healthz", "version"])
def test_to_say_that_one_is_alive_takes_no_query(django_assert_num_queries, prefix, path):
    with django_assert_num_queries(0):
        assert ask(path, prefix=prefix).status_code == 200


@pytest.mark.parametrize("path", ["healthz", "version"])
def test_one_is_alive_without_a_database(path, tmp_path):
    with instead(DOWN, data_dir=tmp_path):
        assert ask(path).status_code == 200


@pytest.mark.parametrize("path", ["healthz", "readyz", "version"])
def test_a_key_that_is_none_does_not_disturb_a_probe(path):
    assert ask(path, authorization="Bearer nonsense").status_code == 200


@PREFIXES
@pytest.mark.parametrize("path", ["healthz", "readyz", "version"])
def test_an_answer_is_never_kept_by_anybody_and_has_an_id(prefix, path):
    answer = ask(path, prefix=prefix, x_request_id="my-request")
    assert "no-store" in answer["Cache-Control"]
    assert answer["X-Request-ID"] == "my-request"


@PREFIXES
def test_without_a_scheduler_one_is_ready_but_degraded(prefix):
    answer = ask("readyz", prefix=prefix)
    wanted = {"database": "ok", "migrations": "ok", "scheduler": "degraded"}
    assert (answer.status_code, answer.json()) == (200, wanted)


@PREFIXES
def test_with_a_scheduler_whose_lease_holds_everything_is_ok(prefix):
    make_process(lease_until=clock.now() + MINUTE)
    for path in ("readyz", "readyz?require=scheduler"):
        answer = ask(path, prefix=prefix)
        wanted = {"database": "ok", "migrations": "ok", "scheduler": "ok"}
        assert (answer.status_code, answer.json()) == (200, wanted)


@PREFIXES
def test_whoever_requires_a_scheduler_is_told_when_there_is_none(prefix):
    answer = ask("readyz?require=scheduler", prefix=prefix)
    assert (answer.status_code, answer.json()["scheduler"]) == (503, "degraded")


def test_a_scheduler_that_is_silent_or_stopping_does_not_count():
    make_process(lease_until=clock.now() - MINUTE)
    make_process(lease_until=clock.now() + MINUTE, draining=True)
    answer = ask("readyz?require=scheduler")
    assert (answer.status_code, answer.json()["scheduler"]) == (503, "degraded")
    make_process(lease_until=clock.now() + 2 * MINUTE)
    assert ask("readyz?require=scheduler").status_code == 200


def test_with_a_migration_to_do_one_is_not_ready():
    MigrationRecorder(None).Migration.objects.filter(app="runs").delete()
    make_process(lease_until=clock.now() + MINUTE)
    answer = ask("readyz")
    wanted = {"database": "ok", "migrations": "pending", "scheduler": "ok"}
    assert (answer.status_code, answer.json()) == (503, wanted)


def test_on_an_empty_database_one_is_not_ready(database, tmp_path):
    with instead(empty(database, tmp_path), data_dir=tmp_path):
        answer = ask("readyz")
    wanted = {"database": "ok", "migrations": "pending", "scheduler": "degraded"}
    assert (answer.status_code, answer.json()) == (503, wanted)


def test_without_its_database_one_is_not_ready(database, tmp_path):
    nowhere = DOWN if database == "postgresql" else f"sqlite:///{tmp_path}/no/such/x.sqlite3"
    with instead(nowhere, data_dir=tmp_path):
        answer = ask("readyz")
    assert (answer.status_code, answer.json()["database"]) == (503, "down")
    assert answer.json()["scheduler"] == "degraded"
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("path", ["healthz", "readyz", "version", "metrics"])
def test_a_probe_may_ask_for_the_head_alone(path):
    answer = client.head(f"/{path}")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("path", ["healthz", "readyz", "version"])
def test_a_probe_that_is_posted_to_says_so_as_every_other_path_does(path):
    answer = Client(enforce_csrf_checks=True).post(f"/api/v1/{path}")
    assert answer.status_code == 405
    assert answer["Content-Type"] == "application/json"
    assert answer.json()["code"] == "METHOD_NOT_ALLOWED"
