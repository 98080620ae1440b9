"""A day of a task that runs every second, through the real loop: does the process grow?

The clock of the process runs ahead: whenever nothing is left to do, a minute has passed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.ground import by_turns, say, sink  # noqa: E402
from bench.results import Found, spread  # noqa: E402
from tests.servers import Postgres  # noqa: E402

STEP = timedelta(minutes=1)


def kilobytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=86_400, help="how many (%(default)s)")
    runs = parser.parse_args().runs
    server = Postgres()
    with tempfile.TemporaryDirectory() as directory, sink() as target:
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "cronjob.settings", "DATABASE_URL": server.url,
            "CRONJOB_SECRET_KEY": "only for a measurement " * 4, "CRONJOB_DATA_DIR": directory,
            "CRONJOB_LOG_LEVEL": "error", "CRONJOB_LEASE_SECONDS": "8640000", "CRONJOB_DEBUG": "0",
        }  # fmt: skip
        import django

        django.setup()
        simulate(runs, f"{target.url}0/0")
    server.stop()


def claim(quick: bool, rounds: int) -> Found:
    """Each day in a process of its own, which is the one that is looked at."""
    days = by_turns(rounds, {"a day": partial(day, 3600 if quick else 86_400)})["a day"]
    result = Found(
        title="A day of runs",
        said="One task that runs every second, through the real loop, beside a clock that runs "
        f"ahead. Medians of {rounds} days, from the least to the most. At the end of the last: "
        f"{days[-1].told}",
        head=("after runs", "resident, MiB"),
        unit="MiB resident",
    )
    for number in days[0].marks:
        sizes = [one.marks[number] for one in days]
        result.rows.append((number, spread(sizes, ".1f")))
        result.bar(f"Cronjob after {int(number):,} runs", sizes)
    return result


@dataclass
class Day:
    told: str
    marks: dict[str, float]  # after so many runs so many MiB


def day(runs: int) -> Day:
    command = [sys.executable, str(Path(__file__)), f"--runs={runs}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    marks = re.findall(r"^\| (\d+) \| ([\d.]+) \|$", done.stdout, re.MULTILINE)
    assert marks, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return Day(f"{lines[0]} {lines[-1]}", {number: float(size) for number, size in marks})


def simulate(runs: int, url: str) -> None:
    from django.core.management import call_command

    from cronjob.lib import clock, http, prepared
    from cronjob.lib.loop import Loop
    from runs.executor import Executor
    from runs.lease import Lease
    from runs.models import TaskRun
    from runs.scheduler import Scheduler
    from tests.factories import make_task

    call_command("migrate", verbosity=0)
    prepared.enable()
    now = clock.now().replace(microsecond=0)
    clock.read = lambda told: now  # type: ignore[assignment]
    make_task(
        every_seconds=1, anchor=now, next_run_at=now + STEP, target_url=url,
        misfire_grace_seconds=3600, concurrency_policy="PARALLEL",
    )  # fmt: skip
    loop = Loop()
    lease = Lease(slots=16, wake=loop.wake)
    client = http.Client(allow=(), deny=(), pool=16)
    executor = Executor(slots=16, client=client, wake=loop.wake)
    scheduler = Scheduler(loop=loop, lease=lease, executor=executor)
    marks, done = [], 0
    while done < runs:
        rest = scheduler.beat()
        if executor.held:
            loop.wait(0.05)
        elif rest > 0:
            now += STEP
            scheduler.seen = None  # it was of another minute
            done += 60
            if done % max(60, runs // 12 // 60 * 60) == 0:
                marks.append((done, kilobytes()))
    called = TaskRun.objects.filter(status="SUCCESS").count()
    assert called > runs - 150, f"only {called} of {runs} runs were called"
    scheduler.drain()
    client.close()
    say(f"{called} runs called, {threading.active_count()} threads left.\n")
    say("| after runs | resident, MiB |\n|---|---|")
    for number, size in marks:
        say(f"| {number} | {size / 1024:.1f} |")
    grown = (marks[-1][1] - marks[0][1]) / 1024
    say(f"\nGrown by {grown:.1f} MiB from the first mark to the last.")
    sys.exit(grown > 20)


if __name__ == "__main__":
    main()
