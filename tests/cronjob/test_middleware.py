"""Whom a request comes from, what the log says of it, and which path it means."""

import io
import json
import logging
from ipaddress import ip_network

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from cronjob import middleware
from cronjob.lib.log import JsonFormatter, request_id
from tests import marks
from tests.factories import make_api, make_user

pytestmark = marks.sqlite

client = Client()  # one for all: each makes its own list of the static files
PEER = "10.0.0.1"
CLIENT = "203.0.113.9"
TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def trust(settings):
    def these(*networks):
        settings.CRONJOB_TRUSTED_PROXIES = [ip_network(network) for network in networks]

    these("10.0.0.0/8", "127.0.0.1/32", "::1/128", "2001:db8::/32")
    return these


def passed(through, path="/", *, answer=None, **meta):
    """The request as the view gets it, behind one middleware."""
    seen = []

    def view(request):
        seen.append(request)
        return answer or HttpResponse("ok")

    through(view)(RequestFactory().get(path, **meta))
    return seen[0]


def forwarded(chain="", *, peer=PEER, **meta):
    given = {"HTTP_X_FORWARDED_FOR": chain} if chain else {}
    return passed(middleware.proxies, REMOTE_ADDR=peer, **given, **meta)


@pytest.mark.parametrize(
    ("chain", "address"),
    [
        ("", PEER),
        (CLIENT, CLIENT),
        (f"{CLIENT}, 10.0.0.2", CLIENT),
        (f"{CLIENT},10.0.0.2 , 127.0.0.1", CLIENT),
        (f"127.0.0.1, {CLIENT}", CLIENT),  # what stands before the client is the client's word
        (f"10.9.9.9, {CLIENT}, 10.0.0.2", CLIENT),
        (f"nonsense, {CLIENT}", CLIENT),
        (f", {CLIENT},,", CLIENT),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),  # everybody in the chain is a proxy of ours
        ("2001:db9::7, 2001:db8::1", "2001:db9::7"),
        (f"{CLIENT}, nonsense, 10.0.0.2", PEER),  # nobody vouches for what is before
    ],
)
def test_behind_trusted_proxies_the_client_is_the_nearest_stranger(trust, chain, address):
    assert forwarded(chain).META["REMOTE_ADDR"] == address


@pytest.mark.parametrize("peer", [CLIENT, "11.0.0.1", "::2", "", "unix:"])
def test_a_peer_that_is_not_trusted_cannot_say_who_it_is(trust, peer):
    meta = forwarded("127.0.0.1", peer=peer, HTTP_X_FORWARDED_PROTO="https").META
    assert (meta["REMOTE_ADDR"], meta["wsgi.url_scheme"]) == (peer, "http")


def test_nobody_is_trusted_unless_named(settings):
    assert settings.CRONJOB_TRUSTED_PROXIES == []
    meta = forwarded(CLIENT, peer="127.0.0.1").META
    assert meta["REMOTE_ADDR"] == "127.0.0.1"


@pytest.mark.parametrize("peer", [PEER, CLIENT])
def test_what_was_forwarded_is_taken_off_before_anybody_else_reads_it(trust, peer):
    request = forwarded(CLIENT, peer=peer, HTTP_X_FORWARDED_PROTO="https")
    assert not {"X-Forwarded-For", "X-Forwarded-Proto"} & set(request.headers)


@pytest.mark.parametrize(
    ("proto", "secure"), [("https", True), ("http", False), ("", False), ("ftp", False)]
)
def test_a_trusted_proxy_says_whether_the_client_came_by_https(trust, proto, secure):
    request = forwarded(CLIENT, HTTP_X_FORWARDED_PROTO=proto, HTTP_HOST="testserver")
    assert request.is_secure() is secure
    assert request.build_absolute_uri("/a") == f"{'https' if secure else 'http'}://testserver/a"


def test_a_trusted_proxy_may_say_that_https_ended_before_it(trust):
    meta = {"wsgi.url_scheme": "https", "HTTP_X_FORWARDED_PROTO": "http"}
    assert not forwarded(CLIENT, **meta).is_secure()


@pytest.mark.parametrize(
    ("address", "is_trusted"),
    [
        ("10.255.255.255", True),
        ("11.0.0.0", False),
        ("2001:db8::1", True),
        ("::1", True),
        ("::a00:1", False),  # the number of 10.0.0.1, but of the other version
        ("nonsense", False),
        ("", False),
        ("10.0.0.1:80", False),
    ],
)
def test_only_what_is_in_a_network_of_the_settings_is_trusted(trust, address, is_trusted):
    assert middleware.trusted(address) is is_trusted


# A server that listens on [::] names its IPv4 peers like this.
def test_an_ipv4_peer_of_an_ipv6_listener_is_who_it_is(trust):
    assert middleware.trusted("::ffff:10.0.0.1")
    trust()
    assert middleware.local(forwarded(peer="::ffff:127.0.0.1"))


@pytest.mark.parametrize(
    ("peer", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        (PEER, False),
        ("0.0.0.0", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_this_machine_is_its_loopback_addresses(settings, peer, is_local):
    assert middleware.local(forwarded(peer=peer)) is is_local


@pytest.mark.parametrize(
    "meta",
    [
        {"HTTP_X_FORWARDED_FOR": "127.0.0.1"},
        {"HTTP_X_FORWARDED_PROTO": "http"},
        {"HTTP_FORWARDED": "for=127.0.0.1"},
    ],
)
def test_a_proxy_on_this_machine_that_is_not_trusted_is_not_this_machine(settings, meta):
    assert not middleware.local(forwarded(peer="127.0.0.1", **meta))


def test_behind_a_trusted_proxy_on_this_machine_the_client_counts(trust):
    assert middleware.local(forwarded("::1", peer="127.0.0.1"))
    assert middleware.local(forwarded(peer="127.0.0.1"))
    assert not middleware.local(forwarded(CLIENT, peer="127.0.0.1"))
    assert not middleware.local(forwarded(f"127.0.0.1, {CLIENT}", peer="127.0.0.1"))


@pytest.mark.parametrize("chain", ["unknown", f"{CLIENT}:4711", f"{CLIENT}, _hidden"])
def test_a_client_that_a_trusted_proxy_does_not_name_is_not_this_machine(trust, chain):
    assert not middleware.local(forwarded(chain, peer="127.0.0.1"))


def test_links_are_by_https_where_the_client_came_by_https(trust):
    key = make_api("read")
    through = {"host": "testserver", "x_forwarded_for": CLIENT, "x_forwarded_proto": "https"}
    answer = key.get("/api/v1", **through)
    assert answer.json()["tasks"] == "https://testserver/api/v1/tasks"
    trust()
    answer = key.get("/api/v1", **through)
    assert answer.json()["tasks"] == "http://testserver/api/v1/tasks"


@pytest.fixture
def access():
    """What the access log says, a line each."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("cronjob.access")
    logger.addHandler(handler)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.removeHandler(handler)


def test_a_request_is_one_line_with_its_ids(access):
    answer = client.get("/nowhere", headers={"x-request-id": "my-request"})
    (line,) = access()
    assert line.pop("latency_ms") >= 0
    del line["ts"]
    assert line == {
        "level": "info",
        "logger": "cronjob.access",
        "msg": "request",
        "action": "request",
        "method": "GET",
        "path": "/nowhere",
        "status": 404,
        "request_id": answer["X-Request-ID"],
    }
    assert answer["X-Request-ID"] == "my-request"


def test_a_request_that_is_not_good_is_logged_once(caplog):
    client.get("/nowhere")
    assert [record.name for record in caplog.records] == ["cronjob.access"]


def test_the_query_is_not_in_the_line(access):
    client.get(f"/nowhere?token={TOKEN}")
    assert TOKEN not in json.dumps(access())


@pytest.mark.parametrize("path", ["/api/v1/callbacks/{}", "/api/v1/callbacks/{}/", "/callbacks/{}"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH"])
def test_the_token_of_a_callback_is_not_in_the_line(access, path, method):
    client.generic(method, path.format(TOKEN))
    (line,) = access()
    assert line["path"] == path.format("********").rstrip("/")
    assert TOKEN not in json.dumps(line)


@pytest.mark.parametrize("path", [f"/api/v1/callbacks//{TOKEN}", f"/api/v1/callbacks%2F%2F{TOKEN}"])
def test_the_token_of_a_callback_url_that_is_put_together_badly_is_not_in_the_line(access, path):
    client.post(path)
    assert TOKEN not in json.dumps(access())


QUIET = (
    "/healthz",
    "/readyz",
    "/healthz/",
    "/api/v1/healthz",
    "/api/v1/readyz",
    "/metrics",
    "/static/console/console.css",
)


@pytest.mark.parametrize("path", QUIET)
def test_what_machines_ask_for_all_the_time_is_not_logged(access, path):
    answer = client.get(path)
    answer.close()
    assert (answer.status_code, access()) == (200, [])


@pytest.mark.parametrize("path", QUIET)
@pytest.mark.parametrize("status", [500, 503])
def test_what_machines_ask_for_is_logged_when_it_goes_wrong(access, path, status):
    passed(middleware.request_ids, path, answer=HttpResponse(status=status))
    assert [(line["path"], line["status"]) for line in access()] == [(path, status)]


@pytest.mark.parametrize("path", ["/version", "/api/v1", "/admin/login/"])
def test_what_people_and_clients_ask_for_is_logged(access, path):
    client.get(path)
    assert [line["path"] for line in access()] == [path]


def test_the_id_of_a_request_is_known_while_it_lasts_and_then_forgotten():
    during = []

    def view(request):
        during.append(request_id.get())
        return HttpResponse()

    answer = middleware.request_ids(view)(RequestFactory().get("/"))
    assert during == [answer["X-Request-ID"]]
    assert request_id.get() == ""


def test_the_id_of_a_request_that_breaks_is_forgotten_too():
    def view(request):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        middleware.request_ids(view)(RequestFactory().get("/"))
    assert request_id.get() == ""


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("/", "/"),
        ("/api/v1/tasks", "/api/v1/tasks"),
        ("/api/v1/tasks/", "/api/v1/tasks"),
        ("/api/v1/tasks///", "/api/v1/tasks"),
        ("/api/v1/", "/api/v1"),
        ("/healthz/", "/healthz"),
        ("/administration/", "/administration"),
        ("/admin/", "/admin/"),
        ("/admin/tasks/task/", "/admin/tasks/task/"),
        ("/static/console/", "/static/console/"),
    ],
)
def test_a_path_means_the_same_with_a_slash_at_its_end(given, meant):
    request = passed(middleware.slashes, given)
    assert (request.path_info, request.path) == (meant, meant)


def test_below_a_sub_path_the_slash_is_taken_off_both_ways_of_writing():
    request = passed(middleware.slashes, "/api/v1/tasks/", SCRIPT_NAME="/cronjob")
    assert (request.path_info, request.path) == ("/api/v1/tasks", "/cronjob/api/v1/tasks")


def test_what_is_posted_to_a_path_with_a_slash_arrives():
    body = {"name": "t", "target_url": "http://svc/", "every": 60}
    answer = make_api("write").post("/api/v1/tasks/", body)
    assert (answer.status_code, answer.json()["name"]) == (201, "t")


def test_the_console_is_found_without_its_slash():
    answer = client.get("/admin")
    assert (answer.status_code, answer["Location"]) == (301, "/admin/")


def test_the_line_says_who_asked(access):
    make_api("read", name="ci").get("tasks")
    browser = Client()
    browser.force_login(make_user("ada", is_superuser=True))
    browser.get("/api/v1/tasks")
    assert [line["user"] for line in access()] == ["key ci", "ada"]


def test_the_host_that_a_trusted_proxy_tells_is_the_one_of_links(trust):
    key = make_api("read")
    through = {"host": "testserver", "x_forwarded_for": CLIENT, "x_forwarded_host": "localhost"}
    told = key.get("/api/v1", **through).json()
    assert told["tasks"] == "http://localhost/api/v1/tasks"
    trust()
    told = key.get("/api/v1", **through).json()
    assert told["tasks"] == "http://testserver/api/v1/tasks"
