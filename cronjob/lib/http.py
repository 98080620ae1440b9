"""Calls others over HTTP: nothing outlasts its deadline, nothing is read past its cap, and any
call can be cut off from another thread at any moment.

The standard library reads the answers and urllib3 unpacks them, without its pool and without
requests, which would cost more than all the rest (docs/decisions/0007). The sockets are ours
(`wire`): deadline, cap and cut have to hold in every phase.

A connection is kept for the next call to its origin, but not for long: whoever sends while the
server hangs up does not know whether he was heard. Where that still happens, a request goes out a
second time only if nothing of the first left us, or if the caller said `repeatable`. The method
does not count: where cron is at home, a GET may well start the payroll.
"""

import logging
import re
import socket
import ssl
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import client
from time import monotonic
from typing import Any, cast
from urllib.parse import urljoin

import certifi
from urllib3.exceptions import HTTPError
from urllib3.response import DeflateDecoder, GzipDecoder, GzipDecoderState
from urllib3.util import create_urllib3_context

from cronjob.lib import addresses
from cronjob.lib.addresses import Place, Refused
from cronjob.lib.answer import TEXT, TOKEN, Answer, merged
from cronjob.lib.wire import STEP, CutOff, Line, Pool, Steps, Stream, Wire, dial, left

__all__ = ["Client", "Line", "Reply", "Request"]

logger = logging.getLogger(__name__)
logging.getLogger("urllib3").setLevel(logging.ERROR)  # its warnings show URLs with all they hold

REDIRECTS_MAX = 5
STEP_PACKED = 2048  # of a compressed body, which may be a thousand times as much

FRAMING = ("host", "content-length", "transfer-encoding", "connection")  # ours to say
PACKED = "gzip, deflate"
OURS = (*FRAMING, "accept-encoding")
OF_A_BODY = ("content-type", "content-encoding", "content-language", "content-location")
METHOD, HEADERS = re.compile(TOKEN), re.compile(rf"(?:{TOKEN}: {TEXT}\r\n)*")
DECODERS = {"gzip": GzipDecoder, "x-gzip": GzipDecoder, "deflate": DeflateDecoder}
BODILESS = ("GET", "HEAD", "DELETE", "TRACE", "OPTIONS", "CONNECT")  # unless there is one
REDIRECTS = (301, 302, 303, 307, 308)
# All that may come of an answer.
BROKEN = (OSError, client.HTTPException, HTTPError, zlib.error, ValueError)


@dataclass(slots=True, kw_only=True)
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
    private_body: bool = False  # neither is the body
    repeatable: bool = False  # it does no harm if the target gets it twice, see above


@dataclass(slots=True, kw_only=True)
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
        self.location = ""  # where a redirect leads
        self.body = bytearray()
        self.truncated = False

    def take(self, response: Answer) -> None:
        """Read the answer as far as its cap."""
        self.code, self.headers = response.status, merged(response)
        if self.code in REDIRECTS:
            self.location = response.getheader("Location") or ""
        most = self.request.bytes_max
        for piece in decoded(response):
            self.body += piece
            if len(self.body) > most:
                self.truncated = True
                del self.body[most:]
                return

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

    def may_repeat(self, error: Exception, stream: Stream) -> bool:
        """No answer had begun, and nobody can be called twice who minds it."""
        silent = stream.first_byte_at is None and not isinstance(error, TimeoutError)
        unheard = self.request.repeatable or not stream.written
        return silent and unheard and not self.line.is_cut

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
        context = create_urllib3_context()
        context.load_default_certs()  # whom this machine trusts,
        context.load_verify_locations(certifi.where())  # which may be nobody in a container
        context.set_alpn_protocols(["http/1.1"])  # now: with threads at work it may crash
        return context

    def close(self) -> None:
        self._pool.close()

    def tidy(self) -> None:
        """Close connections that nobody takes any more; to be asked now and then."""
        self._pool.tidy()

    def send(self, request: Request, line: Line | None = None) -> Reply:
        """Make the call, and wait for its answer. Never raises, whatever happens."""
        steps = self.steps(request, line)
        while True:
            try:
                stream = next(steps)
            except StopIteration as end:
                reply: Reply = end.value
                return reply
            if stream:
                with suppress(TimeoutError):  # which is found out by the next step, too
                    stream.ready(stream.wants)

    def steps(self, request: Request, line: Line | None = None) -> Steps[Reply]:
        """The same for whoever waits for many calls at once."""
        call = Call(request, line or Line())
        kind = message = ""
        try:
            yield from self._follow(call)
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

    def _follow(self, call: Call) -> Steps[None]:
        hop = call.request
        for _ in range(REDIRECTS_MAX + 1):
            if call.line.is_cut:
                raise CutOff
            yield from self._exchange(call, hop, addresses.locate(hop.url))
            if not (hop.follow_redirects and call.location):
                return
            code, to, call.redirected = call.code, call.location, True
            call.clear()
            hop = redirected(hop, code, to)
        raise Refused(f"more than {REDIRECTS_MAX} redirects")

    def _exchange(self, call: Call, hop: Request, place: Place) -> Steps[None]:
        request = written(hop, place)  # first: what cannot be sent needs no connection
        if kept := self._pool.take(place.origin):
            call.connecting = call.connecting or 0.0
            if (yield from self._talk(call, kept, hop.method, place, request)):
                return
        yield None
        yield from self._talk(call, self._connect(call, place), hop.method, place, request)

    def _connect(self, call: Call, place: Place) -> Wire:
        began, line = monotonic(), call.line
        deadline = min(call.deadline, began + call.request.connect_seconds)
        try:
            found = addresses.resolve(place, seconds=left(deadline), hold=line.hold)
            self._guard.check(place.host, found)
            sock = dial(found, deadline, line)
            if place.scheme == "https":
                sock = self._encrypt(sock, place.host, deadline, line)
        except TimeoutError as error:
            seconds = min(call.request.connect_seconds, call.request.total_seconds)
            what = f"no connection to {place.peer} within {seconds:g} s"
            raise Failure("timeout", what) from error
        except OSError as error:
            raise Failure("connect", unreached(error, place)) from error
        call.connecting = (call.connecting or 0.0) + monotonic() - began
        return Wire(sock, place.origin)

    def _encrypt(
        self, sock: socket.socket, host: str, deadline: float, line: Line
    ) -> ssl.SSLSocket:
        name = host.rstrip(".")  # no certificate ends a name with its dot
        try:
            sock.settimeout(left(deadline))  # of the handshake as a whole
            # TLS makes another socket of this one; the handle stays, for whoever cuts the line.
            with sock.dup() as handle, line.holding(handle):
                return self._tls.wrap_socket(sock, server_hostname=name)
        except BaseException:
            sock.close()
            raise

    def _talk(
        self, call: Call, wire: Wire, method: str, place: Place, request: bytes
    ) -> Steps[bool]:
        """Ask and listen. False if a kept connection was dead and asking again does no harm."""
        stream, whole = wire.stream, False
        try:
            call.line.hold_socket(stream.sock)
            stream.restart(deadline=call.deadline)
            heard = yield from stream.send(request)
            yield from stream.whole(method)
            response = Answer(cast(socket.socket, wire), method=method)
            response.begin()
            if stream.ended:  # which is taken for the end of the headers
                raise client.HTTPException
            call.take(response)
            if call.line.let_go():  # a body without a length looks whole when it was cut
                raise CutOff
            whole = heard and not (call.truncated or response.will_close or call.code == 101)
        except BROKEN as error:
            if wire.reused and call.may_repeat(error, stream):
                return False
            raise call.unanswered(error, place, stream) from error
        finally:
            call.line.let_go()
            call.sent, call.first_byte_at = call.sent or stream.written > 0, stream.first_byte_at
            if whole:
                self._pool.keep(wire)
            else:
                wire.hang_up()
        return True


def written(hop: Request, place: Place) -> bytes:
    """Head and body leave together; no names and values that others would read differently."""
    headers = headers_of(hop, place)
    if hop.body or hop.method not in BODILESS:
        headers["Content-Length"] = str(len(hop.body))
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if not METHOD.fullmatch(hop.method):
        raise Refused("the method is not one that can be sent")
    if lines.count("\n") != len(headers) or not HEADERS.fullmatch(lines):
        raise Refused("a header holds what none can hold, such as a line break")
    head = f"{hop.method} {place.path} HTTP/1.1\r\n{lines}\r\n"
    return head.encode("latin-1") + hop.body


def headers_of(hop: Request, place: Place) -> dict[str, str]:
    """What goes out with it."""
    names = {name.lower() for name in hop.headers}
    if len(names) == len(hop.headers) and names.isdisjoint(OURS):  # nearly always
        return {"Host": place.peer, "Accept-Encoding": PACKED, **hop.headers}
    chosen = {"accept-encoding": ("Accept-Encoding", PACKED)}
    chosen |= {name.lower(): (name, value) for name, value in hop.headers.items()}
    headers = {"Host": place.peer}
    headers |= dict([pair for name, pair in chosen.items() if name not in FRAMING])
    return headers


def redirected(hop: Request, code: int | None, to: str) -> Request:
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
        if body and hop.private_body:
            raise Refused("a redirect to another origin would give away the callback token")
        dropped.update(name.lower() for name in hop.private_headers)
    headers = {name: value for name, value in hop.headers.items() if name.lower() not in dropped}
    return replace(hop, url=url, method=method, body=body, headers=headers)


def decoded(response: Answer) -> Iterator[bytes]:
    """The body piece by piece; an encoding we never asked for is left as it is.

    urllib3's decoders, but not its `decode_content`: that takes half a compressed body for a whole
    one, and doubles some of a body in several members where one ends with a piece that it reads.
    """
    if response.status in (204, 304):  # whatever its headers promise
        return
    encoding = (response.getheader("Content-Encoding") or "").strip().lower()
    decoder: Any = DECODERS[encoding]() if encoding in DECODERS else None
    came = 0
    while piece := response.read1(STEP_PACKED if decoder else STEP):
        came += len(piece)
        yield decoder.decompress(piece) if decoder else piece
    if response.length:
        raise client.IncompleteRead(b"", response.length)
    if decoder and came:
        padded = getattr(decoder, "_state", None) is GzipDecoderState.SWALLOW_DATA
        if not (padded or decoder._obj.eof):
            raise zlib.error


def unreached(error: OSError, place: Place) -> str:
    match error:
        case socket.gaierror():
            return f"{place.host} leads to no address: {error.strerror}"
        case ConnectionRefusedError():
            return f"{place.peer} refused the connection"
        case ssl.SSLCertVerificationError():
            return f"the certificate of {place.peer} is not trusted: {error.verify_message}"
        case ssl.SSLError():
            reason = (error.reason or "it hung up").replace("_", " ").lower()
            return f"no TLS with {place.peer}: {reason}"
    return f"{place.peer} cannot be reached: {error.strerror or 'it hung up'}"
