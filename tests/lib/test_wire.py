"""A call ends by its deadline, or as soon as it is cut, whatever it is waiting for."""

import gzip
import json
import socket
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread, Timer
from time import monotonic

import pytest

from cronjob.lib import http, wire
from tests.lib.peers import (
    PATIENCE,
    Peer,
    Watched,
    WatchedClient,
    certificate,
    full,
    read_head,
    read_on,
    relay,
    request,
)
from tests.target import Target

BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"
MANY = 1 << 25  # bytes, more than the buffers of two sockets hold


@pytest.fixture
def target():
    with Target() as target:
        yield target


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def trusted():
    with tempfile.TemporaryDirectory() as folder:
        yield certificate(Path(folder))


@pytest.fixture(params=[http.Client, WatchedClient])
def client(request, monkeypatch, trusted):
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    client = request.param(allow=[], deny=[], pool=16)
    yield client
    client.close()


@pytest.fixture
def secure(target, trusted, stack):
    """The port at which the target speaks TLS."""
    port = int(target.url("").rpartition(":")[2])
    return stack.enter_context(Peer(relay(port), certificate=trusted)).port


def limited(url, method="GET", **fields):
    return request(url, method, **({"total_seconds": 1.0, "bytes_max": 1 << 30} | fields))


def assert_in_time(reply):
    assert reply.kind == "timeout"
    assert reply.total_ms < 1000 * PATIENCE / 2
    assert reply.message.endswith(" within 1 s")


# --- deadlines


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/silent", None),
        ("/slow?seconds=60", None),
        ("/drip-headers?bytes=9000&interval=0.05", None),
        ("/drip?bytes=9000&interval=0.05", 200),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_answer_that_takes_too_long_is_given_up(client, target, secure, scheme, path, code):
    url = target.url(path) if scheme == "http" else f"https://localhost:{secure}{path}"
    reply = client.send(limited(url))
    assert_in_time(reply)
    assert (reply.code, reply.sent, reply.cut) == (code, True, False)
    assert bool(reply.body) == (code == 200)  # what came until then is kept


def test_chunks_that_drip_are_given_up(client):
    def serve(sock):
        read_head(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        sock.settimeout(0.02)
        while True:
            sock.sendall(b"1\r\nx\r\n")
            try:
                read_on(sock)
            except TimeoutError:
                continue
            return

    with Peer(serve) as peer:
        assert_in_time(client.send(limited(peer.url)))


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    ("head", "endless"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2000),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 2000),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"hi", mtime=0),
            bytes(1 << 16),
        ),
    ],
)
def test_what_never_ends_and_never_pauses_is_given_up(client, trusted, tls, head, endless):
    def serve(sock):
        read_head(sock)
        sock.sendall(head)
        with suppress(OSError):
            while True:
                sock.sendall(endless)

    line = http.Line()
    over = Timer(PATIENCE, line.cut)
    over.start()
    with Peer(serve, certificate=trusted if tls else None) as peer:
        reply = client.send(limited(peer.url), line)
    over.cancel()
    assert not reply.cut
    assert_in_time(reply)


def test_a_request_nobody_reads_is_given_up(client):
    over = Event()
    with Peer(lambda sock: over.wait(PATIENCE)) as peer:
        reply = client.send(limited(peer.url, "POST", body=bytes(MANY)))
        over.set()
    assert_in_time(reply)
    assert reply.sent


def test_connecting_has_a_deadline_of_its_own(client):
    with full() as port:
        reply = client.send(request(f"http://127.0.0.1:{port}/", connect_seconds=1.0))
    assert_in_time(reply)
    assert (reply.sent, reply.connect_ms) == (False, None)
    assert reply.message == f"no connection to 127.0.0.1:{port} within 1 s"


@pytest.mark.parametrize("drips", [False, True])
def test_a_tls_handshake_belongs_to_connecting(client, drips):
    def serve(sock):
        sock.settimeout(0.05 if drips else None)
        for byte in b"\x16\x03\x03\x40\x00" + bytes(1000):  # a record that is long in coming
            try:
                read_on(sock)
            except TimeoutError:
                sock.sendall(bytes([byte]))

    with Peer(serve) as peer:
        url = f"https://127.0.0.1:{peer.port}/"
        reply = client.send(request(url, connect_seconds=1.0))
    assert_in_time(reply)
    assert not reply.sent


def name_server_away(monkeypatch):
    """No name is answered until the event comes."""
    known, over = socket.getaddrinfo, Event()

    def getaddrinfo(*args, flags=0, **kwargs):
        if not flags:
            over.wait(PATIENCE)
        return known(*args, flags=flags, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return over


def test_a_name_server_that_is_away_is_not_waited_for(client, monkeypatch):
    over = name_server_away(monkeypatch)
    reply = client.send(request("http://localhost:1/", connect_seconds=1.0))
    over.set()
    assert_in_time(reply)


def test_a_silent_address_leaves_time_for_the_next(client, target):
    port = int(target.url("").rpartition(":")[2])
    with full() as silent_port:
        found = [(socket.AF_INET, ("127.0.0.1", p)) for p in (silent_port, port)]
        with wire.dial(found, monotonic() + 1, http.Line()) as sock:
            assert sock.getpeername()[1] == port


# --- cutting


def cut(client, url, holds, *, after=None, **fields):
    """The reply to a call that is cut when it waits for the n-th time."""
    line = Watched()
    cutter = Thread(target=line.cut_at, args=(holds,), kwargs={"after": after})
    cutter.start()
    reply = client.send(request(url, **fields), line)
    cutter.join()
    assert (reply.cut, reply.message) == (True, "cut off")
    assert reply.total_ms < 1000 * PATIENCE / 2
    return reply


def test_a_call_that_is_cut_before_it_begins_never_starts(client, target):
    line = http.Line()
    line.cut()
    reply = client.send(request(target.url("/echo")), line)
    assert (reply.kind, reply.cut, reply.sent) == ("connect", True, False)
    client.send(request(target.url("/echo")))
    assert target.connections == 1
    assert len(target.requests) == 1


def test_a_call_is_cut_while_it_asks_for_a_name(client, monkeypatch):
    over = name_server_away(monkeypatch)
    assert not cut(client, "http://localhost:1/", 1).sent
    over.set()


def test_a_call_is_cut_while_it_connects(client):
    with full() as port:
        assert not cut(client, f"http://127.0.0.1:{port}/", 1).sent


def test_a_call_is_cut_while_it_agrees_on_tls(client):
    greeted = Event()

    def serve(sock):
        sock.recv(1)
        greeted.set()
        read_on(sock)

    with Peer(serve) as peer:
        reply = cut(client, f"https://127.0.0.1:{peer.port}/", 2, after=greeted)
        assert peer.ended.wait(PATIENCE)
    assert (reply.kind, reply.sent) == ("connect", False)


def test_a_call_is_cut_while_it_sends(client):
    begun, over = Event(), Event()

    def serve(sock):
        sock.recv(1)
        begun.set()
        over.wait(PATIENCE)

    with Peer(serve) as peer:
        reply = cut(client, peer.url, 2, after=begun, method="POST", body=bytes(MANY))
        over.set()
    assert (reply.kind, reply.sent) == ("connect", True)


@pytest.mark.parametrize("tls", [False, True])
def test_a_call_is_cut_while_it_waits_for_an_answer(client, stack, trusted, tls):
    asked, gone = Event(), Event()

    def serve(sock):
        read_head(sock)
        asked.set()
        read_on(sock)
        gone.set()

    peer = stack.enter_context(Peer(serve, certificate=trusted if tls else None))
    reply = cut(client, peer.url, 3 if tls else 2, after=asked)
    assert (reply.kind, reply.code, reply.sent) == ("connect", None, True)
    assert gone.wait(PATIENCE)  # the target sees it at once


@pytest.mark.parametrize("head", [BODY, ENDLESS], ids=["length", "until the end"])
@pytest.mark.parametrize("tls", [False, True])
def test_a_call_is_cut_while_it_reads_the_body(client, stack, trusted, tls, head):
    reading, gone = Event(), Event()

    def serve(sock):
        read_head(sock)
        sock.sendall(head + bytes(MANY))  # which ends only if most of it was read
        reading.set()
        read_on(sock)
        gone.set()

    peer = stack.enter_context(Peer(serve, certificate=trusted if tls else None))
    reply = cut(client, peer.url, 3 if tls else 2, after=reading, bytes_max=2 * MANY)
    assert (reply.kind, reply.code, reply.sent) == ("body", 200, True)
    assert reply.body
    assert gone.wait(PATIENCE)


def test_cutting_after_the_end_ends_nothing(client, target):
    line = http.Line()
    assert client.send(request(target.url("/echo")), line).code == 200
    line.cut()
    line.cut()
    assert client.send(request(target.url("/echo"))).code == 200
    assert target.connections == 1  # the connection of the first call was left alone


def test_cutting_one_call_at_any_moment_harms_no_other(client, target):
    replies = []

    def call(cuts):
        for _ in range(40):
            line = http.Line()
            cutter = Thread(target=line.cut) if cuts else None
            if cutter:
                cutter.start()
            replies.append((cuts, client.send(request(target.url("/echo")), line)))
            if cutter:
                cutter.join()

    threads = [Thread(target=call, args=(number % 2 == 0,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for cuts, reply in replies:
        assert reply.code == 200 or (cuts and reply.cut)
    assert len(replies) == 320


# --- TLS


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_more_than_a_socket_holds_goes_there_and_back(client, target, secure, scheme):
    body, most = b"".join(b"%08d" % n for n in range(2**20)), 32 * 2**20
    url = target.url("/echo") if scheme == "http" else f"https://127.0.0.1:{secure}/echo"
    for _ in range(2):
        reply = client.send(request(url, "POST", body=body, bytes_max=most))
        assert json.loads(reply.body)["body"] == body.decode()
    assert target.connections == 1


def test_a_trusted_certificate_is_enough_and_its_connection_is_kept(client, target, secure):
    for host in ("localhost", "127.0.0.1", "localhost"):
        assert client.send(request(f"https://{host}:{secure}/echo")).code == 200
    assert target.connections == 2


def test_a_certificate_nobody_vouches_for_is_refused(secure, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    other = http.Client(allow=[], deny=[], pool=1)
    reply = other.send(request(f"https://localhost:{secure}/"))
    assert (reply.kind, reply.sent) == ("connect", False)
    assert "is not trusted" in reply.message


def test_a_certificate_for_another_name_is_refused(client, secure):
    reply = client.send(request(f"https://127.0.0.2:{secure}/"))
    assert (reply.kind, reply.sent) == ("connect", False)
    assert "is not trusted" in reply.message or "refused" in reply.message


def test_a_server_without_tls_is_an_error(client, target):
    reply = client.send(request(target.url("/").replace("http:", "https:")))
    assert (reply.kind, reply.sent) == ("connect", False)
    assert "no TLS with" in reply.message
