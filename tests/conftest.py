"""Every test that touches the database runs twice: on SQLite and on a real PostgreSQL."""

import os
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection as django_connection
from django.db import connections
from django.db.utils import load_backend
from django.test import Client
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis
from psycopg.conninfo import make_conninfo

from cronjob.lib import database as databases
from cronjob.lib import wakeup
from tests import factories
from tests.servers import Postgres

ALIAS = "default"
POSTGRES = pytest.StashKey[Postgres]()
URL = "TESTS_POSTGRES_URL"  # how the owner tells the workers

hypothesis.register_profile(  # a machine may be slow, and CI is to see the same each time
    "ours", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)  # fmt: skip
hypothesis.load_profile("ours")


def pytest_configure(config: pytest.Config) -> None:
    """The controller owns the server; workers and child processes get its URL."""
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.stash[POSTGRES] = Postgres()
        os.environ[URL] = config.stash[POSTGRES].url


def pytest_unconfigure(config: pytest.Config) -> None:
    if POSTGRES in config.stash:
        config.stash[POSTGRES].stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("on")
        names = only.args if only else ("sqlite", "postgresql")
        metafunc.parametrize("database", names, indirect=True, scope="session")


class Ground:
    """The databases of this worker, made when first needed and kept until the end."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.made: dict[str, Any] = {}

    def use(self, vendor: str) -> None:
        """Let `default` be that database, for this thread and for those started from it."""
        made = self.made.get(vendor)
        if made is None:
            made = self.made[vendor] = self.make(vendor)
        connections.settings[ALIAS] = made.settings_dict
        settings.DATABASES[ALIAS] = made.settings_dict
        connections[ALIAS] = made

    def make(self, vendor: str) -> Any:
        config = connections.configure_settings({ALIAS: self.config(vendor)})[ALIAS]
        connection = load_backend(config["ENGINE"]).DatabaseWrapper(config, ALIAS)
        connections.settings[ALIAS] = config
        connections[ALIAS] = connection
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
        return connection

    def config(self, vendor: str) -> dict[str, Any]:
        directory = settings.CRONJOB_DATA_DIR
        url = f"sqlite:///{directory}/{self.worker}" if vendor == "sqlite" else os.environ[URL]
        name = f"{directory}/{self.worker}.sqlite3" if vendor == "sqlite" else f"t_{self.worker}"
        return databases.configured(url, data_dir=directory) | {"TEST": {"NAME": name}}

    def remove(self) -> None:
        for vendor, made in self.made.items():
            self.use(vendor)
            made.creation.destroy_test_db(made.settings_dict["NAME"], verbosity=0)
            made.close()


@pytest.fixture(scope="session")
def ground(django_test_environment: None, django_db_blocker: Any, request: Any) -> Iterator[Ground]:
    workerinput = getattr(request.config, "workerinput", {"workerid": "main"})
    made = Ground(workerinput["workerid"])
    yield made
    with django_db_blocker.unblock():
        made.remove()


@pytest.fixture(scope="session")
def django_db_setup() -> None:
    """Nothing: `database` makes what a test needs."""


@pytest.fixture(scope="session")  # so that it comes before whatever opens a transaction
def database(request: Any, ground: Ground, django_db_blocker: Any) -> str:
    with django_db_blocker.unblock():
        ground.use(request.param)
    return str(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """A hint that is given later would come without the database of its test."""
    with wakeup.limit.lock:
        if later := wakeup.limit.later:
            later.cancel()
            wakeup.limit.later = None
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()


@pytest.fixture(autouse=True)
def _clean_cache() -> None:
    cache.clear()


@pytest.fixture
def api(db: None) -> factories.Api:
    """A client that may do everything with tasks."""
    return factories.make_api("write")


@pytest.fixture
def reader(db: None) -> factories.Api:
    return factories.make_api("read")


@pytest.fixture
def console(db: None) -> Client:
    """An administrator's browser, as far as a test client is one."""
    client = Client()
    client.force_login(factories.make_user("admin", is_superuser=True, is_staff=True))
    return client


@pytest.fixture
def hints(settings: Any) -> None:
    """Schedulers of the test hear of changes as in production."""
    if django_connection.vendor == "postgresql":
        where = django_connection.get_connection_params()
        names = ("host", "port", "dbname", "user", "password")
        known = {name: where[name] for name in names if name in where}
        settings.CRONJOB_LISTEN_URL = make_conninfo(**known)


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of a new, empty database of the run's server, for processes of the product."""
    name = f"p_{uuid.uuid4().hex}"
    with psycopg.connect(os.environ[URL], autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield os.environ[URL].replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
