"""Hints to whoever sleeps: few, and none of them lost for good."""

import threading
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from cronjob.lib import wakeup
from cronjob.lib.wakeup import Limit, Listener
from tests import marks
from tests.factories import make_task

pytestmark = [*marks.committing, pytest.mark.usefixtures("hints")]

PATIENCE = 20.0


@pytest.fixture
def listening():
    """Set whenever a listener says that something may have changed."""
    woken = threading.Event()
    listener = Listener(woken.set)
    listener.start()
    assert woken.wait(PATIENCE)  # at the start it is never sure
    woken.clear()
    yield woken
    listener.stopping.set()
    listener.join()


def test_a_change_by_another_process_wakes(listening, monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(wakeup, "_here", [])
        elsewhere.setattr(wakeup, "limit", Limit())
        make_task()
        wakeup.schedulers()
    assert listening.wait(PATIENCE)


def test_a_change_of_our_own_wakes_at_once(listening):
    with transaction.atomic():
        make_task()
        wakeup.schedulers()
        listening.clear()
    assert listening.is_set()


@pytest.mark.on("postgresql")
def test_a_transaction_tells_once_however_much_it_changes(monkeypatch):
    monkeypatch.setattr(wakeup, "limit", Limit())
    with CaptureQueriesContext(connection) as seen, transaction.atomic():
        for _ in range(50):
            wakeup.schedulers()
    assert sum("pg_notify" in query["sql"] for query in seen.captured_queries) == 1


def test_many_changes_in_a_row_are_two_hints_the_first_and_a_later_one(monkeypatch):
    later = threading.Event()
    monkeypatch.setattr(Limit, "tell", lambda self, by: later.set())
    limit = Limit()
    assert [limit.admits() for _ in range(50)] == [True] + [False] * 49
    assert later.wait(PATIENCE)


def test_the_later_hint_reaches_whoever_listens(listening, monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(wakeup, "_here", [])
        elsewhere.setattr(wakeup, "limit", Limit())
        for _ in range(2):
            make_task()
            wakeup.schedulers()
            assert listening.wait(PATIENCE)
            listening.clear()


@pytest.mark.on("sqlite")
def test_any_path_of_a_database_can_be_watched(tmp_path, monkeypatch):
    odd = tmp_path / "a#b?c%20d"
    odd.mkdir()
    listener = Listener(lambda: None)
    listener.file = Path(odd / "db.sqlite3")
    listener.file.touch()
    woken = threading.Event()
    listener.wake = woken.set
    listener.start()
    assert woken.wait(PATIENCE)
    listener.stopping.set()
    listener.join()
    assert [path.name for path in tmp_path.iterdir()] == [odd.name]
