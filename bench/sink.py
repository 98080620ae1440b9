"""Answers every call at once and remembers when it came: the target of every measurement.

A path is /<when it is due, in microseconds>/<which job it is>; `/0/…` takes the time from our
header. `/report` tells all arrivals since the last report as [due, arrived, job]; `/count` how many
there are. Prints its port.
"""

import asyncio
import json
import sys
import time
from contextlib import suppress

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
SCHEDULED = b"x-cronjob-scheduled-at: "
arrivals: list[tuple[bytes, float, bytes]] = []


class Sink(asyncio.Protocol):
    slow = 0.0  # seconds until the answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.got = transport, b""

    def data_received(self, data: bytes) -> None:
        self.got += data
        while (end := self.got.find(b"\r\n\r\n")) >= 0:
            head = self.got[:end]
            length = head.lower().find(b"content-length: ")
            size = int(head[length + 16 :].split(b"\r", 1)[0]) if length >= 0 else 0
            if len(self.got) < end + 4 + size:
                return
            self.got = self.got[end + 4 + size :]
            self.answer(head)

    def answer(self, head: bytes) -> None:
        _, due, job = head.split(b" ", 2)[1].split(b"/", 2) if head.count(b"/", 0, 64) > 2 else (
            head.split(b" ", 2)[1], b"", b"",
        )  # fmt: skip
        if job:
            if due == b"0":
                due = head[head.lower().index(SCHEDULED) + len(SCHEDULED) :].split(b"\r", 1)[0]
            arrivals.append((due, time.time(), job))
            if self.slow:
                asyncio.get_running_loop().call_later(self.slow, self.write, ANSWER)
            else:
                self.write(ANSWER)
            return
        told: object = len(arrivals)
        if head.startswith(b"GET /report "):
            told = [(d.decode(), at, j.decode()) for d, at, j in arrivals]
            arrivals.clear()
        body = json.dumps(told).encode()
        self.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def write(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


async def main() -> None:
    Sink.slow = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201  to who started it
    await server.serve_forever()


if __name__ == "__main__":
    with suppress(ImportError):
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(main())
