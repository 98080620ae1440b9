"""Other databases than the one of the tests, for the time of a `with`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connections
from django.db.utils import load_backend

from cronjob.lib import database

DOWN = "postgresql://cron:hunter2@127.0.0.1:1/x"  # nothing listens on port 1


@contextmanager
def opened(url: str, *, data_dir: Path) -> Iterator[Any]:
    """A connection of its own, opened the way the product opens its database."""
    entry = database.configured(url, data_dir=data_dir)
    config = connections.configure_settings({"default": entry})["default"]
    made = load_backend(config["ENGINE"]).DatabaseWrapper(config, "default")
    try:
        yield made
    finally:
        made.close()


@contextmanager
def instead(url: str, *, data_dir: Path) -> Iterator[Any]:
    """Let `default` be that database."""
    before = connections["default"]
    with opened(url, data_dir=data_dir) as made:
        connections["default"] = made
        try:
            yield made
        finally:
            connections["default"] = before


def postgres(options: str = "") -> str:
    """The URL of the tests' PostgreSQL, with further options."""
    url = os.environ["TESTS_POSTGRES_URL"]
    return f"{url}{'&' if '?' in url else '?'}{options}" if options else url


def empty(vendor: str, tmp_path: Path) -> str:
    """A database without any table: a new file, or a schema that is not there."""
    if vendor == "sqlite":
        return f"sqlite:///{tmp_path}/empty.sqlite3"
    return postgres("options=-c%20search_path%3Dnowhere")


def asked(connection: Any, sql: str) -> Any:
    """The one value that `sql` answers."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]
