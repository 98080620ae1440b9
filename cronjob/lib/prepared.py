"""Plain SQL that is said again and again: PostgreSQL plans it once, and not each time.

For what a scheduler asks, planning takes longer than doing. Such a plan knows no values, so it is
made for all of them; `forget` has it made anew, for tables that have grown meanwhile.

Behind a pooler that gives each transaction another session nothing is prepared: the next session
would not know of it. Such a pooler tells a process id of its own making.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.signals import connection_created
from django.db.backends.sqlite3.base import SQLiteCursorWrapper
from django.db.backends.utils import CursorWrapper

OFTEN = 2  # what was said so often will be said again
# A plan that reads a whole table is right for as long as that is empty, and it does not stay so:
# what is said here has its indexes. Such a plan looks dear, which is no reason to compile it.
SETTINGS = ("plan_cache_mode = force_generic_plan", "enable_seqscan = off", "jit = off")


class Remembering(SQLiteCursorWrapper):
    """Django makes each %s a ? again each time, which takes as long as a small statement."""

    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        return placed(query)


@lru_cache(maxsize=256)
def placed(query: str) -> str:
    plain: Any = None  # which cursor says it makes no difference
    return SQLiteCursorWrapper.convert_query(plain, query)


def cursor() -> CursorWrapper:
    """For statements whose text is always the same, and whose values come apart from it."""
    own = connections[DEFAULT_DB_ALIAS]  # found once, and not anew for each of its attributes
    own.close_if_health_check_failed()
    own.ensure_connection()
    session: Any = own.connection
    if own.vendor == "postgresql":
        plain: Any = psycopg.Cursor(session)
    else:
        plain = session.cursor(factory=Remembering)
    return (own.make_debug_cursor if own.queries_logged else own.make_cursor)(plain)


def enable() -> None:
    """From now on this process plans once what it says often; it has to `forget` now and then."""
    connection_created.connect(connected, dispatch_uid="prepared")
    connection.close()


def connected(*, connection: Any, **_: object) -> None:
    if connection.vendor != "postgresql":
        return
    session = connection.connection
    (pid,) = session.execute("SELECT pg_backend_pid()").fetchone()
    if pid == session.info.backend_pid:  # nobody stands in between
        for said in SETTINGS:
            session.execute(f"SET {said}")
        session.prepare_threshold = OFTEN


def forget() -> None:
    """The plans: a table that was nearly empty when they were made may be large by now."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("DISCARD PLANS")


def among(*, none: bool = False) -> str:
    """`IN (…)` for some `ids`, or NOT IN: one text however many they are."""
    if connection.vendor == "postgresql":
        return "<> ALL(%s::bigint[])" if none else "= ANY(%s::bigint[])"
    return f"{'NOT ' * none}IN (SELECT value FROM json_each(%s))"


def ids(some: Iterable[int]) -> str:
    """What `among` takes."""
    opening, closing = "{}" if connection.vendor == "postgresql" else "[]"
    return f"{opening}{','.join(map(str, some))}{closing}"


def said(sql: str, **parts: str) -> str:
    """The statement, with what stands in its braces: {among} and {but} are for `ids`."""
    return sql.format(among=among(), but=among(none=True), **parts)


def rows(sql: str, *some: Iterable[int]) -> list[tuple[Any, ...]]:
    """What a statement finds whose values are `ids`, all of them."""
    with cursor() as asked:
        asked.execute(said(sql), [ids(each) for each in some])
        found: list[tuple[Any, ...]] = asked.fetchall()
    return found
