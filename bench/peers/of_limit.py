"""The bare limit: claim, call and settle rows of PostgreSQL in batches, with nothing around it.

No policies, no headers, no masking, no fence, no rescue: what Python, a client and a database can
do at best. CLIENT says which client calls, requests, urllib3 beneath it or ours; in so many
THREADS.
"""

import os
import queue
import threading
import time
from collections.abc import Callable

import psycopg
import requests
import urllib3
from calling import VERB, jobs

THREADS = int(os.environ["THREADS"])
BATCH = max(100, THREADS)
CLAIM = """
UPDATE bare SET state = 1, started = now() FROM (
    SELECT id FROM bare WHERE state = 0 AND due <= now() ORDER BY due, id LIMIT %s
    FOR UPDATE SKIP LOCKED) ready
WHERE bare.id = ready.id RETURNING bare.id, url"""
SETTLE = """
UPDATE bare SET state = 2, ended = to_timestamp(v.ended), code = v.code, body = v.body
FROM unnest(%s::bigint[], %s::float8[], %s::int[], %s::text[]) v(id, ended, code, body)
WHERE bare.id = v.id"""
Send = Callable[[str], tuple[int, str]]
todo: "queue.SimpleQueue[tuple[int, str]]" = queue.SimpleQueue()
done: "queue.SimpleQueue[tuple[int, float, int, str]]" = queue.SimpleQueue()


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


def by_ours() -> Send:
    """As a scheduler does: addresses judged, one deadline for all, no more than a cap."""
    from cronjob.lib.http import Client, Line, Request

    client = Client(allow=(), deny=(), pool=1)
    times = {"connect_seconds": 5.0, "total_seconds": 15.0}

    def send(url: str) -> tuple[int, str]:
        request = Request(method="GET", url=url, headers={}, bytes_max=65536, **times)
        reply = client.send(request, Line())
        return reply.code or 0, reply.body.decode()

    return send


def work() -> None:
    send = {"requests": by_requests, "urllib3": by_urllib3, "ours": by_ours}[os.environ["CLIENT"]]()
    while True:
        job, url = todo.get()
        code, body = send(url)
        done.put((job, time.time(), code, body))


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
        for _ in range(THREADS):
            threading.Thread(target=work, daemon=True).start()
        out = 0
        while True:
            if out < BATCH:
                claimed = connection.execute(CLAIM, [BATCH]).fetchall()
                for row in claimed:
                    todo.put(row)
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
