"""The API through gunicorn beside a bare view of the same data: see bare.py."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.error import URLError
from urllib.request import Request, urlopen

from bench import ground
from bench.contenders import Field, ask, ours
from bench.ground import PLACE, ROOT, pause, say
from bench.results import Found, spread

TASKS, CLIENTS, WORKERS = 1000, 8, 2
CREATE = (
    '{"name": "made %d", "schedule_kind": "CRON", "cron_expr": "0 3 * * *",'
    ' "target_url": "http://127.0.0.1:9/"}'
)
REPORT = '{"status": "SUCCESS", "message": "done"}'
PLANT = """
import sys, django
django.setup()
from callbacks.target import issue
from runs.models import TaskRun
from tests.factories import copy, make_key, make_run, make_task, make_tasks
tasks, pending = map(int, sys.argv[1:])
make_tasks(tasks - 1, next_run_at=None, schedule_kind="MANUAL", concurrency_policy="PARALLEL")
task = make_task(schedule_kind="MANUAL", exec_type="ASYNC", concurrency_policy="PARALLEL")
waiting = make_run(
    task=task, status="CALLBACK_PENDING", trigger="MANUAL", attempt=1, fence=1,
    template={"asynchronous": True},
)
TaskRun.objects.filter(pk=waiting.pk).update(callback_deadline="2100-01-01T00:00:00Z")
waiting.refresh_from_db()
copy(waiting, pending - 1)
runs = list(TaskRun.objects.filter(task=task).order_by("id"))
tokens = {pk: token for pk, (_, token) in issue(runs).items()}
print(make_key("write"), task.pk - 1)
for pk, token in tokens.items():
    print(pk, token)
"""


@dataclass
class Planted:
    key: str
    task: int
    tokens: list[tuple[str, str]]  # of runs that wait for their callback: id and token


@dataclass
class Asked:
    name: str
    method: str
    paths: list[str]
    body: str = ""


def planted(field: Field, pending: int) -> Planted:
    told = ask(field, sys.executable, "-c", PLANT, TASKS, pending).splitlines()
    key, task = told[0].split()
    return Planted(
        key, int(task), [(pk, token) for pk, _, token in (t.partition(" ") for t in told[1:])]
    )


def asked(there: Planted, part: int, parts: int, *, bare: bool) -> Iterator[Asked]:
    """What is asked of either; each round reports on runs of its own."""
    some = there.tokens[part::parts]
    yield Asked("list of 20 tasks", "GET", ["/api/v1/tasks"])
    yield Asked("one task", "GET", [f"/api/v1/tasks/{there.task - n}" for n in range(100)])
    yield Asked("create", "POST", ["/api/v1/tasks"], CREATE)
    yield Asked(
        "trigger", "POST", [f"/api/v1/tasks/{there.task - n}/trigger" for n in range(100)], "{}"
    )
    yield Asked(
        "callback", "POST", [f"/api/v1/callbacks/{pk if bare else t}" for pk, t in some], REPORT
    )


@contextmanager
def served(
    field: Field, *command: object, key: str, connections: int = CLIENTS // WORKERS,
    **variables: str,
) -> Iterator[str]:  # fmt: skip
    from tests.processes import free_port

    bind = f"127.0.0.1:{free_port()}"
    own = field.variables | {"CRONJOB_BIND": bind, "CRONJOB_LOG_LEVEL": "warning"} | variables
    group = ground.Group()
    try:
        # Else whichever worker wakes first takes most of the connections, and keeps them.
        fair = (f"--bind={bind}", f"--worker-connections={connections}")
        gunicorn = (sys.executable, "-m", "gunicorn", *command, *fair)
        group.start(*gunicorn, variables=own)
        wait_for(Request(f"http://{bind}/api/v1/tasks", headers={"Authorization": f"Bearer {key}"}))
        yield f"http://{bind}"
    finally:
        group.end()


def wait_for(request: Request) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            urlopen(request, timeout=10).close()
            return
        except URLError:
            if time.monotonic() > until:
                raise
            pause(0.2)


def rate(
    url: str, what: Asked, *, key: str, seconds: int, first: int, clients: int = CLIENTS,
    strict: bool = True,
) -> float:  # fmt: skip
    """Answered requests a second; anything but a 2xx is an error of the measurement."""
    paths = PLACE / "paths"
    paths.write_text("\n".join(what.paths))
    told = {
        "PATHS": str(paths),
        "METHOD": what.method,
        "BODY": what.body,
        "KEY": key,
        "FIRST": str(first),
    }
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "-s", ROOT / "bench/wrk.lua", url]
    said = subprocess.run(
        [*map(str, command)],
        env=ground.surroundings(told),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert not (strict and re.search("Non-2xx|Socket errors", said)), f"{what.name}: {said}"
    (done,) = re.findall(r"(\d+) requests in", said)
    (found,) = re.findall(r"Requests/sec: +([\d.]+)", said)
    assert what.name != "callback" or int(done) <= len(what.paths), "more than were waited for"
    return float(found)


def api(quick: bool, rounds: int) -> Found:
    if not shutil.which("wrk"):
        raise SystemExit("The API is measured by wrk: apt-get install wrk")
    seconds = 2 if quick else 6
    pending = 2 * rounds * seconds * 1500
    PLACE.mkdir(parents=True, exist_ok=True)
    measured: dict[str, dict[str, list[float]]] = {}
    contender = ours()
    with contender.ready() as field:
        there = planted(field, pending)
        two = {"CRONJOB_WEB_PROCESSES": str(WORKERS)}
        config = ROOT / "cronjob/gunicorn.conf.py"
        sides: dict[str, tuple[tuple[object, ...], dict[str, str]]] = {
            "Cronjob": (("-c", config, "cronjob.wsgi"), two),
            "bare": (("-c", config, "bench.bare:application"),
                     two | {"DJANGO_SETTINGS_MODULE": "bench.bare_settings"}),
        }  # fmt: skip
        first = 0
        for number in range(rounds):
            for side, (command, variables) in sides.items():
                bare = side == "bare"
                part = 2 * number + bare
                with served(field, *command, key=there.key, **variables) as url:
                    for what in asked(there, part, 2 * rounds, bare=bare):
                        first += 1_000_000
                        found = rate(url, what, key=there.key, seconds=seconds, first=first)
                        measured.setdefault(what.name, {}).setdefault(side, []).append(found)
                        say(f"  round {number + 1}: {side}: {what.name}: {found:.0f}/s")
    result = Found(
        title="The API beside a bare view of the same data",
        said=f"gunicorn with two processes and our settings, {CLIENTS} clients of wrk, as "
        f"many at each process, {TASKS} tasks; the bare view is Django REST framework with a "
        "ModelSerializer: no keys, no rules, no change log. Requests a second, "
        f"medians of {rounds} rounds of {seconds} s that take "
        "turns.",
        head=("request", "Cronjob", "bare", "ours is"),
        unit="times as many as the bare view answers",
    )
    for name, sides_of in measured.items():
        both = sides_of["Cronjob"], sides_of["bare"]
        ratios = [mine / theirs for mine, theirs in zip(*both, strict=True)]
        result.rows.append((name, *map(spread, both), spread(ratios, ".2f")))
        result.bar(f"Cronjob: {name}", ratios)
    return result
