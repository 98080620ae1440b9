"""Which database, how it is opened, and what to say when it cannot be."""

import re
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import dj_database_url
from django.db import DatabaseError, OperationalError, connection

from cronjob.lib.environ import directory, masked

# IMMEDIATE: a transaction that reads before it writes would otherwise fail at once, whatever the
# timeout, when another one wrote in between. FULL: a commit survives a power cut.
SQLITE: dict[str, Any] = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": (
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
        "PRAGMA cache_size=-20000; PRAGMA journal_size_limit=67108864;"
    ),
}

# Nobody may hold a row while asleep: a paused process loses its transaction, not everyone's beat.
POSTGRESQL: dict[str, Any] = {
    "connect_timeout": 3,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10000,
    "options": (
        "-c statement_timeout=5s -c lock_timeout=2s -c idle_in_transaction_session_timeout=5s"
    ),
}

SNAPSHOT_MAX = (
    60  # seconds; from then on it is told, since every poll has to step over what it keeps
)

KNOWN = "must be postgresql://user:password@host/name or sqlite:////path/to/file"


def parser(data_dir: Path) -> Callable[[str], str]:
    """Checks DATABASE_URL; empty means the embedded SQLite in the data directory."""

    def parse(text: str) -> str:
        if not text:
            return f"sqlite:///{quote(str((data_dir / 'cronjob.sqlite3').absolute()))}"
        try:
            url = urlsplit(text)
            name, _ = url.path.strip("/"), url.port
        except ValueError:  # whose words would hold the password
            raise ValueError(KNOWN) from None
        if url.scheme in ("postgres", "postgresql") and name and "/" not in name:
            return text
        if url.scheme == "sqlite" and name and not (url.netloc or url.query or name == ":memory:"):
            return text
        raise ValueError(KNOWN)

    return parse


def configured(url: str, *, data_dir: Path) -> dict[str, Any]:
    """Django's entry for `url`, with the options that this product relies on."""
    config: dict[str, Any] = dict(dj_database_url.parse(url))
    given = config.get("OPTIONS", {})
    if config["ENGINE"].endswith("sqlite3"):
        if Path(config["NAME"]).parent == data_dir.absolute():
            directory(data_dir)
        return config | {"OPTIONS": SQLITE | given}
    if "options" in given:
        given["options"] = f"{POSTGRESQL['options']} {given['options']}"
    # A loop or a web thread keeps its connection, and looks whether it is still good.
    config |= {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}
    return config | {"OPTIONS": POSTGRESQL | given}


def trouble(error: DatabaseError) -> str:
    """One line that says what is wrong with which database, and what to do about it.

    Empty for an error that is not the database's or its operator's, but ours.
    """
    from django.conf import settings

    cause = re.sub(r"\s+", " ", str(error)).strip()
    if re.search(r"no such (table|column)|(relation|column) .* does not exist", cause):
        return f"the database lacks a table or a column ({cause}). Run `manage.py migrate`."
    if connection.vendor == "sqlite" and "not a database" in cause:
        name = connection.settings_dict["NAME"]
        return f"{name} is another kind of file ({cause}). Move it away, or correct DATABASE_URL."
    if not isinstance(error, OperationalError):
        return ""
    if connection.vendor == "sqlite":
        name = connection.settings_dict["NAME"]
        remedy = "Check that the file and its directory exist and may be written by this user."
        return f"the database {name} does not work ({cause}). {remedy}"
    where = masked(settings.DATABASE_URL)
    if "canceling statement" in cause or "deadlock" in cause:
        return (
            f"the database {where} gave up a statement ({cause}). Try again when it is less busy."
        )
    remedy = "Start it, or correct DATABASE_URL; `manage.py doctor` looks closer."
    return f"the database {where} does not answer ({cause}). {remedy}"


def quick_times(*, connection: Any, **_: object) -> None:
    """Read times as psycopg does in C: Django's own way, in Python, takes ten times as long."""
    if connection.vendor != "postgresql":
        return
    from psycopg import adapters
    from psycopg.pq import Format

    class Loader:
        """Nothing can be derived from what is in C; by its timezone Django knows its own."""

        format, timezone = Format.TEXT, UTC
        in_c: Any = adapters.get_loader(adapters.types["timestamptz"].oid, Format.TEXT)

        def __new__(cls, oid: int, context: Any = None) -> Any:
            return cls.in_c(oid, context)

    connection.connection.adapters.register_loader("timestamptz", cast(Any, Loader))


def unhurried(**_: object) -> None:
    """Let migrations take their time; a lock that cannot be had still fails quickly."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
            cursor.execute("SET idle_in_transaction_session_timeout = 0")


def oldest_snapshot() -> float:
    """For how many seconds somebody's transaction has kept PostgreSQL from cleaning up."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM clock_timestamp() - min(xact_start)) FROM pg_stat_activity"
            " WHERE backend_xmin IS NOT NULL AND backend_type = 'client backend'"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        )
        return float(cursor.fetchone()[0] or 0)
