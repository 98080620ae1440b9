"""What a URL leads to, and what may be called."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronjob.lib import addresses, http
from cronjob.lib.addresses import Guard, Place, Refused, locate
from tests.lib.peers import request
from tests.target import Target


@pytest.fixture
def target():
    with Target() as target:
        yield target


def refused(address, *, host="", allow=(), deny=()):
    """Why this address may not be called; empty if it may."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        Guard(allow=allow, deny=deny).check(host or address, [(family, (address, 80))])
    except Refused as refusal:
        return str(refusal)
    return ""


# --- URLs


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://svc", Place("http", "svc", 80, "/")),
        ("HTTPS://Svc.Internal./a", Place("https", "svc.internal.", 443, "/a")),
        ("http://svc:8080/a?b=c#d", Place("http", "svc", 8080, "/a?b=c")),
        ("http://svc?b=c", Place("http", "svc", 80, "/?b=c")),
        ("http://svc:/a;b=c/../d", Place("http", "svc", 80, "/a;b=c/../d")),
        (
            "http://svc/a b/ü?q=ü&r=%20[1]",
            Place("http", "svc", 80, "/a%20b/%C3%BC?q=%C3%BC&r=%20[1]"),
        ),
        ("http://bücher.example/", Place("http", "xn--bcher-kva.example", 80, "/")),
        ("http://[::1]:81/", Place("http", "::1", 81, "/")),
        ("http://[0:0:0:0:0:0:0:1]/", Place("http", "::1", 80, "/")),
        ("http://my_host-1/", Place("http", "my_host-1", 80, "/")),
    ],
)
def test_a_url_is_taken_apart(url, place):
    assert locate(url) == place


PIECES = r"""http:// https:// HTTP:// svc Svc.internal :80 : :0 / a .. ? # &b=c %20 % ; @ [1] [::1]
\ ü b'(c) ~_-!$*+,="""
pieces = st.sampled_from([*PIECES.split(), " ", "\t"])


@given(st.lists(pieces, max_size=8).map("".join) | st.from_regex(addresses.PLAIN, fullmatch=True))
def test_a_plain_url_leads_where_it_leads_when_it_is_taken_apart(url):
    found = []
    for read in (locate, addresses.taken_apart):
        try:
            found.append(read(url))
        except Refused as why:
            found.append(str(why))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("place", "peer"),
    [
        (Place("http", "svc", 80, "/"), "svc"),
        (Place("https", "svc", 80, "/"), "svc:80"),
        (Place("http", "::1", 80, "/"), "[::1]"),
        (Place("http", "::1", 81, "/"), "[::1]:81"),
    ],
)
def test_a_peer_is_named_as_in_its_url(place, peer):
    assert place.peer == peer


@pytest.mark.parametrize(
    "url",
    [
        "", "svc", "//svc/", "/path", "http://", "http:///x", "http://:80/", "http://svc:x/",
        "http://svc:65536/", "http://a b/", "http://a\\@b/", "http://svc/\r\nX: y", "http://svc/\0",
        "http://[::1", "http://[::g]/", "http://[fe80::1%25eth0]/", "http://a..b/",
        "http://u:p@svc/", "http://u@svc/", "ftp://svc/", "file:///etc/passwd", "http://a%00b/",
        "http://svc/\ud800", f"http://{'a' * 64}.example/",
    ],
)  # fmt: skip
def test_what_is_no_url_to_call_is_refused(url):
    with pytest.raises(Refused, match="the URL"):
        locate(url)


# --- rules


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.1.2.3", "::1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
        "8.8.8.8", "2001:4860:4860::8888", "fd00::1", "::ffff:127.0.0.1", "192.0.0.193",
        "2002:808:808::1",
    ],
)  # fmt: skip
def test_private_networks_and_loopback_may_be_called_like_any_other(address):
    assert refused(address) == ""


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("169.254.169.254", "link-local"),
        ("169.254.0.1", "link-local"),
        ("fe80::1", "link-local"),
        ("fe80::1%1", "link-local"),
        ("fd00:ec2::254", "metadata"),
        ("fd20:ce::254", "metadata"),
        ("192.0.0.192", "metadata"),
        ("168.63.129.16", "metadata"),
        ("100.100.100.200", "metadata"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.250", "multicast"),
        ("ff02::1", "multicast"),
        ("0.0.0.0", "unspecified"),
        ("::", "unspecified"),
        # The same, dressed up as IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo.
        ("::ffff:169.254.169.254", "link-local"),
        ("::169.254.169.254", "link-local"),
        ("::ffff:0:169.254.169.254", "link-local"),
        ("64:ff9b::169.254.169.254", "link-local"),
        ("64:ff9b:1::169.254.169.254", "link-local"),
        ("2002:a9fe:a9fe::1", "link-local"),
        ("2001:0:a9fe:a9fe::1", "link-local"),
        ("2001:0:808:808:0:0:5601:5601", "link-local"),
    ],
)
@pytest.mark.parametrize(
    "allow", [[], ["*"], ["0.0.0.0/0", "::/0"], ["*.internal", "100.64.0.0/10"]]
)
def test_what_nobody_schedules_calls_to_is_refused_however_it_is_spelled(address, what, allow):
    assert what in refused(address, host="metadata.google.internal", allow=allow)


@pytest.mark.parametrize(
    ("address", "allow"),
    [
        ("169.254.169.254", "169.254.169.254"),
        ("169.254.169.254", "169.254.169.254/32"),
        ("169.254.169.254", "169.254.0.0/16"),
        ("::ffff:169.254.169.254", "169.254.0.0/16"),
        ("100.100.100.200", "100.100.100.200/32"),
        ("fe80::1", "fe80::/10"),
    ],
)
def test_an_exact_cidr_opens_it_all_the_same(address, allow):
    assert refused(address, allow=[allow]) == ""
    assert refused(address, allow=[allow], deny=[allow]) != ""


@pytest.mark.parametrize(
    ("address", "allow", "deny", "may"),
    [
        ("10.1.2.3", [], ["10.0.0.0/8"], False),
        ("11.1.2.3", [], ["10.0.0.0/8"], True),
        ("10.1.2.3", ["10.1.0.0/16"], ["10.0.0.0/8"], True),
        ("10.1.2.3", ["10.0.0.0/8"], ["10.1.0.0/16"], False),
        ("10.1.2.3", ["10.1.2.3"], ["10.1.0.0/16"], True),
        ("10.1.2.3", ["10.0.0.0/8"], ["10.0.0.0/8"], False),
        ("10.1.2.3", ["10.0.0.0/8"], ["*"], True),
        ("11.1.2.3", ["10.0.0.0/8"], ["*"], False),
        ("fd00::1", ["10.0.0.0/8"], ["*"], False),
        ("fd00::1", [], ["0.0.0.0/0"], True),
        ("::1", [], ["0.0.0.0/0"], True),
        ("8.8.8.8", ["10.0.0.0/8"], [], True),  # ALLOW alone forbids nothing
        ("::ffff:10.1.2.3", [], ["10.0.0.0/8"], False),
        ("::ffff:10.1.2.3", ["10.0.0.0/8"], ["*"], True),
        ("64:ff9b::10.1.2.3", [], ["10.0.0.0/8"], False),
    ],
)
def test_the_longest_prefix_decides_and_deny_if_both_are_equal(address, allow, deny, may):
    assert (refused(address, allow=allow, deny=deny) == "") is may


@pytest.mark.parametrize(
    ("host", "allow", "deny", "may"),
    [
        ("a.corp", [], ["*.corp"], False),
        ("a.corp.", [], ["*.CORP"], False),
        ("a.corp", [], ["*.example"], True),
        ("a.corp", ["a.corp"], ["*.corp"], True),
        ("b.corp", ["a.corp"], ["*.corp"], False),
        ("ab.corp", ["a?.corp"], ["*.corp"], True),
        ("a.corp", ["**"], ["?.corp"], False),
        ("a.corp", ["*.corp"], ["*.corp"], False),
        ("a.corp", ["*.corp"], ["*"], True),
        ("a.corp", ["*.corp"], ["0.0.0.0/0", "::/0"], True),
        ("a.example", ["*.corp"], ["*"], False),
        ("a.corp", ["*.corp"], ["10.0.0.0/8"], False),  # what a name leads to is not ours to say
        ("a.corp", ["*.corp", "10.1.0.0/16"], ["10.0.0.0/8"], True),
        ("a.corp", ["10.1.2.3"], ["*.corp"], False),
        ("a.corp", [], ["10.1.*"], False),  # a glob may be meant for an address
        ("a.corp", ["10.1.*"], ["*"], False),
    ],
)
def test_a_host_is_judged_by_the_longest_glob_and_its_address_all_the_same(host, allow, deny, may):
    assert (refused("10.1.2.3", host=host, allow=allow, deny=deny) == "") is may


def test_a_refusal_says_which_rule_it_was():
    said = "a.corp may not be called: 10.1.2.3 is in CRONJOB_TARGETS_DENY"
    assert refused("10.1.2.3", host="a.corp", deny=["10.0.0.0/8"]) == said
    said = "a.corp may not be called: CRONJOB_TARGETS_DENY names it"
    assert refused("10.1.2.3", host="a.corp", deny=["*.corp"]) == said
    said = "a.corp may not be called: 169.254.1.1 is link-local"
    assert refused("169.254.1.1", host="a.corp") == said


def test_one_refused_address_refuses_the_name():
    found = [(socket.AF_INET, ("8.8.8.8", 80)), (socket.AF_INET, ("169.254.169.254", 80))]
    with pytest.raises(Refused):
        Guard(allow=[], deny=[]).check("two-faced.example", found)


# --- at the moment of connecting


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "LocalHost", "１２７。０.0.1",
    ],
)  # fmt: skip
def test_however_an_address_is_spelled_it_is_known_again(target, host):
    url = target.url("/echo").replace("127.0.0.1", host)
    client = http.Client(allow=[], deny=["127.0.0.0/8"], pool=1)
    reply = client.send(request(url))
    assert (reply.kind, reply.sent, reply.code) == ("refused", False, None)
    assert "127.0.0.1 is in CRONJOB_TARGETS_DENY" in reply.message
    assert target.connections == 0


def test_a_name_is_called_at_the_address_that_was_checked(target, monkeypatch):
    """A name server that says something else the second time is not asked a second time."""
    known, asked = socket.getaddrinfo, []

    def getaddrinfo(host, port, *args, **kwargs):
        if host != "rebinding.example":
            return known(host, port, *args, **kwargs)
        if kwargs["flags"]:
            raise socket.gaierror
        asked.append(host)
        return known("127.0.0.1" if len(asked) == 1 else "169.254.169.254", port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    client = http.Client(allow=[], deny=[], pool=1)
    url = target.url("/echo").replace("127.0.0.1", "rebinding.example")
    assert client.send(request(url)).code == 200
    assert client.send(request(url)).code == 200  # on the connection that was checked
    client.close()
    assert asked == ["rebinding.example"]
    assert client.send(request(url)).kind == "refused"


def test_a_name_that_is_not_known_is_an_error_of_connecting():
    client = http.Client(allow=[], deny=[], pool=1)
    reply = client.send(request("http://nowhere.invalid/"))
    assert (reply.kind, reply.sent) == ("connect", False)
    assert reply.message.startswith("nowhere.invalid leads to no address: ")


def test_nobody_is_asked_for_what_is_an_address_already(monkeypatch):
    flags = []
    known = socket.getaddrinfo

    def getaddrinfo(*args, **kwargs):
        flags.append(kwargs["flags"])
        return known(*args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    found = addresses.resolve(locate("http://[::1]:81/"), seconds=1, hold=lambda end: None)
    assert found == [(socket.AF_INET6, ("::1", 81, 0, 0))]
    assert flags == [socket.AI_NUMERICHOST]
