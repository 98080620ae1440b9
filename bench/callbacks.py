"""Thousands of awaited callbacks, answered by many clients: kept in docs/engine.md."""

import argparse
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psycopg  # noqa: E402

from bench.contenders import ask, ours  # noqa: E402
from bench.ground import pause, say  # noqa: E402
from tests.faults.answering import answered, free_port, url_of  # noqa: E402
from tests.processes import answering, running  # noqa: E402
from tests.target import Target  # noqa: E402

PLANT = """
import sys, django
django.setup()
from cronjob.lib import clock
from runs import trigger
from runs.models import TaskRun
from tests.factories import copy, make_task
count, url, patience = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
task = make_task(
    name=f"answers within {patience}", schedule_kind="MANUAL", exec_type="ASYNC",
    target_url=url, http_method="POST",
    callback_timeout_sec=patience, concurrency_policy="PARALLEL",
)
now = clock.now()
copy(trigger.trigger(task.pk, now=now), count - 1)
"""
LATE = """
import sys, django
django.setup()
from datetime import datetime
from runs.models import TaskRun
due = dict(zip(sys.argv[1::2], sys.argv[2::2]))
ends = TaskRun.objects.filter(pk__in=due).values_list("pk", "status", "end_time")
late = sorted((e - datetime.fromisoformat(due[str(pk)])).total_seconds() for pk, s, e in ends)
assert {s for _, s, _ in ends} == {"FAILED_TIMEOUT"}
print(f"{late[len(late) // 2] * 1000:.0f} / {late[-1] * 1000:.0f} ms")
"""
SWEEP = (
    "EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT id, task_id FROM task_runs"
    " WHERE callback_deadline <= now() ORDER BY callback_deadline, id LIMIT 500"
)

AWAITED = "SELECT id, callback_deadline FROM task_runs WHERE callback_deadline IS NOT NULL"


def until_pending(asked: Any, count: int) -> None:
    while asked.execute(
        "SELECT count(*) FROM task_runs WHERE callback_deadline IS NOT NULL"
    ).fetchone() != (count,):
        pause(0.2)


def measured(count: int, clients: int) -> None:
    with ours().ready() as field, Target() as target:
        bind = f"127.0.0.1:{free_port()}"
        field.variables |= {"CRONJOB_BASE_URL": f"http://{bind}", "CRONJOB_BIND": bind}
        place, variables = field.place, field.quiet
        script = partial(ask, field, sys.executable, "-c")
        web = ("-m", "gunicorn", "-c", "cronjob/gunicorn.conf.py", "cronjob.wsgi")
        two = {"CRONJOB_WEB_PROCESSES": "2"}
        with (
            running(*web, data_dir=place, **variables, **two) as served,
            running("manage.py", "runscheduler", data_dir=place, **variables) as scheduler,
            psycopg.connect(variables["DATABASE_URL"], autocommit=True) as asked,
        ):
            assert answering(f"http://{bind}")
            to = target.url("/status/202")
            script(PLANT, count, to, 3600)
            until_pending(asked, count)
            asked.execute("ANALYZE task_runs")
            plan = asked.execute(SWEEP).fetchall()
            begun = time.monotonic()
            codes = Counter(answered([url_of(call) for call in target.requests], clients=clients))
            seconds = time.monotonic() - begun
            ended = asked.execute("SELECT status, count(*) FROM task_runs GROUP BY 1").fetchall()
            kept = asked.execute(
                "SELECT status, count(*) FROM async_callbacks GROUP BY 1"
            ).fetchall()
            script(PLANT, 200, to, 5)
            until_pending(asked, 200)
            rows = asked.execute(AWAITED).fetchall()
            until_pending(asked, 0)
            due = [text for pk, at in rows for text in (pk, at.isoformat())]
            late = script(LATE, *due).strip()
            served.end()
            scheduler.end()
    say(
        f"{count} awaited callbacks, {clients} clients, gunicorn with 2 processes, PostgreSQL:"
        f" {count / seconds:.0f} a second.\n"
    )
    say(f"Answers: {dict(codes)}. Runs: {dict(ended)}. Kept: {dict(kept)}.\n")
    say(f"200 more that nobody answers end late by (median, worst): {late}.\n")
    say("The sweep, while all of them were awaited:\n\n```")
    say("\n".join(line for (line,) in plan))
    say("```")
    assert (codes, dict(ended)) == ({200: count}, {"CALLBACK_SUCCESS": count})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=50)
    chosen = parser.parse_args()
    measured(chosen.count, chosen.clients)


if __name__ == "__main__":
    main()
