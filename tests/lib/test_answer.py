"""What we read of a head by ourselves is what the standard library reads of it."""

import io
import time
from contextlib import suppress
from http import client

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronjob.lib.answer import HEAD_MOST, PLAIN, Answer, length_of
from cronjob.lib.http import BROKEN, decoded

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


OF_TEN = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n"


@pytest.mark.parametrize(
    ("data", "method", "length"),
    [
        (OF_TEN + b"\r\n", "GET", 49),
        (OF_TEN + b"Server: x\r\n\r\n0123456789HTTP/1.1", "GET", 60),  # what comes unasked, too
        (OF_TEN + b"\r\n", "HEAD", 39),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET", 27),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", "GET", 49),
        (OF_TEN + b"Transfer-Encoding: chunked\r\n\r\n", "GET", None),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            "GET",
            None,
        ),
        (OF_TEN + b"Content-Length: 10\r\n\r\n", "GET", None),
        (
            OF_TEN + b"content-encoding: gzip\r\n\r\n",
            "GET",
            None,
        ),  # it may be a thousand times more
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", "GET", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", "GET", None),
        (b"HTTP/1.1 200 OK\r\n\r\n", "GET", None),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", "GET", None),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", "GET", None),
        (b"HTTP/1.1 200 OK\nContent-Length: 1\n\n", "GET", None),
        (b"nothing of the kind\r\n\r\n", "GET", None),
    ],
)
def test_how_long_an_answer_is_shows_in_its_head_or_only_in_reading(data, method, length):
    assert length_of(data, method=method) == length


def test_an_answer_whose_head_is_not_there_yet_is_longer_than_that():
    head = OF_TEN + b"\r\n"
    for n in range(len(head)):
        told = length_of(head[:n], method="GET")
        assert told is not None
        assert told > n


def test_a_head_that_is_too_long_to_be_read_again_and_again_is_not_waited_for():
    head = OF_TEN + b"X: " + b"x" * HEAD_MOST
    assert length_of(head, method="GET") is None
    assert length_of(head + b"\r\n\r\n", method="GET") is None


@given(
    st.sampled_from(STATUS),
    st.lists(lines, max_size=5),
    st.binary(max_size=30),
    st.sampled_from(["GET", "HEAD"]),
)
def test_what_is_taken_for_whole_needs_nothing_more_to_be_read(status, said, rest, method):
    """Else the one thread that waits for all calls would wait for this one alone."""
    head = "\r\n".join([status, *said, "", ""]).encode("latin-1", "ignore")
    data = head + rest
    length = length_of(data, method=method)
    if length is None or length > len(data):
        return
    sock = Enough(data)
    answer = Answer(sock, method=method)
    with suppress(*BROKEN):
        answer.begin()
        for _ in decoded(answer):
            pass
    assert not sock.asked_for_more


class Enough(io.RawIOBase):
    """A connection on which nothing else comes."""

    def __init__(self, data):
        self.data, self.asked_for_more = data, False

    def makefile(self, _mode):
        return io.BufferedReader(self)

    def readable(self):
        return True

    def readinto(self, buffer):
        piece, self.data = self.data[: len(buffer)], self.data[len(buffer) :]
        self.asked_for_more = self.asked_for_more or not piece
        buffer[: len(piece)] = piece
        return len(piece)
