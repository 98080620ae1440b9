"""Does the hot path stay flat? Rounds in a small database and in one that has grown, by turns."""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.contenders import ours  # noqa: E402
from bench.ground import say  # noqa: E402

ROOM = 32  # the slots of a process: what one claim takes
OWNER = "host:1:boot"
DUE = 200  # what the loop materialises and settles in one go
SPAN = timedelta(days=30)  # of history, and of moments ahead
PART = 500_000  # rows planted by one statement
MOST = 2  # how many times the small one's time the big one may take
REST = "poll, nothing to do"
READY = f"poll, {DUE} runs ready"
MADE = f"materialise {DUE} due tasks"
CLAIM = f"claim {ROOM} of {DUE} ready runs"
SETTLE = f"settle {DUE} runs"
BEGIN = f"make {DUE} due tasks and begin them at once"
LISTS = {"list the newest 20 runs": "runs", "list 20 tasks": "tasks"}
FLAT = (REST, READY, CLAIM, SETTLE, *LISTS)

# What a run of some size was asked and answered, some hundred bytes each.
ASKED: dict[str, Any] = {
    "method": "POST", "url": "http://127.0.0.1:9000/warehouse/statistics/synchronise",
    "headers": {
        "Content-Type": "application/json", "User-Agent": "cronjob/1.0",
        "Idempotency-Key": "0" * 36, "X-Cronjob-Task": "statistics", "X-Cronjob-Attempt": "1",
    },
    "body": json.dumps({"run": 1, "since": "2026-01-01T12:00:00Z", "parts": [*range(10)]}),
}  # fmt: skip
ANSWERED: dict[str, Any] = {
    "response_headers": {
        "content-type": "application/json", "content-length": "420", "server": "nginx",
        "date": "Thu, 01 Jan 2026 12:00:00 GMT", "x-request-id": "0" * 32,
    },
    "response_body": json.dumps({"ok": True, "rows": [{"id": n, "done": True} for n in range(16)]}),
    "timings": {"connect_ms": 1, "first_byte_ms": 20, "total_ms": 21},
}  # fmt: skip


# --- one database, in a process of its own -------------------------------------------------------


def inside(tasks: int, runs: int) -> None:
    """Plant, and then a round for each line that comes in."""
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection

    from cronjob.lib import prepared
    from tests.factories import make_api

    settings.ALLOWED_HOSTS = ["testserver"]
    first = plant(tasks, runs)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_size_pretty(pg_database_size(current_database())), version()")
        say(json.dumps(cursor.fetchone()))
    # Pages come from a thread with a connection of its own, which is as one of the web.
    api, web = make_api("read"), ThreadPoolExecutor(1)

    def page(path: str) -> Any:
        return web.submit(api.get, path).result()

    page("tasks")  # the first use of a key is written down
    prepared.enable()  # the next connection is as a scheduler's
    chance = random.Random(1)
    for number, _ in enumerate(sys.stdin):
        if number % 10 == 0:
            prepared.forget()  # a scheduler does so every five seconds
        say(json.dumps(measure(chance.sample(range(first, first + tasks), DUE), page)))


def plant(tasks: int, runs: int, *, owned: int = 0) -> int:
    """Tasks with moments ahead, and final runs of all of them; the id of the first task.

    `owned`: how many of ten runs are that one's.
    """
    from cronjob.lib import clock
    from runs.models import Process
    from tests.factories import make_task

    now = clock.now().replace(microsecond=0)
    alive = dict.fromkeys(("started_at", "last_seen", "lease_until"), now)
    Process.objects.create(name=OWNER, host="host", pid=1, **alive)
    ahead = {"anchor": now + SPAN, "next_run_at": now + SPAN, "next_moment": now + SPAN}
    with hurried() as execute:
        task = make_task(
            every_seconds=SPAN.total_seconds(), target_url=ASKED["url"], http_method="POST",
            headers=ASKED["headers"], body_template=ASKED["body"], tags=["statistics"], **ahead,
        )  # fmt: skip
        at = spread(now + timedelta(hours=1), tasks)
        copies(task, tasks - 1, {"name": "'copy ' || {n}", **dict.fromkeys(ahead, at)})
        if runs:
            plant_runs(task, tasks, runs, owned=owned, now=now)
        execute("VACUUM (ANALYZE)")  # as autovacuum would, in its time
    return task.pk


def plant_runs(task: Any, tasks: int, runs: int, *, owned: int, now: datetime) -> None:
    from tests.factories import make_run

    run = make_run(
        task=task, status="SUCCESS", attempt=1, fence=1, owner=OWNER, lateness_ms=3,
        response_code=200, trace_id="0" * 32, moment=now - SPAN,
        **{f"request_{name}": value for name, value in ASKED.items()}, **ANSWERED,
    )  # fmt: skip
    begun = spread(now - SPAN, runs)
    ended = f"{begun} + interval '21 ms'"
    others = ("moment", "scheduled_time", "due_at", "created_at", "start_time")
    copies(run, runs - 1, {
        "task_id": (
            f"{task.pk} + CASE WHEN mod({{n}}, 10) < {owned} THEN 0 ELSE mod({{n}}, {tasks}) END"
        ),
        "status": "CASE WHEN mod({n}, 11) = 0 THEN 'FAILED' ELSE 'SUCCESS' END",
        "end_time": ended, "updated_at": ended, **dict.fromkeys(others, begun),
    })  # fmt: skip


def spread(first: datetime, number: int) -> str:
    """As SQL: so many moments, evenly over the span."""
    step = SPAN / number // timedelta(microseconds=1)
    return f"(timestamptz '{first.isoformat()}' + {{n}} * interval '{step} microseconds')"


def copies(row: Any, number: int, differing: dict[str, str]) -> None:
    from tests.factories import copy

    begun = time.monotonic()
    for done in range(0, number, PART):
        part = min(PART, number - done)
        copy(row, part, **{k: v.format(n=f"({done} + n)") for k, v in differing.items()})
        spent = time.monotonic() - begun
        tell(f"{row._meta.db_table}: {done + part:,} of {number:,} after {spent:.0f} s")


@contextmanager
def hurried() -> Iterator[Callable[[str], Any]]:
    """What makes planting quick, and is as it was before anything is measured."""
    from django.db import connection

    slack = {"max_wal_size": "'8GB'", "full_page_writes": "off", "autovacuum": "off"}
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        # Its task is not looked up for each of ten million runs: it is there.
        cursor.execute("SET session_replication_role = replica")
        for name, value in slack.items():
            cursor.execute(f"ALTER SYSTEM SET {name} = {value}")
        cursor.execute("SELECT pg_reload_conf()")
        yield cursor.execute
        for name in slack:
            cursor.execute(f"ALTER SYSTEM RESET {name}")
        cursor.execute("SELECT pg_reload_conf()")
        cursor.execute("CHECKPOINT")


def measure(ids: list[int], page: Callable[[str], Any]) -> dict[str, float]:
    """One round of the loop with these tasks, and pages; the milliseconds of each step."""
    from runs.calls import Outcome
    from runs.claim import claim
    from runs.glance import glance
    from runs.materialise import materialise
    from runs.settle import settle
    from tasks.models import Priority, Task

    took: dict[str, float] = {}

    def timed(what: str, verb: Callable[..., Any], *given: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        found = verb(*given, **named)
        took[what] = (time.perf_counter() - begun) * 1000
        return found

    at = timed(REST, glance).now
    Task.objects.filter(pk__in=ids).update(anchor=at, next_moment=at, next_run_at=at)
    now = glance().now
    assert timed(MADE, materialise, now).due.total() == DUE
    seen = timed(READY, glance)
    named: dict[str, Any] = {"owner": OWNER, "room": ROOM, "priorities": [*Priority]}
    claimed = timed(CLAIM, claim, seen.now, **named).runs
    assert len(claimed) == ROOM
    while more := claim(seen.now, **named).runs:
        claimed += more

    def answered(runs: list[Any]) -> list[tuple[Any, Outcome]]:
        known: dict[str, Any] = {"ok": True, "code": 200, "sent": True, **ASKED, **ANSWERED}
        of = [{"run_id": run.pk, "fence": run.fence, "attempt": run.attempt} for run in runs]
        return [(run, Outcome(**which, **known)) for run, which in zip(runs, of, strict=True)]

    assert len(timed(SETTLE, settle, answered(claimed), now=glance().now)) == DUE
    at = glance().now
    Task.objects.filter(pk__in=ids).update(anchor=at, next_moment=at, next_run_at=at)
    begun = timed(BEGIN, materialise, glance().now, owner=OWNER, room=DUE).begun
    assert len(begun) == DUE
    settle(answered(begun), now=glance().now)
    for what, path in LISTS.items():
        assert len(timed(what, page, path).json()["results"]) == 20
    return took


# --- both of them --------------------------------------------------------------------------------


@contextmanager
def planting(tasks: int, runs: int) -> Iterator[subprocess.Popen[str]]:
    """A database of that size on a server of its own, and the process that plants and asks it."""
    with ours().ready() as field:
        command = [sys.executable, __file__, "--inside", str(tasks), str(runs)]
        with subprocess.Popen(
            command, cwd=ROOT, env=field.quiet, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()


def heard(process: subprocess.Popen[str]) -> Any:
    assert process.stdout
    line = process.stdout.readline()
    assert line, "it has ended; what it said is above"
    return json.loads(line)


def ask(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()
    took: dict[str, float] = heard(process)
    return took


def compare(sizes: list[tuple[int, int]], *, warm: int, rounds: int) -> float:
    """By how much the worst of what has to stay flat has grown; all of it is printed."""
    with planting(*sizes[0]) as small, planting(*sizes[1]) as big:
        both = [small, big]
        for (tasks, runs), process in zip(sizes, both, strict=True):
            size, version = heard(process)
            say(f"- {tasks:,} tasks, {runs:,} runs: {size}")
        taken: list[list[dict[str, float]]] = [[], []]
        for number in range(-warm, rounds):
            # Who comes first takes turns, too: the second finds the processor warm.
            for which in (0, 1) if number % 2 else (1, 0):
                took = ask(both[which])
                if number >= 0:
                    taken[which].append(took)
            if (number + 1) % 50 == 0:
                tell(f"{number + 1} of {rounds} rounds")
    server, python = " ".join(version.split()[:2]), platform.python_version()
    say(f"\n{server}, Python {python}, {os.cpu_count()} cores; {rounds} rounds by turns.\n")
    return table(*taken)


def table(small: list[dict[str, float]], big: list[dict[str, float]]) -> float:
    say("| what | small: median / 95 % | big: median / 95 % | big : small |\n|---|---|---|---|")
    grown = {}
    for what in small[0]:
        at, later = ([of(rounds, what, share) for share in (0.5, 0.95)] for rounds in (small, big))
        grown[what] = later[0] / at[0]
        cells = (f"{median:.2f} / {high:.2f} ms" for median, high in (at, later))
        ratios = f"{grown[what]:.2f} / {later[1] / at[1]:.2f}"
        say(f"| {' | '.join((what, *cells, ratios))} |")
    return max(grown[what] for what in FLAT)


def of(rounds: list[dict[str, float]], what: str, share: float) -> float:
    return sorted(took[what] for took in rounds)[int(len(rounds) * share)]


def tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of it")
    parser.add_argument("--inside", nargs=2, type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        return inside(*chosen.inside)
    big = (20_000, 200_000) if chosen.quick else (1_000_000, 10_000_000)
    warm, rounds = (5, 30) if chosen.quick else (20, 300)
    begun = time.monotonic()
    worst = compare([(1000, 0), big], warm=warm, rounds=rounds)
    spent = (time.monotonic() - begun) / 60
    what = "polls, claim, settle and lists"
    say(f"\nThe worst of {what} has grown to {worst:.2f} times; {spent:.1f} min.")
    sys.exit(worst > MOST)


if __name__ == "__main__":
    main()
