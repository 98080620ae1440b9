"""What is asked, what counts as an answer, and where it ends. Sockets are real, on loopback."""

import gzip
import json
import logging
import zlib
from random import Random
from threading import Thread

import pytest

from cronjob.lib import http
from tests.lib.peers import PATIENCE, Peer, WatchedClient, request, saying
from tests.target import Answer, Target

DATA = b"0123456789" * 1000


@pytest.fixture
def target():
    with Target() as target:
        yield target


@pytest.fixture(params=[http.Client, WatchedClient])
def client(request):
    client = request.param(allow=[], deny=[], pool=16)
    yield client
    client.close()


def gzipped(data):
    return gzip.compress(data, mtime=0)  # the same in each process that collects tests


def echoed(client, target, method="GET", **fields):
    return json.loads(client.send(request(target.url("/echo?q=1"), method, **fields)).body)


def answer(client, raw, **fields):
    """The reply to a server that says exactly this, and hangs up."""
    with Peer(saying(raw)) as peer:
        return client.send(request(peer.url, **fields))


def whole(body, *headers):
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers])
    return f"{head}\r\n\r\n".encode() + body


def chunked(*chunks, end=b"0\r\n\r\n"):
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + end


# --- what is sent


def test_a_request_arrives_as_it_was_given(client, target):
    headers = {"X-Colour": "blå", "Content-Type": "text/plain", "User-Agent": "us"}
    seen = echoed(client, target, "PUT", headers=headers, body=b"body")
    assert (seen["method"], seen["query"], seen["body"]) == ("PUT", "q=1", "body")
    assert seen["headers"] == {
        "Host": target.url("").removeprefix("http://"),
        **headers,
        "Accept-Encoding": "gzip, deflate",
        "Content-Length": "4",
    }


@pytest.mark.parametrize(
    ("method", "length"), [("GET", None), ("DELETE", None), ("POST", "0"), ("PUT", "0")]
)
def test_an_empty_body_has_a_length_where_one_is_expected(client, target, method, length):
    assert echoed(client, target, method)["headers"].get("Content-Length") == length


def test_a_task_may_say_what_it_accepts_but_not_where_the_request_ends(client, target):
    lies = {"accept-encoding": "identity", "content-length": "99", "Host": "x", "Connection": "y"}
    told = echoed(client, target, "POST", headers=lies, body=b"abc")["headers"]
    assert (told["accept-encoding"], told["Content-Length"]) == ("identity", "3")
    assert "Accept-Encoding" not in told
    assert "Connection" not in told
    assert told["Host"] != "x"


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"X-A": "1\r\nX-B: 2"}},
        {"headers": {"X-A": "1\n2"}},
        {"headers": {"X-A: 1\r\nX-B": "2"}},
        {"headers": {"": "1"}},
        {"headers": {"X-A": "日本"}},
        {"headers": {"X-A": "1\r\n 2"}},  # folded, which some take for two lines
        {"headers": {"Transfer-Encoding ": "chunked"}},
        {"headers": {"X-A": "1\0"}},
        {"method": "GET / HTTP/1.1\r\nX: y"},
    ],
)
def test_what_would_be_read_as_something_else_is_not_sent(client, target, fields):
    reply = client.send(request(**({"url": target.url("/echo")} | fields)))
    assert (reply.kind, reply.sent) == ("refused", False)
    assert target.connections == 0


def test_nothing_of_the_environment_is_used(monkeypatch, tmp_path, target):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login u password p")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    client = http.Client(allow=[], deny=[], pool=1)
    client.send(request(target.url("/set-cookie")))
    told = echoed(client, target)["headers"]
    assert "Authorization" not in told
    assert "Cookie" not in told
    client.close()


# --- what comes back


def test_an_answer_is_told_as_it_came(client, target):
    reply = client.send(request(target.url("/status/503?retry_after=7&body=busy")))
    assert (reply.kind, reply.message, reply.code, reply.body) == ("", "", 503, b"busy")
    assert reply.headers == {"Content-Length": "4", "Retry-After": "7"}
    assert (reply.sent, reply.cut, reply.truncated) == (True, False, False)
    assert 0 <= reply.connect_ms <= reply.first_byte_ms <= reply.total_ms < 1000 * PATIENCE


def test_repeated_headers_are_joined_and_folded_ones_unfolded(client):
    reply = answer(client, whole(b"", "X-A: 1", "X-B: b\r\n  c", "x-a: 2", "X-Umlaut: \xe4"))
    assert reply.headers["X-A"] == "1, 2"
    assert reply.headers["X-B"] == "b c"
    assert "x-a" not in reply.headers


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [("HEAD", "/huge?bytes=99", 200), ("GET", "/status/204", 204), ("GET", "/status/304", 304)],
)
def test_an_answer_without_a_body_leaves_the_connection_for_the_next(
    client, target, method, path, code
):
    reply = client.send(request(target.url(path), method))
    assert (reply.kind, reply.code, reply.body) == ("", code, b"")
    assert client.send(request(target.url("/echo"))).code == 200
    assert target.connections == 1


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (chunked(b"abc", b"defg"), b"abcdefg"),
        (chunked(b"abc", end=b"0\r\nX-Trailer: 1\r\n\r\n"), b"abc"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold", b"old"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + whole(b"late"), b"late"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + whole(b"later"), b"later"),
        (b"HTTP/1.1 204 Nothing\r\nTransfer-Encoding: chunked\r\n\r\n", b""),
    ],
    ids=["chunks", "trailer", "until the end", "1.0", "100", "103", "204"],
)
def test_however_an_answer_is_framed_it_is_read_whole(client, raw, body):
    reply = answer(client, raw)
    assert (reply.kind, reply.message, reply.body) == ("", "", body)


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        pytest.param("gzip", gzipped(DATA), id="gzip"),
        pytest.param("X-GZIP", gzipped(DATA[:9]) + gzipped(DATA[9:]), id="members"),
        pytest.param("gzip", gzipped(DATA) + b"\0" * 100, id="padded"),
        pytest.param("deflate", zlib.compress(DATA), id="zlib"),
        pytest.param("deflate", zlib.compress(DATA, wbits=-15), id="bare"),
        pytest.param("identity", DATA, id="plain"),
        pytest.param("br", DATA, id="left as it is"),  # we did not ask for it
    ],
)
def test_a_compressed_body_is_unpacked(client, encoding, data):
    header = f"Content-Encoding: {encoding}"
    assert answer(client, whole(data, header)).body == DATA
    in_bits = chunked(*(data[n : n + 7] for n in range(0, len(data), 7)))
    reply = answer(client, in_bits.replace(b"\r\n", f"\r\n{header}\r\n".encode(), 1))
    assert (reply.kind, reply.body) == ("", DATA)
    assert answer(client, whole(b"", header)).kind == ""


@pytest.mark.parametrize("size", [2048, 65536])
def test_no_part_of_a_body_in_members_is_read_twice(client, size):
    """As urllib3 does where a member ends with the piece that is read, hence its own test."""
    rest = bytes(range(256)) * 2
    for first in (b"x" * size, Random(size).randbytes(size)):
        data = gzipped(first) + gzipped(rest)
        assert answer(client, whole(data, "Content-Encoding: gzip")).body == first + rest


def test_urllib3_shows_no_url_in_the_log(client, caplog):
    with caplog.at_level(logging.DEBUG), Peer(saying(b"HTTP/1.1 200 OK\r\n: x\r\n\r\n")) as peer:
        client.send(request(f"{peer.url}?token=secret"))
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("raw", "kind", "code"),
    [
        (b"", "connect", None),
        (b"This is not HTTP.\r\n", "body", None),
        (b"HTTP/1.1 abc\r\n\r\n", "body", None),
        (b"HTTP/2 200\r\n\r\n", "body", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Broken", "body", None),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n", "body", None),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", "body", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "body", 200),
        (chunked(b"abc", end=b""), "body", 200),
        (chunked(b"abc", end=b"5\r\nab"), "body", 200),
        (chunked(b"abc", end=b"nonsense\r\n"), "body", 200),
        (whole(b"not gzip", "Content-Encoding: gzip"), "body", 200),
        (whole(gzipped(DATA)[:-9], "Content-Encoding: gzip"), "body", 200),
        (whole(gzipped(DATA) + gzipped(DATA)[:-9], "Content-Encoding: gzip"), "body", 200),
        (whole(b"\xff\xff\xff", "Content-Encoding: deflate"), "body", 200),
        (whole(zlib.compress(DATA)[:-9], "Content-Encoding: deflate"), "body", 200),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 1\r\n\r\nok", "body", None),
    ],
    ids=[
        "nothing", "not http", "no code", "another version", "half a head", "many headers",
        "a long header", "half a body", "no last chunk", "half a chunk", "no chunk", "not gzip",
        "half of gzip", "half a member", "not deflate", "half of deflate",
        "two lengths",
    ],
)  # fmt: skip
def test_a_broken_answer_is_an_error_that_names_its_part(client, raw, kind, code):
    reply = answer(client, raw)
    assert (reply.kind, reply.code, reply.sent, reply.cut) == (kind, code, True, False)
    assert reply.message
    assert "\n" not in reply.message


def test_what_came_of_a_broken_body_is_kept(client, target):
    reply = client.send(request(target.url("/half?bytes=10")))
    assert (reply.kind, reply.code, reply.body) == ("body", 200, b"xxxxx")
    assert reply.message == "the body broke off after 5 bytes"


def test_an_early_answer_to_a_body_nobody_reads_is_heard(client):
    with Peer(saying(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")) as peer:
        reply = client.send(request(peer.url, "POST", body=bytes(1 << 24)))
    assert (reply.kind, reply.code, reply.body, reply.sent) == ("", 413, b"big", True)


def test_a_body_that_is_thrown_back_is_an_error(client, target):
    reply = client.send(request(target.url("/early-close"), "POST", body=bytes(1 << 24)))
    assert (reply.kind, reply.sent) == ("connect", True)
    assert reply.message.endswith("closed the connection without an answer")


# --- where it ends


@pytest.mark.parametrize(
    "path",
    ["/huge?bytes=50000000", "/huge?bytes=50000000&chunked=1", "/gzip-bomb?bytes=50000000"],
)
def test_no_more_is_read_than_asked_for(client, target, path):
    reply = client.send(request(target.url(path), bytes_max=100_000))
    assert (reply.kind, reply.code, reply.body) == ("", 200, b"x" * 100_000)
    assert reply.truncated
    assert client.send(request(target.url("/echo"))).code == 200
    assert target.connections == 2  # what was left of the first is nobody's answer


@pytest.mark.parametrize("path", ["/huge?bytes=1000", "/huge?bytes=1000&chunked=1"])
def test_exactly_as_much_as_asked_for_is_whole(client, target, path):
    reply = client.send(request(target.url(path), bytes_max=1000))
    assert (reply.truncated, len(reply.body)) == (False, 1000)
    client.send(request(target.url(path), bytes_max=1000))
    assert target.connections == 1


def test_a_call_that_fails_in_an_unforeseen_way_is_an_error_and_logged(client, caplog):
    with caplog.at_level(logging.ERROR):
        reply = client.send(request("http://127.0.0.1/", headers=None))
    assert (reply.kind, reply.message) == ("connect", "an error of our own: TypeError")
    assert "unforeseen" in caplog.text


# --- redirects


def test_a_redirect_is_an_answer_unless_it_is_to_be_followed(client, target):
    url = target.url("/redirect?to=/echo")
    reply = client.send(request(url))
    assert (reply.kind, reply.code, reply.headers["Location"]) == ("", 302, "/echo")
    assert client.send(request(url, follow_redirects=True)).code == 200
    assert [received.path for received in target.requests] == ["/redirect", "/redirect", "/echo"]
    assert target.connections == 1


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        (301, "POST", "GET", b""),
        (302, "POST", "GET", b""),
        (303, "POST", "GET", b""),
        (303, "PUT", "GET", b""),
        (302, "PUT", "PUT", b"body"),
        (307, "POST", "POST", b"body"),
        (308, "PATCH", "PATCH", b"body"),
        (303, "HEAD", "HEAD", b""),
        (302, "GET", "GET", b""),
    ],
)
def test_a_redirect_is_followed_as_a_browser_does(client, target, status, method, then, body):
    url = target.url(f"/redirect?to=/status/200&status={status}")
    headers = {"Content-Type": "text/plain", "X-Ours": "1"}
    sent = b"body" if method not in ("GET", "HEAD") else b""
    assert client.send(request(url, method, headers=headers, body=sent, follow_redirects=True)).code
    last = target.requests[-1]
    assert (last.path, last.method, last.body) == ("/status/200", then, body)
    assert last.headers["X-Ours"] == "1"
    assert ("Content-Type" in last.headers) == (bool(body) or not sent)


def test_another_origin_learns_no_private_header(client, target):
    with Target() as other:
        back = other.url(f"/redirect?to={target.url('/echo')}")
        headers = {"x-TOKEN": "secret", "X-Public": "1"}
        fields = {"headers": headers, "private_headers": ("X-Token",), "follow_redirects": True}
        client.send(request(target.url("/redirect?to=/status/200"), **fields))
        assert target.requests[-1].headers["X-Token"] == "secret"
        target.answers("/away", [Answer(status=302, headers={"Location": back})])
        reply = client.send(request(target.url("/away"), **fields))
        assert "X-Token" not in other.requests[0].headers
        assert other.requests[0].headers["X-Public"] == "1"
        assert "x-TOKEN" not in json.loads(reply.body)["headers"]  # nor does the first, once left


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("ftp://127.0.0.1/x", "does not start with http"),
        ("file:///etc/passwd", "does not start with http"),
        ("http://u:p@127.0.0.1/", "a user or a password"),
        ("http://[::1", "not one that can be called"),
        ("http://169.254.169.254/latest", "169.254.169.254 is link-local"),
    ],
)
def test_a_redirect_to_where_nothing_may_be_called_is_refused(client, target, to, says):
    target.answers("/x", [Answer(status=302, headers={"Location": to})])
    reply = client.send(request(target.url("/x"), follow_redirects=True))
    assert (reply.kind, reply.code, reply.sent) == ("refused", None, True)
    assert reply.message.startswith("after a redirect: ")
    assert says in reply.message


@pytest.mark.parametrize(("status", "body"), [(307, b"the token"), (308, b"the token")])
def test_a_private_body_goes_to_no_other_origin(client, target, status, body):
    with Target() as other:
        to = other.url("/echo")
        url = target.url(f"/redirect?to={to}&status={status}")
        fields = {"body": body, "private_body": True, "follow_redirects": True}
        reply = client.send(request(url, "POST", **fields))
        assert (reply.kind, other.requests) == ("refused", [])
        assert "give away the callback token" in reply.message
        own = target.url(f"/redirect?to=/echo&status={status}")
        assert client.send(request(own, "POST", **fields)).code == 200
        gone = target.url(f"/redirect?to={to}&status=303")  # which sends no body
        assert client.send(request(gone, "POST", **fields)).code == 200


def test_a_redirect_loop_ends_after_five_hops(client, target):
    reply = client.send(request(target.url("/redirect-loop"), follow_redirects=True))
    assert (reply.kind, len(target.requests)) == ("refused", 6)
    assert "more than 5 redirects" in reply.message


# --- shared by threads


def test_threads_share_a_client(client, target):
    target.answers("/mine", lambda received: Answer(body=received.body))
    wrong = []

    def call(number):
        for turn in range(20):
            body = f"{number}.{turn}".encode()
            if client.send(request(target.url("/mine"), "POST", body=body)).body != body:
                wrong.append(body)

    threads = [Thread(target=call, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(target.requests) == 320
    assert target.connections <= 16
