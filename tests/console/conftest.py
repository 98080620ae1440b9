"""People at the console: one browser for each of the three groups that come with it."""

import importlib
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client

from tests.factories import make_user


@pytest.fixture(autouse=True)
def _forget_content_types():
    """Their ids differ from database to database, and change when one is flushed."""
    ContentType.objects.clear_cache()
    yield
    ContentType.objects.clear_cache()


@pytest.fixture
def groups(db):
    """The three groups; a test that commits has the data of migrations flushed after it."""
    made = importlib.import_module("cronjob.console.migrations.0001_groups")
    made.make_groups(apps, SimpleNamespace(connection=connection))


@pytest.fixture
def login(groups):
    def log_in(group, **client):
        browser = Client(**client)
        browser.force_login(make_user(f"a {group or 'guest'}", group=group, is_staff=True))
        return browser

    return log_in


@pytest.fixture
def viewer(login):
    return login("viewer")


@pytest.fixture
def operator(login):
    return login("operator")


@pytest.fixture
def editor(login):
    return login("editor")
