"""Plans are made once, where the session is ours."""

from types import SimpleNamespace

import psycopg
import pytest
from django.db import connection

from cronjob.lib import prepared
from tests import marks

pytestmark = marks.both


@pytest.fixture
def direct():
    """As in a scheduler."""
    prepared.connected(connection=connection)
    yield
    connection.connection.prepare_threshold = None
    with connection.cursor() as cursor:
        for said in prepared.SETTINGS:
            cursor.execute(f"RESET {said.partition(' ')[0]}")


def say(number):
    with prepared.cursor() as cursor:
        cursor.execute("SELECT %s::int + 1", [number])
        return cursor.fetchone()[0]


def plans():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements"
            " WHERE statement = 'SELECT $1::int + 1'"
        )
        return cursor.fetchall()


@pytest.mark.on("postgresql")
def test_what_is_said_often_is_planned_once_and_for_all_values(direct):
    assert [say(number) for number in range(6)] == [1, 2, 3, 4, 5, 6]
    assert plans() == [(4, 0)]
    prepared.forget()
    assert say(7) == 8


@pytest.mark.on("postgresql")
def test_elsewhere_nothing_is_kept():
    assert [say(number) for number in range(6)] == [1, 2, 3, 4, 5, 6]
    assert plans() == []


@pytest.mark.on("postgresql")
def test_behind_a_pooler_nothing_is_kept():
    """PgBouncer makes up the process that it tells to whoever connects."""
    connection.ensure_connection()
    told = SimpleNamespace(backend_pid=-1)
    pooled = SimpleNamespace(
        info=told, prepare_threshold=None, execute=connection.connection.execute
    )
    prepared.connected(connection=SimpleNamespace(vendor="postgresql", connection=pooled))
    assert pooled.prepare_threshold is None


def test_any_number_of_ids_is_the_same_statement():
    for ids in ((), (1,), range(3000)):
        for none in (False, True):
            with prepared.cursor() as cursor:
                cursor.execute(f"SELECT 1 WHERE 1 {prepared.among(none=none)}", [prepared.ids(ids)])
                assert bool(cursor.fetchall()) == ((1 in ids) is not none)


@pytest.mark.on("postgresql")
@pytest.mark.django_db(transaction=True)
def test_a_session_that_was_lost_between_two_requests_is_replaced():
    say(1)
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": None}) as other:
        pid = connection.connection.info.backend_pid
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
    connection.health_check_enabled, connection.health_check_done = True, False
    assert say(2) == 3
