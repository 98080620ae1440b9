"""Each database is opened so that it keeps what it was told, and nobody waits for ever."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from psycopg.types.datetime import TimestamptzLoader

from cronjob.lib import clock
from cronjob.lib.database import configured, parser, trouble, unhurried
from cronjob.lib.environ import BadSetting, Environ
from cronjob.lib.masking import MASK
from tests import marks
from tests.lib.databases import DOWN, asked, empty, opened, postgres

pytestmark = marks.sqlite  # but for the tests that name another database
on_postgresql = pytest.mark.on("postgresql")
on_both = pytest.mark.on("sqlite", "postgresql")

DATA_DIR = Path("/srv/cronjob")
TIMEOUTS = {
    "statement_timeout": "5s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "5s",
}


def read(url):
    env = Environ({"DATABASE_URL": url})
    return env.read("DATABASE_URL", "", parser(DATA_DIR), "meaning", secret=True)


def shown(connection, names=tuple(TIMEOUTS)):
    return {name: asked(connection, f"SHOW {name}") for name in names}


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@h:5432/x",
        "postgres://u:p@h/x",
        "postgresql://h/x?sslmode=require",
        "postgresql:///x?host=/run/postgresql",
        "sqlite:////var/lib/cronjob/cronjob.sqlite3",
        "sqlite:///var/cronjob.sqlite3",
    ],
)
def test_a_url_of_postgresql_or_of_a_sqlite_file_is_accepted(url):
    assert read(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:p@h/x",
        "oracle://h/x",
        "postgresql+psycopg://h/x",
        "/var/cronjob.sqlite3",
        "cronjob",
        "sqlite://",
        "sqlite:///",
        "sqlite://:memory:",
        "postgresql://[h/x",
        "postgresql://h:abc/x",
        "postgresql://h:99999/x",
        "postgresql://u:p/p@h/x",
        "postgresql://h",
        "sqlite://var/x.sqlite3",  # would be the file x.sqlite3
        "sqlite:///:memory:",  # each process would have one of its own
    ],
)
def test_any_other_url_is_refused(url):
    with pytest.raises(BadSetting) as caught:
        read(url)
    assert str(caught.value).startswith(f"DATABASE_URL={MASK}: ")
    assert str(caught.value).endswith(". Correct it, or leave it out for the default ''.")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:hunter2@h/x",
        "postgresql://u:hunter2@[h/x",
        "postgresql://u:hunter2@h\N{ACCOUNT OF}/x",  # which urlsplit() quotes in its error
    ],
)
def test_a_url_is_refused_without_telling_its_password(url):
    with pytest.raises(BadSetting, match=r"^DATABASE_URL=\*+: ") as caught:
        read(url)
    assert "hunter2" not in str(caught.value)


def test_without_a_url_it_is_a_file_in_the_data_directory(tmp_path):
    made = tmp_path / "new"
    entry = configured(parser(made)(""), data_dir=made)
    assert entry["ENGINE"] == "django.db.backends.sqlite3"
    assert (entry["NAME"], made.is_dir()) == (str(made / "cronjob.sqlite3"), True)


# Even one that means something in a URL.
@pytest.mark.parametrize("name", ["with space", "a#1", "a?1", "100%41"])
def test_the_data_directory_may_have_any_name(tmp_path, name):
    made = tmp_path / name
    entry = configured(parser(made)(""), data_dir=made)
    assert entry["NAME"] == str(made / "cronjob.sqlite3")


def test_a_directory_of_another_file_is_not_made(tmp_path):
    configured(f"sqlite:///{tmp_path}/other/x.sqlite3", data_dir=tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_sqlite_keeps_what_it_was_told_and_waits_its_turn(tmp_path):
    with opened(f"sqlite:///{tmp_path}/x.sqlite3", data_dir=tmp_path) as made:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        found = {name: asked(made, f"PRAGMA {name}") for name in names}
    wanted = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 20000}
    assert found == wanted


def test_a_transaction_of_sqlite_has_the_right_to_write_from_its_first_moment(tmp_path):
    path = tmp_path / "x.sqlite3"
    with opened(f"sqlite:///{path}", data_dir=tmp_path) as made:
        made.ensure_connection()
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        made.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        made.rollback()
        other.execute("BEGIN IMMEDIATE")
        other.close()


@on_postgresql
def test_postgresql_ends_what_takes_too_long():
    with opened(postgres(), data_dir=DATA_DIR) as made:
        assert shown(made) == TIMEOUTS


@on_postgresql
@pytest.mark.parametrize("option", ["currentSchema=public", "options=-c%20search_path%3Dpublic"])
def test_further_options_of_the_url_leave_the_timeouts_in_force(option):
    with opened(postgres(option), data_dir=DATA_DIR) as made:
        assert asked(made, "SHOW search_path") == "public"
        assert shown(made) == TIMEOUTS


@on_postgresql
def test_an_option_of_the_url_goes_along_with_ours():
    with opened(postgres("application_name=me"), data_dir=DATA_DIR) as made:
        assert asked(made, "SHOW application_name") == "me"
        assert asked(made, "SHOW statement_timeout") == "5s"


@on_postgresql
def test_a_thread_keeps_its_connection_and_looks_whether_it_is_good():
    entry = configured(postgres(), data_dir=DATA_DIR)
    assert (entry["CONN_MAX_AGE"], entry["CONN_HEALTH_CHECKS"]) == (None, True)


def hurry():
    with connection.cursor() as cursor:
        for name, value in TIMEOUTS.items():
            cursor.execute(f"SET {name} = '{value}'")


UNHURRIED = {
    "statement_timeout": "0",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "0",
}


@on_postgresql
def test_migrations_take_their_time_but_still_do_not_wait_for_a_lock():
    hurry()
    call_command("migrate", verbosity=0, interactive=False)
    assert shown(connection) == UNHURRIED


def test_on_sqlite_there_is_nothing_to_lift(django_assert_num_queries):
    with django_assert_num_queries(0):
        unhurried(sender=None)


@on_postgresql
@pytest.mark.parametrize("times", ["2026-01-01 12:00:00.000001+00", "1999-12-31 23:30:00+02:30"])
def test_times_are_read_in_utc_whoever_reads_them(tmp_path, times):
    with opened(postgres(), data_dir=tmp_path) as made:
        at = asked(made, f"SELECT timestamptz '{times}'")
        assert (at, at.tzinfo) == (datetime.fromisoformat(times), UTC)
        loader = made.connection.adapters.get_loader(1184, 0)
        assert not isinstance(loader(1184), TimestamptzLoader), "ten times as slow"


def failure(url, tmp_path):
    with opened(url, data_dir=tmp_path) as made, pytest.raises(OperationalError) as caught:
        made.ensure_connection()
    return caught.value


@on_postgresql
def test_a_postgresql_that_does_not_answer_is_told_in_one_line(settings, tmp_path):
    settings.DATABASE_URL = DOWN
    told = trouble(failure(DOWN, tmp_path))
    assert told.startswith(
        "the database postgresql://cron:********@127.0.0.1:1/x does not answer ("
    )
    assert "Connection refused" in told
    assert told.endswith("). Start it, or correct DATABASE_URL; `manage.py doctor` looks closer.")
    assert "\n" not in told
    assert "hunter2" not in told


def test_a_sqlite_that_does_not_open_is_told_in_one_line(settings, tmp_path):
    settings.DATABASE_URL = DOWN
    told = trouble(failure(f"sqlite:///{tmp_path}/no/such/x.sqlite3", tmp_path))
    name = connection.settings_dict["NAME"]
    assert told.startswith(f"the database {name} does not work (unable to open database file). ")
    assert told.endswith("exist and may be written by this user.")
    assert "\n" not in told
    assert "hunter2" not in told


def test_a_table_that_is_not_there_is_blamed_on_the_migrations_to_do(tmp_path):
    with (
        opened(empty("sqlite", tmp_path), data_dir=tmp_path) as made,
        pytest.raises(OperationalError) as caught,
    ):
        asked(made, "SELECT 1 FROM api_keys")
    assert "manage.py migrate" in trouble(caught.value)


@on_both
def test_now_is_utc_and_says_so():
    told = clock.now()
    assert told.tzinfo is UTC


def test_on_sqlite_now_is_the_time_of_this_machine():
    before = datetime.now(UTC)
    assert before <= clock.now() <= datetime.now(UTC)


@on_postgresql
def test_on_postgresql_now_is_the_servers_time_and_moves_on_within_a_transaction():
    begun = asked(connection, "SELECT now()")
    first = clock.now()
    second = clock.now()
    assert begun < first < second <= asked(connection, "SELECT clock_timestamp()")
    assert asked(connection, "SELECT now()") == begun


@on_postgresql
def test_on_postgresql_now_is_utc_whatever_the_session_speaks():
    with connection.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'Asia/Kolkata'")
    told = clock.now()
    assert (told.tzinfo, told.utcoffset().total_seconds()) == (UTC, 0)
