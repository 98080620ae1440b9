"""Calls others over HTTP: nothing outlasts its deadline, nothing is read past its cap, and any
call can be cut off from another thread at any moment.

The sockets are ours (`wire`), and `http.client` of the standard library reads the answers: neither
requests nor urllib3, for two reasons. Deadline, cap and cut have to hold in every phase, for which
one needs the socket itself, and those keep it behind private hooks. And it is the client that
limits a scheduler: of the CPU that a call costs requests, ours costs a quarter, urllib3 half.

A connection is kept for the next call to its origin, but not for long: whoever sends while the
server hangs up does not know whether he was heard. Where that still happens, a request goes out a
second time only if nothing of the first left us, or if the caller said `repeatable`. The method
does not count: where cron is at home, a GET may well start the payroll.
"""

import logging
import re
import ssl
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from http.client import HTTPException, HTTPMessage, HTTPResponse
from itertools import chain
from socket import gaierror
from time import monotonic
from urllib.parse import urljoin

import certifi

from cronjob.lib import addresses, wire
from cronjob.lib.addresses import Place, Refused
from cronjob.lib.wire import Connection, CutOff, Line, Pool, Stream, left

__all__ = ["Client", "Line", "Reply", "Request"]

logger = logging.getLogger(__name__)

REDIRECTS = (301, 302, 303, 307, 308)
REDIRECTS_MAX = 5
STEP = 65536  # bytes, read or decompressed at once

FRAMING = ("host", "content-length", "transfer-encoding", "connection")  # ours to say
OF_A_BODY = ("content-type", "content-encoding", "content-language", "content-location")
TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
METHOD, HEADER = re.compile(TOKEN), re.compile(TOKEN + r": [^\r\n\0]*")
GZIP, ZLIB, DEFLATE = 31, 15, -15  # how zlib spells the formats
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    connect_seconds: float  # for name, connection and TLS together, on each hop
    total_seconds: float  # from the beginning to the end
    follow_redirects: bool = False
    bytes_max: int  # of the decoded body
    private_headers: tuple[str, ...] = ()  # not for another origin that a redirect leads to
    repeatable: bool = False  # it does no harm if the target gets it twice, see above


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a call. With an error, what had come until then."""

    kind: str = ""  # "" an answer came; else connect | timeout | body | refused
    message: str = ""
    code: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    truncated: bool = False  # more than bytes_max came; the rest was not read
    sent: bool = False  # the target may have seen the request
    cut: bool = False  # we broke it off ourselves
    connect_ms: int | None = None  # 0 on a connection that was kept; None: never connected
    first_byte_ms: int | None = None  # this and the next since the call began
    total_ms: int | None = None


class Failure(Exception):
    """A call ends without a whole answer: the kind, and a line for a person."""


class Stale(Exception):
    """A kept connection was dead after all, and asking again does no harm."""


class Call:
    """A call under way, and what has come of it."""

    def __init__(self, request: Request, line: Line) -> None:
        self.request, self.line = request, line
        self.started = monotonic()
        self.deadline = self.started + request.total_seconds
        self.connecting: float | None = None
        self.sent = self.redirected = False
        self.clear()

    def clear(self) -> None:
        self.first_byte_at: float | None = None
        self.code: int | None = None
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.truncated = False

    def take(self, response: HTTPResponse) -> None:
        """Read the answer as far as its cap."""
        self.code, self.headers = response.status, joined(response.headers)
        most = self.request.bytes_max
        for piece in decoded(response):
            self.body += piece
            if len(self.body) > most:
                self.truncated = True
                del self.body[most:]
                return

    def unconnected(self, error: Exception, place: Place) -> Failure:
        if isinstance(error, TimeoutError):
            seconds = min(self.request.connect_seconds, self.request.total_seconds)
            return Failure("timeout", f"no connection to {place.peer} within {seconds:g} s")
        return Failure("connect", unreached(error, place))

    def unanswered(self, error: Exception, place: Place, stream: Stream) -> Failure:
        silent = stream.first_byte_at is None
        if isinstance(error, TimeoutError):
            what = "answer" if silent else "whole answer"
            return Failure("timeout", f"no {what} came within {self.request.total_seconds:g} s")
        if silent:
            return Failure("connect", f"{place.peer} closed the connection without an answer")
        if self.code is None:
            return Failure("body", f"what {place.peer} answered is not HTTP, or broke off")
        if isinstance(error, zlib.error):
            return Failure("body", "the body is not what its Content-Encoding says")
        return Failure("body", f"the body broke off after {len(self.body)} bytes")

    def note(self, stream: Stream) -> None:
        self.sent = self.sent or stream.written > 0
        self.first_byte_at = stream.first_byte_at

    def reply(self, kind: str, message: str, *, cut: bool = False) -> Reply:
        first, connecting = self.first_byte_at, self.connecting
        return Reply(
            kind=kind,
            message=f"after a redirect: {message}" if kind and self.redirected else message,
            code=self.code,
            headers=self.headers,
            body=bytes(self.body),
            truncated=self.truncated,
            sent=self.sent,
            cut=cut,
            connect_ms=None if connecting is None else round(connecting * 1000),
            first_byte_ms=None if first is None else round((first - self.started) * 1000),
            total_ms=round((monotonic() - self.started) * 1000),
        )


class Client:
    """One per process, shared by its threads. It has no proxies, no cookies and no retries, and
    takes nothing from the environment but OpenSSL's own `SSL_CERT_FILE` and `SSL_CERT_DIR`."""

    def __init__(self, *, allow: Iterable[str], deny: Iterable[str], pool: int) -> None:
        self._guard = addresses.Guard(allow=allow, deny=deny)
        self._pool = Pool(pool)

    @cached_property
    def _tls(self) -> ssl.SSLContext:  # made when first needed: it takes longer than many calls
        context = ssl.create_default_context()  # trusts whom this machine trusts,
        context.load_verify_locations(certifi.where())  # which may be nobody in a container
        context.set_alpn_protocols(["http/1.1"])
        return context

    def close(self) -> None:
        self._pool.close()

    def send(self, request: Request, line: Line | None = None) -> Reply:
        """Make the call. Never raises, whatever happens."""
        call = Call(request, line or Line())
        kind = message = ""
        try:
            self._follow(call)
        except Failure as failure:
            kind, message = failure.args
        except CutOff:
            kind = "connect"
        except Refused as refused:
            kind, message = "refused", str(refused)
        except Exception as error:
            logger.exception("a call failed in an unforeseen way")
            kind, message = "connect", f"an error of our own: {type(error).__name__}"
        if kind and call.line.is_cut:  # whatever the error was, that was the reason
            return call.reply("body" if call.code else "connect", "cut off", cut=True)
        return call.reply(kind, message)

    def _follow(self, call: Call) -> None:
        hop = call.request
        for _ in range(REDIRECTS_MAX + 1):
            if call.line.is_cut:
                raise CutOff
            self._exchange(call, hop, addresses.locate(hop.url))
            code = call.code
            to = next((v for n, v in call.headers.items() if n.lower() == "location"), "")
            if not (hop.follow_redirects and code in REDIRECTS and to):
                return
            call.redirected = True
            call.clear()
            hop = redirected(hop, code, to)
        raise Refused(f"more than {REDIRECTS_MAX} redirects")

    def _exchange(self, call: Call, hop: Request, place: Place) -> None:
        data = composed(hop, place)
        if kept := self._pool.take(place.origin):
            call.connecting = call.connecting or 0.0
            with suppress(Stale):
                return self._talk(call, kept, hop.method, data)
        self._talk(call, self._connect(call, place), hop.method, data)

    def _connect(self, call: Call, place: Place) -> Connection:
        began = monotonic()
        deadline = min(call.deadline, began + call.request.connect_seconds)
        try:
            found = addresses.resolve(place, seconds=left(deadline), hold=call.line.hold)
            self._guard.check(place.host, found)
            sock = wire.dial(found, deadline, call.line)
            if place.scheme == "https":
                sock = wire.encrypt(sock, self._tls, place.host, deadline, call.line)
        except OSError as error:
            raise call.unconnected(error, place) from error
        call.connecting = (call.connecting or 0.0) + monotonic() - began
        return Connection(sock, place)

    def _talk(self, call: Call, connection: Connection, method: str, data: bytes) -> None:
        stream, whole = connection.stream, False
        try:
            call.line.hold_socket(stream.sock)
            stream.restart(deadline=call.deadline)
            heard = send(stream, data, deadline=call.deadline)
            response = connection.answer(method)
            call.take(response)
            if call.line.let_go():  # a body without a length looks whole when it was cut
                raise CutOff
            whole = heard and not (call.truncated or response.will_close or response.status == 101)
        except (OSError, HTTPException, zlib.error) as error:
            if connection.reused and may_repeat(call, stream, error):
                raise Stale from error
            raise call.unanswered(error, connection.place, stream) from error
        finally:
            call.line.let_go()
            call.note(stream)
            if whole:
                self._pool.keep(connection)
            else:
                connection.close()


def send(stream: Stream, data: bytes, *, deadline: float) -> bool:
    """Send the request; False if the other side did not want to hear all of it."""
    try:
        stream.send(data, deadline=deadline)
    except ConnectionError:
        if not stream.written:
            raise
        return False  # it may have said why before it hung up, such as 413
    return True


def may_repeat(call: Call, stream: Stream, error: Exception) -> bool:
    """A kept connection broke before any answer, and nobody can be called twice who minds it."""
    unheard = call.request.repeatable or not stream.written
    silent = stream.first_byte_at is None and not isinstance(error, TimeoutError)
    return unheard and silent and not call.line.is_cut


def composed(hop: Request, place: Place) -> bytes:
    given = {name.lower(): f"{name}: {value}" for name, value in hop.headers.items()}
    lines = [line for name, line in given.items() if name not in FRAMING]
    if "accept-encoding" not in given:
        lines.append("Accept-Encoding: gzip, deflate")
    if hop.body or hop.method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(hop.body)}")
    if not METHOD.fullmatch(hop.method):
        raise Refused("the method is not one that can be sent")
    if not all(map(HEADER.fullmatch, lines)):
        raise Refused("a header holds what none can hold, such as a line break")
    start = f"{hop.method} {place.path} HTTP/1.1"
    text = "\r\n".join([start, f"Host: {place.peer}", *lines, "", ""])
    try:
        return text.encode("latin-1") + hop.body
    except UnicodeEncodeError as error:
        raise Refused("a header holds characters that are not in latin-1") from error


def redirected(hop: Request, code: int, to: str) -> Request:
    """What a browser would send next."""
    try:
        url = urljoin(hop.url, to.encode("latin-1").decode())
    except ValueError as error:
        raise Refused("the URL is not one that can be called") from error
    method, body, dropped = hop.method, hop.body, set[str]()
    if (code == 303 and method != "HEAD") or (code in (301, 302) and method == "POST"):
        method, body = "GET", b""
        dropped.update(OF_A_BODY)
    if addresses.locate(url).origin != addresses.locate(hop.url).origin:
        dropped.update(name.lower() for name in hop.private_headers)
    headers = {name: value for name, value in hop.headers.items() if name.lower() not in dropped}
    return replace(hop, url=url, method=method, body=body, headers=headers)


def joined(message: HTTPMessage) -> dict[str, str]:
    """The headers with repeated ones on one line, under the name that came first."""
    names: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, value in message.items():
        known = names.setdefault(name.lower(), name)
        text = " ".join(value.split()) if "\n" in value else value  # folded, as once was allowed
        found[known] = f"{found[known]}, {text}" if known in found else text
    return found


def decoded(response: HTTPResponse) -> Iterator[bytes]:
    """The body piece by piece; an encoding we never asked for is left as it is."""
    raw = pieces(response)
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        return inflated(raw, GZIP)
    if encoding == "deflate":
        first = next(raw, b"")  # some send it bare, without the zlib header that belongs to it
        return inflated(chain([first], raw), ZLIB if first[:1] and first[0] & 15 == 8 else DEFLATE)
    return raw


def pieces(response: HTTPResponse) -> Iterator[bytes]:
    if response.status in (204, 304):  # whatever its headers promise
        return
    while piece := response.read1(STEP):
        yield piece
    if response.length:
        raise HTTPException


def inflated(raw: Iterable[bytes], wbits: int) -> Iterator[bytes]:
    inflater, begun = zlib.decompressobj(wbits), False
    for piece in raw:
        while piece:
            if inflater.eof and not piece.startswith(GZIP_MAGIC):
                break  # padding
            if inflater.eof:  # gzip may come in several members
                inflater = zlib.decompressobj(wbits)
            begun = True
            yield inflater.decompress(piece, STEP)
            piece = inflater.unconsumed_tail or inflater.unused_data
    while rest := inflater.decompress(b"", STEP):
        yield rest
    if begun and not inflater.eof:
        raise zlib.error


def unreached(error: Exception, place: Place) -> str:
    match error:
        case gaierror():
            return f"{place.host} leads to no address: {error.strerror}"
        case ConnectionRefusedError():
            return f"{place.peer} refused the connection"
        case ssl.SSLCertVerificationError():
            return f"the certificate of {place.peer} is not trusted: {error.verify_message}"
        case ssl.SSLError():
            reason = (error.reason or "it hung up").replace("_", " ").lower()
            return f"no TLS with {place.peer}: {reason}"
        case OSError():
            return f"{place.peer} cannot be reached: {error.strerror or 'it hung up'}"
    return f"{place.peer} cannot be reached"
