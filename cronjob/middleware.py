"""Before and after every request: its id, whom it comes from, and one line in the log."""

import logging
import re
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from cronjob.lib import masking
from cronjob.lib.log import request_id

logger = logging.getLogger("cronjob.access")
Next = Callable[[HttpRequest], HttpResponse]

WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{8,64}")
QUIET = ("/static/", "/healthz", "/readyz", "/api/v1/healthz", "/api/v1/readyz", "/metrics")

STEP, REST_MOST = 64 * 2**10, 2**20  # of a body that nobody read


def whole_bodies(get_response: Next) -> Next:
    """A body that was answered unread is read all the same, so that the connection lives on.

    The server gives up soon, and closes it: a client that sends the next request at that moment
    sees it fail. What is very large is not worth that.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.META.get("wsgi.input_terminated"):  # else nobody knows where it ends
            with suppress(OSError):  # the client went away, or sent what is no body
                body = request.META["wsgi.input"]
                for _ in range(REST_MOST // STEP):
                    if not body.read(STEP):
                        break
        return response

    return middleware


def request_ids(get_response: Next) -> Next:
    """The caller's X-Request-ID if it is well formed, else one of ours; told in every answer."""

    def middleware(request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        name = given if WELL_FORMED.fullmatch(given) else uuid.uuid4().hex
        mark = request_id.set(name)
        begun = time.monotonic()
        try:
            response = get_response(request)
            response.headers["X-Request-ID"] = name
            access(request, response, seconds=time.monotonic() - begun)
        finally:
            request_id.reset(mark)
        return response

    return middleware


def access(request: HttpRequest, response: HttpResponse, *, seconds: float) -> None:
    if request.path_info.startswith(QUIET) and response.status_code < 500:
        return
    told = {
        "action": "request",
        "method": request.method,
        "path": masking.path(request.path_info),
        "status": response.status_code,
        "latency_ms": round(seconds * 1000, 1),
    }
    # A person is named only where somebody had to know: it is not worth a query.
    if user := request.META.get("cronjob.user") or getattr(request, "_cached_user", None):
        told["user"] = str(user)
    logger.info("request", extra=told)


def proxies(get_response: Next) -> Next:
    """X-Forwarded-* count when a trusted proxy says them, and are taken off otherwise."""

    def middleware(request: HttpRequest) -> HttpResponse:
        meta = request.META
        chain = meta.pop("HTTP_X_FORWARDED_FOR", "")
        scheme = meta.pop("HTTP_X_FORWARDED_PROTO", "")
        host = meta.pop("HTTP_X_FORWARDED_HOST", "")
        forwarded = bool(chain or scheme or meta.get("HTTP_FORWARDED"))
        if trusted(meta.get("REMOTE_ADDR", "")):
            found = nearest_stranger(chain)
            meta["REMOTE_ADDR"] = found or meta["REMOTE_ADDR"]
            if scheme in ("http", "https"):
                meta["wsgi.url_scheme"] = scheme
            if host:
                meta["HTTP_HOST"] = host.split(",")[-1].strip()
            forwarded = forwarded and found is None
        # Who is behind a proxy that does not say, or is not trusted, is unknown; it is not us,
        # though the peer is on this machine.
        meta["cronjob.forwarded"] = forwarded
        return get_response(request)

    return middleware


def nearest_stranger(chain: str) -> str | None:
    """The last address of the chain that is not a trusted proxy; the rest could be invented."""
    found = None
    for address in reversed([part.strip() for part in chain.split(",") if part.strip()]):
        if known(address) is None:
            return None
        found = address
        if not trusted(address):
            break
    return found


def known(address: str) -> IPv4Address | IPv6Address | None:
    """The address as it is meant: an IPv4 peer of an IPv6 listener is an IPv4 address."""
    try:
        ip = ip_address(address)
    except ValueError:
        return None
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip


def trusted(address: str) -> bool:
    ip = known(address)
    networks = settings.CRONJOB_TRUSTED_PROXIES
    return ip is not None and any(ip.version == net.version and ip in net for net in networks)


def local(request: HttpRequest) -> bool:
    """Whether the caller is on this machine, and not merely a proxy that is."""
    ip = known(request.META.get("REMOTE_ADDR", ""))
    return ip is not None and ip.is_loopback and not request.META.get("cronjob.forwarded")


def slashes(get_response: Next) -> Next:
    """Paths are written without a trailing slash; with one they mean the same."""

    def middleware(request: HttpRequest) -> HttpResponse:
        path = request.path_info
        if path.endswith("/") and len(path) > 1 and not path.startswith(("/admin/", "/static/")):
            request.path_info = path.rstrip("/") or "/"
            request.path = request.path.rstrip("/")
        return get_response(request)

    return middleware
