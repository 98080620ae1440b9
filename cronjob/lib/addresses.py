"""Where a URL leads: its parts, the addresses behind its name, and whether they may be called."""

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple
from urllib.parse import quote, urlsplit

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Origin = tuple[str, str, int]  # scheme, host and port
Address = tuple[int, tuple[str | int | bytes, ...]]  # a family and what `connect` takes

DEFAULT_PORTS = {"http": 80, "https": 443}
AS_IT_IS = "!$%&'()*+,/:;=?@[]~"  # what a path and a query may hold; `%` starts an escape already
# A URL whose path and query go into the request line as they are; nearly all do.
KEPT = rf"A-Za-z0-9_.{re.escape(AS_IT_IS.replace('?', ''))}-"
PLAIN = re.compile(rf"(https?://[A-Za-z0-9.-]+(?::[0-9]+)?)(/[{KEPT}]*)?(\?[?{KEPT}]*)?")

# Nothing of this is a service somebody would schedule calls to, and some of it hands out secrets.
ALWAYS_REFUSED: dict[Network, str] = {
    ipaddress.ip_network(network): what
    for what, networks in {
        "link-local": ("169.254.0.0/16", "fe80::/10"),
        "a cloud's metadata": (
            "fd00:ec2::254", "fd20:ce::254", "192.0.0.192", "168.63.129.16", "100.100.100.200",
        ),
        "multicast": ("224.0.0.0/4", "ff00::/8"),
        "unspecified": ("0.0.0.0/8", "::/128"),
    }.items()
    for network in networks
}  # fmt: skip

# IPv6 networks whose addresses carry an IPv4 address in their last 32 bits.
CARRIERS = [
    ipaddress.IPv6Network(network)
    for network in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
]
EVERYTHING: list[Network] = [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]


class Refused(Exception):
    """We do not call this."""


class Place(NamedTuple):
    """A URL, taken apart."""

    scheme: str
    host: str
    port: int
    path: str  # with the query, as it goes into the request line

    @property
    def origin(self) -> Origin:
        return self[:3]

    @property
    def peer(self) -> str:
        """Host and port, as a person reads them and `Host` names them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def locate(url: str) -> Place:
    plain = PLAIN.fullmatch(url)
    if not plain:
        return taken_apart(url)
    origin, path, query = plain.groups(default="")
    scheme, host, port, _ = taken_apart(origin)
    return Place(scheme, host, port, f"{path or '/'}{query if query != '?' else ''}")


@lru_cache(maxsize=1024)  # the same few are called over and over
def taken_apart(url: str) -> Place:
    try:
        if re.search(r"[\x00-\x1f\x7f\\]", url):
            raise ValueError("a character that no URL has")
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS:
            raise Refused("the URL does not start with http:// or https://")
        if "@" in parts.netloc:
            raise Refused("the URL holds a user or a password")
        host, port = hostname(parts.hostname or ""), parts.port
        path = quote(parts.path or "/", safe=AS_IT_IS)
        query = quote(parts.query, safe=AS_IT_IS)
    except ValueError as error:
        raise Refused("the URL is not one that can be called") from error
    port = DEFAULT_PORTS[parts.scheme] if port is None else port
    return Place(parts.scheme, host, port, f"{path}?{query}" if query else path)


def hostname(text: str) -> str:
    """The name or address in ASCII; ValueError if it is neither."""
    if ":" in text and "%" not in text:  # a zone means nothing to another machine
        return str(ipaddress.IPv6Address(text))
    name = text.encode("idna").decode().lower()
    if not re.fullmatch(r"[a-z0-9_.-]+", name):
        raise ValueError("a host that is none")
    return name


def resolve(
    place: Place, *, seconds: float, hold: Callable[[Callable[[], object]], object]
) -> list[Address]:
    """All addresses of the host, in the order to try them, or TimeoutError.

    A name server that is away keeps `getaddrinfo` waiting for half a minute, whatever deadline we
    have, so a thread of its own asks. `hold` is given what ends the wait from elsewhere.
    """
    try:  # what is an address already, in whatever spelling, needs nobody to be asked
        return look_up(place, socket.AI_NUMERICHOST)
    except socket.gaierror:
        answers: SimpleQueue[list[Address] | Exception] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(look_up(place))
        except Exception as error:  # it belongs to the caller, who may be gone
            answers.put(error)

    hold(lambda: answers.put(ConnectionAbortedError()))
    Thread(target=ask, name="lookup", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def look_up(place: Place, flags: int = 0) -> list[Address]:
    found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


class Guard:
    """Says which addresses may be called, by CIDRs and host globs of an operator.

    Everything may, but for `ALWAYS_REFUSED`. Of the CIDRs that hold an address the longest decides,
    and DENY if both lists hold it; so `0.0.0.0/0` in ALLOW opens nothing of `ALWAYS_REFUSED`, while
    a CIDR there that is as long as ours, or longer, does. Of the globs that match a host the
    most precise decides likewise, and one in DENY is the end of it, whatever the CIDRs say. A host
    that ALLOW names passes a DENY of everything (`*`, `0.0.0.0/0`, `::/0`), but no longer one: what
    stands behind a name is up to whoever runs its name server.
    """

    def __init__(self, *, allow: Iterable[str], deny: Iterable[str]) -> None:
        self._allowed, self._allowed_hosts = rules(allow)
        self._denied, self._denied_hosts = rules(deny)

    def check(self, host: str, addresses: Iterable[Address]) -> None:
        """Refuse the host if one of its addresses is refused: which one we get is mere luck."""
        for _, (text, *_) in addresses:
            ip = ipaddress.ip_address(str(text))
            for one in meant(ip):
                if reason := self.refusal(host, one):
                    raise Refused(f"{host} may not be called: {reason}")

    def refusal(self, host: str, ip: IP) -> str:
        """Why this may not be called; empty if it may."""
        allowed = longest(self._allowed, ip)
        for network, what in ALWAYS_REFUSED.items():
            if ip in network and allowed < network.prefixlen:
                return f"{ip} is {what}"
        by_name = matching(self._allowed_hosts, host)
        against = matching(self._denied_hosts, host, str(ip))
        if against and against >= by_name:
            return "CRONJOB_TARGETS_DENY names it"
        denied = longest(self._denied, ip)
        if denied < 0 or allowed > denied or (by_name and denied == 0):
            return ""
        return f"{ip} is in CRONJOB_TARGETS_DENY"


def rules(words: Iterable[str]) -> tuple[list[Network], list[str]]:
    """CIDRs and globs apart from each other."""
    networks: list[Network] = []
    globs: list[str] = []
    for word in words:
        try:
            networks += EVERYTHING if word == "*" else [ipaddress.ip_network(word)]
        except ValueError:
            globs.append(word.lower())
    return networks, globs


def longest(networks: Iterable[Network], ip: IP) -> int:
    """The length of the longest prefix that holds the address, -1 if none does."""
    return max((network.prefixlen for network in networks if ip in network), default=-1)


def matching(globs: Iterable[str], *hosts: str) -> int:
    """How much the most precise glob says that matches one of the hosts, 0 if none does."""
    names = [host.rstrip(".") for host in hosts]
    hits = (glob for glob in globs if any(fnmatchcase(name, glob) for name in names))
    return max((1 + len(glob) - glob.count("*") - glob.count("?") for glob in hits), default=0)


def meant(ip: IP) -> list[IP]:
    """The addresses at which packets for this one may arrive; each of them has to be allowed."""
    if ip.version == 4:
        return [ip]
    if ip.ipv4_mapped:  # the kernel speaks IPv4 to it, so no rule for IPv6 is about it
        return [ip.ipv4_mapped]
    found: list[IP] = [ip]
    if ip.sixtofour:
        found.append(ip.sixtofour)
    if ip.teredo:
        found += ip.teredo
    if int(ip) > 0xFFFF and any(ip in network for network in CARRIERS):  # ::1 is just ::1
        found.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return found
