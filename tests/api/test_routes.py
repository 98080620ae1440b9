"""Every route there is, walked: nothing answers without a key but what is meant to."""

import re
import uuid

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from cronjob.api.models import INCLUDES, SCOPES
from tests import marks
from tests.factories import Api, make_api, make_task

pytestmark = marks.sqlite

# Answer anybody, or have a rule of their own that is tested elsewhere.
EXEMPT = re.compile(r"(api/v1/)?(healthz|readyz|version)|metrics|health|demo/echo|favicon.ico|")
CONSOLE = re.compile(r"admin/.*")
# The scope of each change that is not `write`.
READ = ("api/v1/tasks/preview",)  # by POST, since a schedule is a body; it changes nothing
OPERATE = re.compile(
    r".*/(enable|disable|trigger|callbacks|cancel|replay|pause|resume|bulk|run-now)"
)
# What is changed here is changed by whoever knows the token.
TOKEN = re.compile(r"api/v1/callbacks/<.*")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def routes(resolver=None, prefix=""):
    for entry in (resolver or get_resolver()).url_patterns:
        path = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from routes(entry, path)
        elif isinstance(entry, URLPattern):
            yield path


def ours():
    return [path for path in routes() if not (EXEMPT.fullmatch(path) or CONSOLE.match(path))]


def test_the_walk_finds_the_routes():
    assert {"api/v1/tasks", "api/schema", "api/docs", "api/v1"} <= set(ours())
    assert any("disable" in path for path in ours())


def place(path, pk=1):
    return "/" + re.sub(r"<[^>]+>", str(uuid.UUID(int=pk) if path.startswith("jobs") else pk), path)


def allowed(path, method, api):
    """Whether the route knows the method at all, as somebody who may do everything is told."""
    return api.call(method, path, {}).status_code != 405


@pytest.mark.parametrize(
    "credentials", ["", "Bearer nonsense", "Token cj_00000000_x", "Basic YTpi"]
)
def test_no_route_answers_without_a_good_key(credentials):
    for path in ours():
        for method in ("GET",) if TOKEN.match(path) else METHODS:
            headers = {"authorization": credentials} if credentials else {}
            answer = Api().call(method, place(path), {}, **headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED"), path
            assert answer["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("scope", SCOPES)
def test_every_route_asks_for_its_scope(scope):
    task, root = make_task(), make_api("write")
    api = make_api(scope)
    has = {scope} | INCLUDES.get(scope, set())
    for path in ours():
        for method in ("GET",) if TOKEN.match(path) else METHODS:
            if not allowed(place(path, task.pk + 1000), method, root):
                continue
            reads = method == "GET" or path in READ
            needed = "read" if reads else "operate" if OPERATE.match(path) else "write"
            answer = api.call(method, place(path, task.pk + 1000), {})
            assert (answer.status_code == 403) is (needed not in has), (method, path)
            if answer.status_code == 403:
                assert answer.json()["code"] == "FORBIDDEN"
                assert needed in answer.json()["message"]
