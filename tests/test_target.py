"""The target must misbehave exactly as promised, or what it proves about a caller is worthless."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import requests

from tests.target import Answer, Received, Target

PATIENCE = 10  # Seconds after which something that must happen did not.
INSTANT = 0.05  # Seconds in which something that must not happen could have.

Open = Callable[..., socket.socket]


@pytest.fixture
def target() -> Iterator[Target]:
    with Target() as target:
        yield target


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def send(target: Target, stack: ExitStack) -> Open:
    """Send a request over a raw socket and leave its answer to be read."""

    def send(
        path: str, *, method: str = "GET", body: bytes = b"", length: int = 0
    ) -> socket.socket:
        address = target.url("").removeprefix("http://").split(":")
        sock = socket.create_connection((address[0], int(address[1])), timeout=PATIENCE)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length or len(body)}\r\n\r\n"
        )
        sock.sendall(head.encode() + body)
        return stack.enter_context(sock)

    return send


def answer(sock: socket.socket) -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(sock)
    response.begin()
    return response


def get(target: Target, path: str, **options: object) -> requests.Response:
    options = {"timeout": PATIENCE, "allow_redirects": False, **options}
    return requests.get(target.url(path), **options)  # type: ignore[arg-type]


def drain(sock: socket.socket) -> bytes:
    """Read until the other side is gone, by whichever way it went."""
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def running() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "target"]


def assert_nothing_comes(sock: socket.socket) -> None:
    sock.settimeout(INSTANT)
    with pytest.raises(TimeoutError):
        sock.recv(1)
    sock.settimeout(PATIENCE)


def test_a_request_is_remembered_as_it_was_sent(target: Target) -> None:
    url = target.url("/echo?a=1&a=%2F")
    requests.post(url, data=b"\x00\xff", headers={"X-Colour": "blue"}, timeout=PATIENCE)
    [received] = target.requests
    assert (received.method, received.path, received.query) == ("POST", "/echo", "a=1&a=%2F")
    assert received.parameter("a") == "/"
    assert received.parameter("b", default="none") == "none"
    assert received.headers["x-colour"] == "blue"
    assert received.body == b"\x00\xff"
    assert received.at > 0


def test_echo_tells_what_it_received(target: Target) -> None:
    url, headers = target.url("/echo?q=1"), {"X-Colour": "blue"}
    seen = requests.patch(url, data="hé".encode(), headers=headers, timeout=PATIENCE).json()
    assert (seen["method"], seen["path"], seen["query"]) == ("PATCH", "/echo", "q=1")
    assert (seen["headers"]["X-Colour"], seen["body"]) == ("blue", "hé")


def test_echo_survives_a_body_that_is_not_text(target: Target) -> None:
    response = requests.put(target.url("/echo"), data=b"\xff", timeout=PATIENCE)
    assert response.json()["body"] == "\N{REPLACEMENT CHARACTER}"


def test_any_method_is_understood(target: Target) -> None:
    response = requests.request("PURGE", target.url("/echo"), timeout=PATIENCE)
    assert response.json()["method"] == "PURGE"


def test_a_head_request_gets_no_body(target: Target) -> None:
    with requests.Session() as session:
        head = session.head(target.url("/huge?bytes=1000"), timeout=PATIENCE)
        assert (head.headers["Content-Length"], head.content) == ("1000", b"")
        assert session.get(target.url("/echo"), timeout=PATIENCE).status_code == 200
    assert target.connections == 1


def test_an_unknown_path_is_not_found(target: Target) -> None:
    assert get(target, "/nowhere").status_code == 404


@pytest.mark.parametrize("status", [200, 404, 503, 599])
def test_a_status_path_answers_that_status(target: Target, status: int) -> None:
    response = get(target, f"/status/{status}?retry_after=120&body=so+sorry")
    assert (response.status_code, response.text) == (status, "so sorry")
    assert response.headers["Retry-After"] == "120"


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_leaves_the_connection_usable(target: Target, status: int) -> None:
    with requests.Session() as session:
        empty = session.get(target.url(f"/status/{status}?body=ignored"), timeout=PATIENCE)
        assert (empty.status_code, empty.content) == (status, b"")
        assert session.get(target.url("/echo"), timeout=PATIENCE).status_code == 200
    assert target.connections == 1


def test_ordinary_answers_keep_the_connection(target: Target) -> None:
    with requests.Session() as session:
        for path in ("/echo", "/status/500", "/huge?bytes=9&chunked=1", "/slow?seconds=0"):
            session.get(target.url(path), timeout=PATIENCE)
    assert [received.connection for received in target.requests] == [1, 1, 1, 1]
    assert target.connections == 1


def test_connections_are_counted(target: Target) -> None:
    for _ in range(3):
        get(target, "/echo")
    assert [received.connection for received in target.requests] == [1, 2, 3]
    assert target.connections == 3


def test_a_caller_may_ask_to_close_the_connection(target: Target) -> None:
    with requests.Session() as session:
        for _ in range(2):
            wish = {"Connection": "close"}
            response = session.get(target.url("/echo"), headers=wish, timeout=PATIENCE)
            assert response.headers["Connection"] == "close"
    assert target.connections == 2


def test_a_slow_path_answers_late(target: Target, send: Open) -> None:
    assert_nothing_comes(send("/slow?seconds=60"))
    assert get(target, "/slow?seconds=0.01").text == "slow"


def test_a_held_request_is_answered_once_released(target: Target, send: Open) -> None:
    held = [send("/hold"), send("/hold")]
    target.wait_for(2)
    assert_nothing_comes(held[0])
    target.release()
    assert [answer(sock).read() for sock in held] == [b"released", b"released"]


def test_a_request_that_comes_after_a_release_is_held_again(target: Target, send: Open) -> None:
    target.release()
    held = send("/hold")
    target.wait_for(1)
    assert_nothing_comes(held)
    target.release()
    assert answer(held).read() == b"released"


def test_a_dripping_body_comes_a_byte_at_a_time(send: Open) -> None:
    response = answer(send("/drip?bytes=100000&interval=0.01"))
    assert response.length == 100000
    assert [len(response.read1(100)) < 100 for _ in range(3)] == [True] * 3


def test_a_dripping_body_comes_to_an_end(target: Target) -> None:
    assert get(target, "/drip?bytes=5&interval=0").content == b"xxxxx"


def test_dripping_headers_come_a_byte_at_a_time(send: Open) -> None:
    sock = send("/drip-headers?bytes=100000&interval=0.01")
    data = b"".join(sock.recv(65536) for _ in range(4))
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\n\r\n" not in data
    assert len(data) < 1000


def test_dripping_headers_come_to_an_end(target: Target) -> None:
    assert get(target, "/drip-headers?bytes=5&interval=0").headers["X-Drip"] == "xxxxx"


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_001])
@pytest.mark.parametrize("chunked", [0, 1])
def test_a_huge_body_is_as_long_as_asked(target: Target, size: int, chunked: int) -> None:
    response = get(target, f"/huge?bytes={size}&chunked={chunked}")
    assert response.content == b"x" * size
    length, coding = (None, "chunked") if chunked else (str(size), None)
    assert response.headers.get("Content-Length") == length
    assert response.headers.get("Transfer-Encoding") == coding


@pytest.mark.parametrize("chunked", [0, 1])
def test_a_huge_body_is_never_held_whole(send: Open, chunked: int) -> None:
    response = answer(send(f"/huge?bytes={10**15}&chunked={chunked}"))
    assert len(response.read(1_000_000)) == 1_000_000


def test_a_gzip_bomb_is_small_until_it_is_inflated(target: Target) -> None:
    with requests.get(target.url("/gzip-bomb?bytes=10000000"), stream=True, timeout=PATIENCE) as r:
        assert r.headers["Content-Encoding"] == "gzip"
        packed = r.raw.read(decode_content=False)
    assert len(packed) < 20_000
    assert len(zlib.decompress(packed, wbits=31)) == 10_000_000
    assert len(get(target, "/gzip-bomb?bytes=1000").content) == 1000


def test_a_silent_path_never_answers(target: Target, send: Open) -> None:
    sock = send("/silent", method="POST", body=b"anyone?")
    assert target.wait_for(1)[0].body == b"anyone?"
    assert_nothing_comes(sock)


def test_a_wrong_path_does_not_speak_http(send: Open) -> None:
    with pytest.raises(http.client.BadStatusLine):
        answer(send("/wrong"))


def test_a_redirect_points_where_it_was_told(target: Target) -> None:
    response = get(target, "/redirect?to=http%3A%2F%2F127.0.0.1%2Fx%3Fy%3D1&status=307")
    assert (response.status_code, response.headers["Location"]) == (307, "http://127.0.0.1/x?y=1")
    assert get(target, "/redirect?to=/echo").status_code == 302
    assert get(target, "/redirect?to=/echo", allow_redirects=True).json()["path"] == "/echo"


def test_a_redirect_loop_has_no_end(target: Target) -> None:
    with pytest.raises(requests.TooManyRedirects):
        get(target, "/redirect-loop", allow_redirects=True)


def test_a_closing_path_closes_before_it_answers(target: Target, send: Open) -> None:
    sock = send("/close", method="POST", body=b"read")
    with pytest.raises(http.client.RemoteDisconnected):
        answer(sock)
    assert target.requests[0].body == b"read"


def test_half_a_body_is_less_than_was_promised(send: Open) -> None:
    with pytest.raises(http.client.IncompleteRead) as caught:
        answer(send("/half?bytes=10")).read()
    assert caught.value.partial == b"xxxxx"


def test_a_cookie_is_set(target: Target) -> None:
    assert get(target, "/set-cookie").cookies["flavour"] == "oatmeal"


def test_an_early_close_leaves_the_body_unread(target: Target, send: Open) -> None:
    sock = send("/early-close", method="POST", length=10_000_000)
    assert target.wait_for(1)[0].body == b""
    with pytest.raises(ConnectionResetError):
        sock.recv(1)


def test_a_path_may_be_scripted_with_a_handler(target: Target) -> None:
    def double(received: Received) -> Answer:
        return Answer(status=201, headers={"X-Two": "2"}, body=received.body * 2)

    target.answers("/double", double)
    response = requests.post(target.url("/double?x=1"), data=b"ab", timeout=PATIENCE)
    assert (response.status_code, response.content) == (201, b"abab")
    assert (response.headers["X-Two"], response.headers["Content-Length"]) == ("2", "4")


def test_a_path_may_be_scripted_with_answers_the_last_of_which_is_repeated(target: Target) -> None:
    target.answers("/flaky", [Answer(status=503), Answer(status=429), Answer(body=b"well")])
    assert [get(target, "/flaky").status_code for _ in range(4)] == [503, 429, 200, 200]


def test_a_script_goes_before_what_is_built_in(target: Target) -> None:
    target.answers("/echo", [Answer(body=b"scripted")])
    assert get(target, "/echo").text == "scripted"


def test_a_scripted_answer_may_close_the_connection(target: Target) -> None:
    target.answers("/last", [Answer(headers={"Connection": "close"})])
    with requests.Session() as session:
        for _ in range(2):
            session.get(target.url("/last"), timeout=PATIENCE)
    assert target.connections == 2


def test_waiting_ends_as_soon_as_enough_requests_are_here(target: Target) -> None:
    urls = [target.url(f"/status/{status}") for status in (200, 201, 202, 203)]
    threads = [threading.Thread(target=requests.get, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    waited = target.wait_for(3, timeout=PATIENCE)
    for thread in threads:
        thread.join()
    assert waited == target.requests[:3]
    assert len(target.requests) == 4


def test_waiting_in_vain_says_what_came_instead(target: Target) -> None:
    get(target, "/echo")
    with pytest.raises(AssertionError, match=r"1 of 2 came in 0.01 seconds: \['GET /echo'\]"):
        target.wait_for(2, timeout=0.01)


def test_what_is_not_http_is_turned_away(target: Target, send: Open) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(target.url("/echo").replace("http:", "https:"), timeout=PATIENCE)
    assert drain(send("/echo /echo")) == b""
    assert target.requests == []


def test_a_request_cut_short_is_not_remembered(target: Target, send: Open) -> None:
    sock = send("/echo", method="POST", body=b"ab", length=3)
    sock.shutdown(socket.SHUT_WR)
    assert drain(sock) == b""
    assert target.requests == []


@pytest.mark.parametrize(
    "path",
    [
        "/hold",
        "/silent",
        "/slow?seconds=60",
        "/drip?interval=60",
        "/drip?bytes=100000&interval=0.001",
        "/drip-headers?interval=60",
        f"/huge?bytes={10**15}",
        f"/gzip-bomb?bytes={10**15}",
    ],
)
def test_leaving_ends_a_handler_that_is_busy(stack: ExitStack, path: str) -> None:
    with Target() as target:
        address = ("127.0.0.1", int(target.url("").rpartition(":")[2]))
        sock = stack.enter_context(socket.create_connection(address, timeout=PATIENCE))
        sock.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        target.wait_for(1)
    assert not running()
    drain(sock)


def test_leaving_closes_connections_that_are_idle_or_still_talking(stack: ExitStack) -> None:
    with Target() as target, requests.Session() as session:
        address = ("127.0.0.1", int(target.url("").rpartition(":")[2]))
        mute = stack.enter_context(socket.create_connection(address, timeout=PATIENCE))
        slow = stack.enter_context(socket.create_connection(address, timeout=PATIENCE))
        slow.sendall(b"POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf")
        session.get(target.url("/echo"), timeout=PATIENCE)
        assert running()
        target.stop()
        assert not running()
        assert (drain(mute), drain(slow)) == (b"", b"")
        with pytest.raises(requests.ConnectionError):
            session.get(target.url("/echo"), timeout=PATIENCE)


def test_a_caller_that_gives_up_goes_unnoticed(capfd: pytest.CaptureFixture[str]) -> None:
    paths = [f"/huge?bytes={10**15}", "/drip?interval=0.001&bytes=100000", "/hold", "/echo"]
    with Target() as target:
        address = ("127.0.0.1", int(target.url("").rpartition(":")[2]))
        for count, path in enumerate(paths, start=1):
            with socket.create_connection(address, timeout=PATIENCE) as sock:
                sock.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
                target.wait_for(count)
        target.release()
        assert json.loads(get(target, "/echo").text)["path"] == "/echo"
    assert capfd.readouterr() == ("", "")
