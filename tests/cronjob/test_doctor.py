"""`doctor` looks for what is wrong, and says what to do about each finding."""

import io
import socket
import sqlite3
import threading
from contextlib import closing

import pytest
from django.core.management import call_command
from django.db.migrations.recorder import MigrationRecorder

from cronjob.lib import clock
from runs.models import Process
from tests import marks
from tests.factories import MINUTE, NOON
from tests.lib.databases import DOWN, empty, instead

pytestmark = marks.both

NO_SCHEDULER = "no scheduler is running. Start `manage.py runscheduler`, or `manage.py up`."


@pytest.fixture(autouse=True)
def _roomy(settings, tmp_path):
    settings.CRONJOB_DATA_DIR = tmp_path


def examine():
    """The exit code, what is well, and what is not."""
    out, code = io.StringIO(), 0
    try:
        call_command("doctor", stdout=out, no_color=True)
    except SystemExit as stop:
        code = stop.code
    lines = out.getvalue().splitlines()
    assert {line[:2] for line in lines} <= {"✔ ", "✘ "}
    well, ill = ([line[2:] for line in lines if line[0] == mark] for mark in "✔✘")
    return code, well, ill


def make_scheduler(*, lease_until=None, **fields):
    return Process.objects.create(
        name="here:1:1",
        host="here",
        pid=1,
        started_at=NOON,
        last_seen=NOON,
        lease_until=lease_until or clock.now() + MINUTE,
        **fields,
    )


def test_where_nothing_is_wrong_it_ends_well(database):
    make_scheduler()
    code, well, ill = examine()
    assert (code, ill) == (0, [])
    vendor = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[database]
    assert well[0] == "the settings are consistent"
    assert f"{vendor} answers" in well
    assert "all migrations are applied" in well
    assert "a scheduler is running" in well
    assert "no Redis is set, and none is needed without the gateway" in well


def test_without_a_scheduler_it_ends_badly_and_says_how_to_start_one():
    code, well, ill = examine()
    assert (code, ill) == (1, [NO_SCHEDULER])
    assert "all migrations are applied" in well


@pytest.mark.parametrize("fields", [{"draining": True}, {"lease_until": NOON}])
def test_a_scheduler_that_is_stopping_or_silent_does_not_count(fields):
    make_scheduler(**fields)
    assert examine()[::2] == (1, [NO_SCHEDULER])


@pytest.mark.on("sqlite")
def test_sqlite_is_looked_through_from_end_to_end():
    assert "SQLite's integrity: ok" in examine()[1]


@pytest.mark.on("postgresql")
def test_the_integrity_of_postgresql_is_its_own_matter():
    assert not [line for line in examine()[1] if "SQLite" in line]


def damage(path):
    """An index that does not hold what its table does."""
    with closing(sqlite3.connect(path)) as made:
        made.executescript(
            "CREATE TABLE t(a UNIQUE NOT NULL); INSERT INTO t VALUES (1), (2);"
            "PRAGMA writable_schema=ON;"
            "UPDATE sqlite_schema SET sql = 'CREATE TABLE t(a UNIQUE NOT NULL CHECK (a > 1))'"
            " WHERE name = 't';"
        )


@pytest.mark.on("sqlite")
def test_a_sqlite_file_that_is_damaged_is_told_with_the_remedy(tmp_path):
    path = tmp_path / "damaged.sqlite3"
    damage(path)
    with instead(f"sqlite:///{path}", data_dir=tmp_path):
        code, _, ill = examine()
    (told,) = [line for line in ill if "SQLite's integrity" in line]
    assert (code, told.endswith(". Restore the last backup.")) == (1, True)
    assert "CHECK constraint failed in t" in told


# Which is a DatabaseError, but no OperationalError.
@pytest.mark.on("sqlite")
def test_a_file_that_is_no_database_is_told_with_a_remedy(tmp_path):
    path = tmp_path / "x.sqlite3"
    path.write_bytes(b"no database at all " * 100)
    with instead(f"sqlite:///{path}", data_dir=tmp_path):
        code, _, ill = examine()
    assert code == 1
    assert [line for line in ill if "file is not a database" in line]


# Where a table that is not there is a ProgrammingError on PostgreSQL.
def test_on_an_empty_database_it_says_to_migrate(database, tmp_path):
    with instead(empty(database, tmp_path), data_dir=tmp_path):
        code, well, ill = examine()
    assert code == 1
    assert "some migrations are not applied. Run `manage.py migrate`." in ill
    assert well[-1].startswith("no Redis is set")


def test_with_a_migration_to_do_it_says_to_migrate():
    make_scheduler()
    MigrationRecorder(None).Migration.objects.filter(app="runs").delete()
    code, _, ill = examine()
    assert (code, ill) == (1, ["some migrations are not applied. Run `manage.py migrate`."])


def test_a_database_that_is_down_is_told_without_its_password(settings, tmp_path):
    settings.DATABASE_URL = DOWN
    with instead(DOWN, data_dir=tmp_path):
        code, well, ill = examine()
    assert code == 1
    remedy = "Start it, or correct DATABASE_URL;"
    assert ill
    assert all("postgresql://cron:********@127.0.0.1:1/x" in line for line in ill)
    assert all(remedy in line for line in ill)
    assert "hunter2" not in "".join(ill)
    assert [line for line in well if "MiB are free" in line]  # and it looks on


def test_the_disk_is_that_of_the_data_directory(tmp_path):
    (told,) = [line for line in examine()[1] if "MiB are free" in line]
    assert told.endswith(f"on the disk of {tmp_path}")


def test_a_data_directory_that_is_not_there_yet_is_no_trouble(settings, tmp_path):
    settings.CRONJOB_DATA_DIR = tmp_path / "new"
    assert [line for line in examine()[1] if "MiB are free" in line]
    assert not settings.CRONJOB_DATA_DIR.exists()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"CRONJOB_LEASE_SECONDS": 5.0, "CRONJOB_BEAT_SECONDS": 5.0},
            "One late beat would end a lease."
            " Make CRONJOB_LEASE_SECONDS at least three times CRONJOB_BEAT_SECONDS.",
        ),
        (
            {"SECRET_KEY": ""},
            "There is no secret key."
            " Run `manage.py up`, or set CRONJOB_SECRET_KEY to 50 random characters.",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_told_with_the_remedy(settings, changed, told):
    make_scheduler()
    for name, value in changed.items():
        setattr(settings, name, value)
    code, well, ill = examine()
    assert (code, ill) == (1, [told])
    assert "the settings are consistent" not in well


def test_an_unknown_setting_is_told_with_the_one_that_was_meant(monkeypatch):
    make_scheduler()
    monkeypatch.setenv("CRONJOB_SLOT", "3")
    code, _, ill = examine()
    assert code == 1
    (told,) = ill
    assert told.startswith("There is no setting CRONJOB_SLOT.")
    assert told.endswith("Did you mean CRONJOB_SLOTS?")


# What the checks say ends with one already.
def test_a_sentence_ends_with_one_full_stop(settings):
    settings.SECRET_KEY = ""
    assert not [line for line in examine()[2] if ".." in line]


def test_every_finding_has_its_remedy():
    for line in examine()[2]:
        _, _, remedy = line.partition(". ")
        assert remedy


def test_two_ways_to_redis_are_one_too_many(settings):
    settings.CRONJOB_REDIS_URL, settings.CRONJOB_REDIS_CLUSTER_URLS = REDIS, REDIS
    assert [line for line in examine()[2] if line.startswith("Two ways to Redis are set.")]


REDIS = "redis://:hunter2@127.0.0.1:1/0"


def test_a_redis_that_does_not_answer_is_told_without_its_password(settings):
    settings.CRONJOB_REDIS_URL = REDIS
    (told,) = [line for line in examine()[2] if line.startswith("Redis at ")]
    assert "refused" in told
    assert "hunter2" not in told


def test_a_redis_that_answers_is_well_even_if_it_wants_a_password(settings):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            link, _ = server.accept()
            with link:
                link.recv(64)
                link.sendall(b"-NOAUTH Authentication required.\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        settings.CRONJOB_REDIS_URL = f"redis://127.0.0.1:{server.getsockname()[1]}"
        _, well, _ = examine()
        thread.join()
    assert [line for line in well if line.startswith("Redis at ") and "answers" in line]
