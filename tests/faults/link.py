"""A wire to PostgreSQL that a test can hold: nothing comes through, and neither end is told."""

import socket
import threading
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit


class Link:
    """Listens on loopback and passes on, while it is `open`, to the Unix socket of a server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.path = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self.open = threading.Event()
        self.open.set()
        self.sockets: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        port = self.listener.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{port}{parts.path}"

    def __enter__(self) -> "Link":
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.open.set()
        for one in (self.listener, *self.sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.path)
                self.sockets += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self.pass_on, args=pair, daemon=True).start()

    def pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                self.open.wait()
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
