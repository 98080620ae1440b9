"""The bare limit: claim, call and settle rows of PostgreSQL in batches, with nothing around it.

No policies, no headers, no masking, no fence, no rescue: what Python, a client and a database can
do at best. CLIENT says which client calls: requests, urllib3 beneath it, or ours, as a scheduler
uses it. AT_ONCE says how many calls there are at most.
"""

import math
import os
import queue
import threading
import time
from collections.abc import Callable
from functools import partial

import psycopg
import requests
import urllib3
from calling import VERB, jobs

AT_ONCE = int(os.environ["AT_ONCE"])
BATCH = max(100, AT_ONCE)
FEW = 4  # threads that make connections of ours
CLAIM = """
UPDATE bare SET state = 1, started = now() FROM (
    SELECT id FROM bare WHERE state = 0 AND due <= now() ORDER BY due, id LIMIT %s
    FOR UPDATE SKIP LOCKED) ready
WHERE bare.id = ready.id RETURNING bare.id, url"""
SETTLE = """
UPDATE bare SET state = 2, ended = to_timestamp(v.ended), code = v.code, body = v.body
FROM unnest(%s::bigint[], %s::float8[], %s::int[], %s::text[]) v(id, ended, code, body)
WHERE bare.id = v.id"""
todo: "queue.SimpleQueue[tuple[int, str]]" = queue.SimpleQueue()
done: "queue.SimpleQueue[tuple[int, float, int, str]]" = queue.SimpleQueue()
Send = Callable[[str], tuple[int, str]]
Tell = Callable[[], object]  # that there is more to do


def by_requests() -> Send:
    session = requests.Session()

    def send(url: str) -> tuple[int, str]:
        answer = session.get(url, timeout=15)
        return answer.status_code, answer.text

    return send


def by_urllib3() -> Send:
    pool = urllib3.PoolManager(maxsize=1, retries=False)

    def send(url: str) -> tuple[int, str]:
        reply = pool.request("GET", url, timeout=15)
        return reply.status, reply.data.decode()

    return send


def in_threads(client: Callable[[], Send]) -> Tell:
    """Each thread has a client of its own, and waits for its answer."""

    def work() -> None:
        send = client()
        while True:
            job, url = todo.get()
            code, body = send(url)
            done.put((job, time.time(), code, body))

    for _ in range(AT_ONCE):
        threading.Thread(target=work, daemon=True).start()
    return lambda: None


def by_ours() -> Tell:
    """One thread waits for all of them, a few make connections; addresses are judged, and each
    call has a deadline and a cap.
    """
    from cronjob.lib.http import Client, Line, Request
    from cronjob.lib.watch import Watch

    client, watch = Client(allow=(), deny=(), pool=AT_ONCE), Watch()
    times = {"connect_seconds": 5.0, "total_seconds": 15.0}
    cold = queue.SimpleQueue()

    def go_on(job, steps, patient=False):
        try:
            while not (stream := next(steps)):
                if not patient:
                    return cold.put((job, steps))
        except StopIteration as end:
            reply = end.value
            return done.put((job, time.time(), reply.code or 0, reply.body.decode()))
        return watch.add(stream, (job, steps))

    def connect():
        while True:
            go_on(*cold.get(), patient=True)
            watch.bell.ring()

    def attend():
        while True:
            for waiting in watch.wait(math.inf):
                go_on(*waiting)
            while not todo.empty():
                job, url = todo.get()
                request = Request(method="GET", url=url, headers={}, bytes_max=65536, **times)
                go_on(job, client.steps(request, Line()))

    for target in (attend, *[connect] * FEW):
        threading.Thread(target=target, daemon=True).start()
    return watch.bell.ring


CALLS = {
    "requests": partial(in_threads, by_requests),
    "urllib3": partial(in_threads, by_urllib3),
    "ours": by_ours,
}


def main() -> None:
    with psycopg.connect(os.environ["PG_URL"], autocommit=True) as connection:
        if VERB == "plant":
            connection.execute(
                "CREATE TABLE bare (id bigserial PRIMARY KEY, due timestamptz, url text,"
                " state int DEFAULT 0, started timestamptz, ended timestamptz, code int, body text)"
            )
            connection.execute("CREATE INDEX ON bare (due, id) WHERE state = 0")
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO bare (due, url) VALUES (%s, %s)", list(jobs()))
            return
        tell = CALLS[os.environ["CLIENT"]]()
        out = 0
        while True:
            if out < BATCH:
                claimed = connection.execute(CLAIM, [BATCH]).fetchall()
                for row in claimed:
                    todo.put(row)
                if claimed:
                    tell()
                out += len(claimed)
            ended = []
            while not done.empty():
                ended.append(done.get())
            if ended:
                out -= len(ended)
                columns = [list(column) for column in zip(*ended, strict=True)]
                connection.execute(SETTLE, columns)
            threading.Event().wait(0.002 if out else 0.02)


if __name__ == "__main__":
    main()
