"""Connections that are kept for the next call, and those that had better not be."""

import socket

import pytest

from cronjob.lib import http, wire
from tests.lib.peers import OK, PATIENCE, Peer, WatchedClient, read_head, request, saying
from tests.target import Target


@pytest.fixture
def target():
    with Target() as target:
        yield target


@pytest.fixture(params=[http.Client, WatchedClient])
def client(request):
    client = request.param(allow=[], deny=[], pool=16)
    yield client
    client.close()


def test_a_connection_that_was_closed_meanwhile_is_not_used(client):
    with Peer(saying(OK)) as peer:
        for number in (1, 2):
            peer.ended.clear()
            assert client.send(request(peer.url, "POST", body=b"x")).body == b"ok"
            assert peer.connections == number
            assert peer.ended.wait(PATIENCE)


def test_a_connection_that_says_something_unasked_is_not_used(client):
    with Peer(saying(OK + OK, OK)) as peer:
        assert client.send(request(peer.url)).body == b"ok"
        assert client.send(request(peer.url)).body == b"ok"
        assert peer.connections == 2


def unheard(sock):
    """Answer once, and hang up on the next request."""
    read_head(sock)
    sock.sendall(OK)
    read_head(sock)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_request_that_may_have_been_heard_is_not_repeated(client, method):
    with Peer(unheard) as peer:
        assert client.send(request(peer.url)).code == 200
        reply = client.send(request(peer.url, method))
        assert (reply.kind, reply.sent, peer.connections) == ("connect", True, 1)


def test_a_request_that_may_be_repeated_is_sent_once_more(client):
    with Peer(unheard) as peer:
        assert client.send(request(peer.url)).code == 200
        reply = client.send(request(peer.url, "POST", repeatable=True))
        assert (reply.code, reply.connect_ms is not None, peer.connections) == (200, True, 2)


def test_a_request_is_not_repeated_on_a_new_connection(client):
    with Peer(read_head) as peer:
        reply = client.send(request(peer.url, repeatable=True))
        assert (reply.kind, peer.connections) == ("connect", 1)


class HungUp(http.Line):
    """Hangs up on the first connection after it was found good and before it is used."""

    used = False

    def hold_socket(self, sock):
        super().hold_socket(sock)
        if not self.used:
            sock.shutdown(socket.SHUT_WR)
        self.used = True


def test_a_request_of_which_nothing_left_us_is_sent_again(client):
    with Peer(saying(OK, OK)) as peer:
        assert client.send(request(peer.url)).code == 200
        reply = client.send(request(peer.url, "POST"), HungUp())
        assert (reply.code, peer.connections) == (200, 2)


@pytest.mark.parametrize("limit", ["IDLE_SECONDS", "LIFE_SECONDS"])
def test_a_connection_that_is_too_old_is_not_used(client, target, monkeypatch, limit):
    client.send(request(target.url("/echo")))
    monkeypatch.setattr(wire, limit, 0)
    client.send(request(target.url("/echo")))
    assert target.connections == 2


def test_a_connection_that_nobody_takes_any_more_is_closed(client, monkeypatch):
    with Peer(saying(OK, OK, OK)) as peer:
        client.send(request(peer.url))
        client.tidy()
        client.send(request(peer.url))
        assert peer.connections == 1  # it was young enough
        monkeypatch.setattr(wire, "IDLE_SECONDS", 0)
        client.tidy()
        assert peer.ended.wait(PATIENCE)


def test_no_more_connections_are_kept_than_allowed(target):
    client = http.Client(allow=[], deny=[], pool=1)
    with Peer(saying(OK, OK)) as peer:
        for url in (target.url("/echo"), peer.url, target.url("/echo"), peer.url):
            client.send(request(url))
        assert (target.connections, peer.connections) == (1, 2)
        client.close()
        client.send(request(target.url("/echo")))
        assert target.connections == 2
