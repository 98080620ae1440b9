"""The engine under load and at rest: what is recorded, how late it starts, what a run costs."""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.processes import environment, run, running  # noqa: E402
from tests.servers import Postgres  # noqa: E402

KEY = {"CRONJOB_SECRET_KEY": "only for a measurement " * 4, "CRONJOB_LOG_LEVEL": "warning"}

PLANT = """
import sys, django
django.setup()
from datetime import timedelta
from cronjob.lib import clock
from tests.factories import make_tasks
count, every, ahead, url = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
first = (clock.now() + timedelta(seconds=ahead)).replace(microsecond=0)
made = {"next_run_at": first, "next_moment": first, "anchor": first, "every_seconds": every}
make_tasks(count - 1, target_url=url, misfire_grace_seconds=3600, **made)
print(first.isoformat())
"""
READ = """
import sys, django
django.setup()
from datetime import datetime, timedelta
from runs.models import TaskRun
first = datetime.fromisoformat(sys.argv[1])
end = first + timedelta(seconds=int(sys.argv[2]))
runs = TaskRun.objects.filter(moment__gte=first, moment__lt=end)
late = sorted(runs.exclude(lateness_ms=None).values_list("lateness_ms", flat=True))
spans = sum(runs.exclude(missed_count=None).values_list("missed_count", flat=True))
print("SEEN", runs.count(), runs.filter(status="SUCCESS").count(), spans)
print("LATE", *late)
"""


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@contextmanager
def target() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, ROOT / "bench/target.py"], stdout=subprocess.PIPE)
    assert process.stdout
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def database(vendor: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """A new one with default durability, migrated."""
    with tempfile.TemporaryDirectory(prefix="cronjob-bench-") as directory:
        server = Postgres() if vendor == "postgresql" else None
        variables = dict(KEY)
        if server:
            with server.connect() as connection:
                connection.execute("ALTER SYSTEM RESET fsync")
                connection.execute("SELECT pg_reload_conf()")
            variables["DATABASE_URL"] = server.url
        try:
            run("manage.py", "migrate", data_dir=Path(directory), **variables).check_returncode()
            yield Path(directory), variables
        finally:
            if server:
                server.stop()


def script(text: str, *arguments: object, place: Path, variables: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text, *map(str, arguments)], cwd=ROOT, text=True,
        env=environment(place, DJANGO_SETTINGS_MODULE="cronjob.settings", **variables),
        capture_output=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def of(late: list[int], share: float) -> int:
    return late[min(len(late) - 1, int(len(late) * share))]


def steady(vendor: str, *, tasks: int, seconds: int, processes: int) -> str:
    """Every task each second: is every moment recorded once, and how late does it start?"""
    with database(vendor) as (place, variables), target() as url:
        first = script(PLANT, tasks, 1, 6, url, place=place, variables=variables).strip()
        flags = ["runscheduler", "--slots=32", f"--processes={processes}"]
        with running("manage.py", *flags, data_dir=place, **variables) as scheduler:
            pause(6 + seconds + 4)
            cpu = sum(seconds_of(pid) for pid in scheduler.family())
            scheduler.end()
        told = script(READ, first, seconds, place=place, variables=variables).splitlines()
    runs, good, spans = map(int, told[0].split()[1:])
    late = [int(word) for word in told[1].split()[1:]]
    figures = " / ".join(str(of(late, share)) for share in (0.5, 0.99, 1))
    what = f"{tasks} tasks each second for {seconds} s, {vendor}, {processes} process(es)"
    said = f"{runs} of {tasks * seconds} moments recorded, {good} called well, {spans} missed"
    return f"| {what} | {said} | {figures} ms | {cpu / max(good, 1) * 1e6:.0f} µs |"


def seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(vendor: str, *, seconds: int) -> str:
    """One task at a time, due in the future: how late does it start?"""
    with database(vendor) as (place, variables), target() as url:
        first = script(PLANT, 1, 2, 6, url, place=place, variables=variables).strip()
        with running("manage.py", "runscheduler", data_dir=place, **variables) as scheduler:
            pause(6 + seconds)
            scheduler.end()
        told = script(READ, first, seconds, place=place, variables=variables).splitlines()
    late = [int(word) for word in told[1].split()[1:]]
    figures = " / ".join(str(of(late, share)) for share in (0.5, 0.99, 1))
    return f"| one at a time, {len(late)} runs, {vendor} | {told[0][5:]} | {figures} ms | |"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds of each")
    parser.add_argument("--only", choices=["steady", "idle"], help="one of them")
    chosen = parser.parse_args()
    seconds = 10 if chosen.quick else 60
    say(f"Python {platform.python_version()}, {os.cpu_count()} cores.\n")
    say("| what | recorded | late: median, 99 %, worst | CPU a run |\n|---|---|---|---|")
    if chosen.only != "idle":
        for processes in (1, 2):
            say(steady("postgresql", tasks=1000, seconds=seconds, processes=processes))
    if chosen.only != "steady":
        for vendor in ("postgresql", "sqlite"):
            say(idle(vendor, seconds=4 * seconds))


if __name__ == "__main__":
    main()
