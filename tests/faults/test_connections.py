"""One connection for many requests, also behind bodies that nobody reads."""

import http.client
from urllib.parse import urlsplit

import pytest

from tests.processes import origin, up

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with up(tmp_path_factory.mktemp("connections"), "--no-demo") as process:
        yield process


@pytest.mark.parametrize("size", [100_000, 1_000_000])
@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/v1/callbacks/nobody", 404), ("/api/v1/tasks", 401), ("/healthz", 405),
     ("/nothing", 404)],
)  # fmt: skip
@pytest.mark.parametrize("chunked", [False, True])
def test_a_refused_body_does_not_cost_the_connection(server, path, status, size, chunked):
    connection = http.client.HTTPConnection(urlsplit(origin(server)).netloc, timeout=30)
    body = (b"x" * 10_000 for _ in range(size // 10_000)) if chunked else b"x" * size
    connection.request("POST", path, body, encode_chunked=chunked, headers=how(chunked))
    kept = connection.sock
    answer = connection.getresponse()
    assert (answer.status, answer.read() != b"") == (status, True)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok"
    assert connection.sock is kept  # it was not opened again behind our back
    connection.close()


def how(chunked):
    return {"Transfer-Encoding": "chunked"} if chunked else {}
