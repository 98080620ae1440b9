"""Worlds for the fault tests; with FAULT_SEEDS=20 each of them comes and goes so often."""

import fcntl
import os
import random
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import URL
from tests.faults.world import LONG, SEEDS, World, migrate

TEMPLATE = "faults_template"
BOTH = ["postgresql", "sqlite"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    worlds = {"world", "small_world", "each_world", "any_world", "fragile_world", "steps"}
    if LONG and "chance" not in metafunc.fixturenames and worlds & {*metafunc.fixturenames}:
        metafunc.fixturenames.append("chance")  # the machine takes chances, too
    if "chance" in metafunc.fixturenames:
        metafunc.parametrize("chance", range(SEEDS), indirect=True)


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """What is left to chance is the same for the same number."""
    return random.Random(request.param)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A database of each kind, made by the first worker that needs it."""
    base = tmp_path_factory.getbasetemp()
    kept = (base if worker_id == "master" else base.parent) / "templates"
    kept.mkdir(exist_ok=True)
    with open(kept / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kept / "made").exists():
            migrate("", kept)
            with psycopg.connect(os.environ[URL], autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {TEMPLATE}")
            migrate(os.environ[URL].replace("/postgres?", f"/{TEMPLATE}?"), kept)
            (kept / "made").touch()
    return kept


@pytest.fixture
def world(tmp_path: Path, templates: Path, django_db_blocker: Any) -> Iterator[World]:
    """On PostgreSQL."""
    name = f"w_{uuid.uuid4().hex}"
    with psycopg.connect(os.environ[URL], autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        url = os.environ[URL].replace("/postgres?", f"/{name}?")
        with World(tmp_path, url, unblock=django_db_blocker.unblock) as made:
            yield made
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def small_world(tmp_path: Path, templates: Path, django_db_blocker: Any) -> Iterator[World]:
    """On SQLite."""
    shutil.copy(templates / "cronjob.sqlite3", tmp_path)
    with World(tmp_path, unblock=django_db_blocker.unblock) as made:
        yield made


def on_either(request: pytest.FixtureRequest) -> World:
    found: World = request.getfixturevalue("small_world" if request.param == "sqlite" else "world")
    return found


each_world = pytest.fixture(name="each_world", params=BOTH)(on_either)
# On either in the long form only: on which it is makes a difference to few.
any_world = pytest.fixture(name="any_world", params=BOTH if LONG else BOTH[:1])(on_either)
