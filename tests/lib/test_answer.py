"""What we read of a head by ourselves is what the standard library reads of it."""

import io
import time
from http import client

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronjob.lib.answer import PLAIN, Answer

NAMES = ["Content-Type", "content-type", "Server", "X-A", "x_1", "Set-Cookie", "Date"]
FRAMING = [
    "Content-Length: 2", "content-length:  2", "Content-Length: 2, 2", "Content-Length: -1",
    "Content-Length: two", "Content-Length:", "Content-Length: 2 ", "Content-Length: ٢",
    "Content-Length: +2", "Content-Length: 0_2", "Transfer-Encoding: chunked",
    "transfer-encoding: CHUNKED", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked ", "Connection: close", "connection: Keep-Alive",
    "Keep-Alive: timeout=5",
]  # fmt: skip
STATUS = [
    "HTTP/1.1 200 OK", "HTTP/1.1 200", "HTTP/1.1 200 ", "HTTP/1.0 200 OK",
    "HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified", "HTTP/1.1 503 Very  busy ",
    "HTTP/1.1 404 Für alle", "HTTP/1.1 999 ?", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created",
    "HTTP/2 200 OK", "http/1.1 200 OK", "ICY 200",
]  # fmt: skip
texts = st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=12)
plain = st.from_regex(r"\A[\t -~]{0,12}\Z")
lines = st.one_of(
    st.sampled_from(FRAMING),
    st.builds("{}: {}".format, st.sampled_from(NAMES), plain),
    st.builds("{}:{}".format, st.sampled_from(NAMES), texts),
    texts,
)


class Sock:
    """What has come by now; the rest comes when it is asked for again."""

    def __init__(self, data):
        self.file = io.BufferedReader(io.BytesIO(data))

    def makefile(self, _mode):
        return self.file


def read(kind, data, method):
    sock = Sock(data)
    answer = kind(sock, method=method)
    try:
        answer.begin()
    except (client.HTTPException, ValueError) as error:
        return type(error)
    names = ("version", "status", "reason", "chunked", "length", "will_close")
    told = {name: getattr(answer, name) for name in names}
    return told, list(answer.headers.items()), sock.file.read()


class Plodding(Answer):
    """By the standard library alone."""

    def begins_plainly(self):
        return False


def same(data, method="GET"):
    ours, right = read(Answer, data, method), read(Plodding, data, method)
    assert ours == right, data
    return right


@given(
    st.sampled_from(STATUS), st.lists(lines, max_size=6), st.sampled_from(["\r\n", "\n"]),
    st.sampled_from(["GET", "HEAD"]),
)  # fmt: skip
def test_any_head_is_read_as_the_standard_library_reads_it(status, lines, end, method):
    head = end.join([status, *lines, "", ""])
    same(head.encode("latin-1", "replace") + b"ok and more", method)


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Type: text/plain\r\nContent-Length: 2\r\n",
        b"content-length:2\r\n",
        b"Transfer-Encoding: chunked\r\nServer: x\r\nServer: y\r\n",
        b"X-Odd: \xe9\t \r\nContent-Length: 2\r\n",
    ],
)
def test_heads_as_nearly_all_are_need_no_parser_of_mail(head, monkeypatch):
    data = b"HTTP/1.1 200 OK\r\n" + head + b"\r\nok"
    same(data)
    monkeypatch.setattr(client, "parse_headers", None)
    assert read(Answer, data, "GET")[0]["status"] == 200


def test_a_hundred_headers_are_read_and_more_are_refused_as_ever():
    for number in (98, 99, 100, 101, 150):
        same(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + b"X: y\r\n" * number + b"\r\nok")


@pytest.mark.parametrize(
    "piece", [b" ", b"\t", b"a", b"a:", b": ", b"a: b\r\n", b"\r\n", b"a:\r\n"]
)
def test_no_head_takes_long_to_be_looked_at(piece):
    """Not a figure: what backtracks would take minutes for this."""
    data = b"HTTP/1.1 200 OK\r\nA:" + piece * 200_000 + b"\x00"
    before = time.process_time()
    assert PLAIN.match(data) is None or b"\r\n\r\n" in data
    assert time.process_time() - before < 10
