"""What a page of a list costs in SQL when there are a million runs."""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.contenders import ours  # noqa: E402
from bench.ground import pace, pause, say  # noqa: E402
from bench.growth import plant  # noqa: E402

ROUNDS = 25
MOST_ROUNDS = 400  # until so many were good
LOOP = 100_000  # numbers to add before and after each
AT_REST = 1.15  # times longer than usual, a loop
MOST = 5.0  # milliseconds of SQL for a page, its count and what goes with it
CALLBACKS = 5000
HEAVY = ("request_body", "response_body", "body_template")

OWNED = 8  # of ten runs are those of one task
# By what people ask for; {task} owns most runs, {other} one in a thousand of the rest; {old} and
# {new} are times at both ends.
PAGES = {
    "the newest runs": "runs",
    "page 40": "runs?page=40&page_size=200",
    "from a run far down": "runs?before_id={middle}",
    "the runs of a task": "tasks/{task}/runs",
    "of a task, failed": "tasks/{task}/runs?status=FAILED",
    "of a task, in an hour": "tasks/{task}/runs?from={old}&to={old_hour}",
    "of a task, failed, of all times": "tasks/{task}/runs?status=FAILED&from={old}",
    "of a task, that people asked for": "tasks/{task}/runs?trigger=MANUAL",
    "the runs of another task": "tasks/{other}/runs",
    "of another task, failed": "tasks/{other}/runs?status=FAILED",
    "of another task, of all times": "tasks/{other}/runs?from={old}",
    "that failed": "runs?outcome=failure",
    "that are open": "runs?outcome=open",
    "that were canceled (none)": "runs?status=CANCELED",
    "of two states": "runs?status=FAILED&status=TIMEOUT",
    "in the first hour": "runs?from={old}&to={old_hour}",
    "since the last hour": "runs?from={new}",
    "that failed since the last hour": "runs?from={new}&status=FAILED",
    "that failed, of all times": "runs?from={old}&status=FAILED",
    "that ended badly, of all times": "runs?from={old}&outcome=failure",
    "that ended well, of all times": "runs?from={old}&outcome=success",
    "that were missed, of all times (none)": "runs?from={old}&status=MISSED",
    "that are open, of all times": "runs?from={old}&outcome=open",
    "that failed by their schedule": "runs?trigger=SCHEDULE&status=FAILED",
    "by their schedule": "runs?trigger=SCHEDULE",
    "that people asked for": "runs?trigger=MANUAL",
    "that were caught up with (none)": "runs?trigger=CATCH_UP",
    "tasks": "tasks",
    "tasks by name": "tasks?name=copy 99",
    "tasks of a tag": "tasks?tag=statistics",
    "callbacks": "callbacks",
    "callbacks of a task": "callbacks?task_id={task}",
    "one run": "runs/{middle}",
    "why it ran": "tasks/{task}/explain?at={old}",
}


def inside(tasks: int, runs: int, only: str) -> None:
    import django

    django.setup()
    from django.conf import settings

    settings.ALLOWED_HOSTS = ["testserver"]
    first = plant(tasks, runs, owned=OWNED)
    from runs.models import TaskRun
    from tests.factories import make_api

    some(first)
    newest, oldest = TaskRun.objects.latest("id").pk, TaskRun.objects.earliest("id")
    last = TaskRun.objects.order_by("-scheduled_time").values_list("scheduled_time", flat=True)[0]
    api = make_api("read")
    hour = timedelta(hours=1)
    shown = {
        "task": first, "other": first + OWNED, "middle": newest // 2,
        "old": stamp(oldest.scheduled_time), "old_hour": stamp(oldest.scheduled_time + hour),
        "new": stamp(last - hour),
    }  # fmt: skip
    api.get("tasks")  # the first use of a key is written down
    size = f"{tasks:,} tasks, {runs:,} runs, {OWNED} of ten those of one task"
    say(f"{size}, {CALLBACKS:,} callbacks; {ROUNDS} rounds.\n")
    say("| page | rows | queries | SQL: best / median / worst | rounds at the usual pace |")
    say("|---|---|---|---|---|")
    chosen = {
        name: path.format(**shown)
        for name, path in PAGES.items()
        if any(part in name for part in only.split(","))
    }
    worst = max(measured(api, name, path) for name, path in chosen.items())
    say(f"\nThe worst median is {worst:.2f} ms.")
    sys.exit(worst > MOST)


def some(task: int) -> None:
    """A few manual runs, and callbacks."""
    from django.db import connection

    from callbacks.models import AsyncCallback
    from cronjob.lib import clock
    from tests.factories import make_run

    run = make_run(task_id=task, trigger="MANUAL", status="SUCCESS")
    make_run(task_id=task, trigger="MANUAL", status="RUNNING")
    callback = AsyncCallback.objects.create(
        task_run=run, task_id=task, received_at=clock.now(), status="RECEIVED", body="x" * 2000
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO async_callbacks"
            " (task_run_id, task_id, attempt, received_at, status, reason, headers_json, body)"
            " SELECT task_run_id, task_id, attempt, received_at, status, reason, headers_json, body"
            " FROM async_callbacks, generate_series(1, %s) WHERE id = %s",
            [CALLBACKS, callback.pk],
        )
        cursor.execute("ANALYZE")


def timing(took: list[float], asked: list[str]) -> Any:
    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append(sql)
        begun = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            took.append(time.perf_counter() - begun)

    return wrapper


def stamp(at: Any) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def slowest() -> float:
    """The pace of the core that is slowest: we are on one of them, the server on another."""
    ours, found = os.sched_getaffinity(0), []
    try:
        for core in ours:
            os.sched_setaffinity(0, {core})
            found.append(pace(LOOP))
    finally:
        os.sched_setaffinity(0, ours)
    return max(found)


def measured(api: Any, name: str, path: str) -> float:
    """By the rounds in which the machine was itself; of others the next second may say nothing."""
    from django.db import connection

    good, rows, queries, before = [], 0, 0, slowest()
    tried = 0
    while len(good) < ROUNDS and tried < MOST_ROUNDS:
        tried += 1
        took: list[float] = []
        asked: list[str] = []
        with connection.execute_wrapper(timing(took, asked)):
            answer = api.get(path)
        assert answer.status_code == 200, answer.json()
        told = answer.json()
        rows, queries = len(told.get("results", [0])), len(asked)
        listed = "results" in told
        assert not (listed and any(f'"{column}"' in sql for column in HEAVY[:2] for sql in asked))
        after = slowest()
        if max(before, after) < AT_REST:
            good.append(sum(took) * 1000)
        else:
            pause(0.1)
        before = after
    if not good:
        raise SystemExit("This machine is too busy to say what a page costs.")
    median = statistics.median(good)
    told = f"{min(good):.2f} / {median:.2f} / {max(good):.2f} ms"
    say(f"| {name} | {rows} | {queries} | {told} | {len(good)} of {tried} |")
    return median


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of it")
    parser.add_argument(
        "--only", default="", help="pages whose names hold one of these, with commas between"
    )
    parser.add_argument("--inside", nargs=2, type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        return inside(*chosen.inside, chosen.only)
    sizes = (1000, 100_000) if chosen.quick else (1000, 1_000_000)
    begun = time.monotonic()
    with ours().ready() as field:
        command = [sys.executable, __file__, "--inside", *map(str, sizes), "--only", chosen.only]
        done = subprocess.run(command, cwd=ROOT, env=field.quiet, check=False)
    spent = (time.monotonic() - begun) / 60
    say(f"Python {platform.python_version()}, {os.cpu_count()} cores; {spent:.1f} min.")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
