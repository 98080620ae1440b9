"""How gunicorn serves best: its kinds of workers, their threads, and a pool of connections.

One process, so that it does not count how several share their clients. Who sends a body slowly
occupies what reads it; so each kind is also asked while some do.
"""

import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

from bench import ground
from bench.api import asked, planted, rate, served
from bench.contenders import ours
from bench.ground import PLACE, ROOT, Variables, say
from bench.results import Found, spread

CLIENTS, DAWDLERS, MANY = 4, 2, 1000
KINDS: dict[str, tuple[str, Variables]] = {
    "sync": ("sync", {"CRONJOB_WEB_THREADS": "1"}),
    "gthread, 1 thread": ("gthread", {"CRONJOB_WEB_THREADS": "1"}),
    "gthread, 2 threads": ("gthread", {"CRONJOB_WEB_THREADS": "2"}),
    "gthread, 4 threads": ("gthread", {"CRONJOB_WEB_THREADS": "4"}),
    "gthread, 8 threads": ("gthread", {"CRONJOB_WEB_THREADS": "8"}),
    "gthread, 4 threads, a pool of connections": (
        "gthread",
        {"CRONJOB_WEB_THREADS": "4", "DJANGO_SETTINGS_MODULE": "bench.pooled_settings"},
    ),
}
WANTED = ("list of 20 tasks", "one task", "trigger")
BESIDE = f"one task, while {DAWDLERS} dawdle"


@contextmanager
def dawdling(url: str, key: str) -> Iterator[None]:
    """Some who have begun to ask, and do not come to an end."""
    where = urlsplit(url)
    head = (
        f"POST /api/v1/tasks HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    )
    with ExitStack() as stack:
        for _ in range(DAWDLERS):
            sock = socket.create_connection((where.hostname, where.port or 80), timeout=10)
            stack.enter_context(sock).sendall(head.encode())
        ground.pause(0.5)
        yield


def web(quick: bool, rounds: int) -> Found:
    if not shutil.which("wrk"):
        raise SystemExit("The web is measured by wrk: apt-get install wrk")
    PLACE.mkdir(parents=True, exist_ok=True)
    seconds, first = 1 if quick else 4, 0
    measured: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}
    with ours().ready() as field:
        there = planted(field, 1)
        for number in range(rounds):
            for kind, (worker, own) in KINDS.items():
                command = ("-c", ROOT / "cronjob/gunicorn.conf.py", "-k", worker, "cronjob.wsgi")
                own = own | {"CRONJOB_WEB_PROCESSES": "1", "PYTHONPATH": str(ROOT)}
                with served(field, *command, key=there.key, connections=MANY, **own) as url:
                    every = {one.name: one for one in asked(there, 0, 1, bare=False)}
                    for name in (*WANTED, BESIDE):
                        what, first = every.get(name, every["one task"]), first + 1
                        with ExitStack() as stack:
                            if name == BESIDE:
                                stack.enter_context(dawdling(url, there.key))
                            found = rate(
                                url, what, key=there.key, seconds=seconds, first=first,
                                clients=CLIENTS, strict=name != BESIDE,
                            )  # fmt: skip
                        measured[kind].setdefault(name, []).append(found)
                        say(f"  round {number + 1}: {kind}: {name}: {found:.0f}/s")
    result = Found(
        title="Kinds of workers of gunicorn",
        said=f"One process, {CLIENTS} clients of wrk that keep their connections where they may. "
        f"Those who dawdle have sent the beginning of a body. Requests a second, medians of "
        f"{rounds} rounds of {seconds} s that take turns.",
        head=("worker", *WANTED, BESIDE),
        unit="requests a second",
    )
    for kind, rates in measured.items():
        result.rows.append((kind, *(spread(rates[name]) for name in (*WANTED, BESIDE))))
    for name in (*WANTED, BESIDE):
        for kind, rates in measured.items():
            result.bar(f"{name}: {kind}", rates[name])
    return result
