"""The bare limit: claim, call and settle rows of PostgreSQL in batches, with nothing around it.

No policies, no headers, no masking, no fence, no rescue: what Python, a client and a database can
do at best. CLIENT says which client calls: requests, or urllib3 beneath it.
"""

import os
import queue
import threading
import time

import psycopg
import requests
import urllib3
from calling import VERB, jobs

THREADS, BATCH = 8, 100
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


def work() -> None:
    if os.environ["CLIENT"] == "requests":
        session = requests.Session()
        while True:
            job, url = todo.get()
            answer = session.get(url, timeout=15)
            done.put((job, time.time(), answer.status_code, answer.text))
    pool = urllib3.PoolManager(maxsize=1, retries=False)
    while True:
        job, url = todo.get()
        reply = pool.request("GET", url, timeout=15)
        done.put((job, time.time(), reply.status, reply.data.decode()))


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
