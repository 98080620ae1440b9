"""The figures of a process that is no web server, at a port of its own."""

import hmac
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from django.conf import settings

from cronjob.lib import metrics

PATIENCE = 10  # with whoever asks slowly


def start(port: int) -> None:
    """Answer `GET /metrics` until the process ends."""
    # As for the web's own /metrics: without a token only this machine may ask.
    for_all = settings.CRONJOB_METRICS_PUBLIC or settings.CRONJOB_METRICS_TOKEN
    server = Server(("0.0.0.0" if for_all else "127.0.0.1", port), Figures)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


class Server(ThreadingHTTPServer):
    daemon_threads = True


class Figures(BaseHTTPRequestHandler):
    timeout = PATIENCE

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            return self.answer(HTTPStatus.NOT_FOUND, b"The figures are at /metrics.\n")
        if not self.allowed():
            hint = b"Send the CRONJOB_METRICS_TOKEN as a bearer token.\n"
            return self.answer(HTTPStatus.UNAUTHORIZED, hint)
        return self.answer(HTTPStatus.OK, metrics.own_text(), metrics.CONTENT_TYPE)

    def allowed(self) -> bool:
        if settings.CRONJOB_METRICS_PUBLIC or not settings.CRONJOB_METRICS_TOKEN:
            return True
        _, _, given = (self.headers.get("Authorization") or "").partition(" ")
        return hmac.compare_digest(given.encode(), settings.CRONJOB_METRICS_TOKEN.encode())

    def answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """A scrape every few seconds is no news."""
