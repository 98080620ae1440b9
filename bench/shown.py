"""The long form of what is claimed, measured; the last output is kept in docs/shown.md."""

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.lib.test_two_writers import OWN, prepare, write_at_once  # noqa: E402
from tests.processes import environment, origin, run, up  # noqa: E402
from tests.servers import Postgres  # noqa: E402

TASKS = 100_000
TRANSACTIONS = 2000  # of each of two writers

POLL = f"""
import time
import django
django.setup()
from datetime import timedelta
from django.db import connection
from cronjob.lib import clock
from runs.glance import BEGINNING
from runs.materialise import due
from tasks.models import Task
from tests import plans
from tests.factories import make_tasks
now = clock.now()
for part in range(10):  # a statement of PostgreSQL may take five seconds
    make_tasks({TASKS} // 10, prefix=f"part {{part}} ", next_run_at=now + timedelta(days=1))
Task.objects.filter(pk__in=list(Task.objects.values_list("pk", flat=True)[:50])).update(
    next_run_at=now)
with connection.cursor() as cursor:
    cursor.execute("ANALYZE")
asked = []
with connection.execute_wrapper(plans.listening(asked)):
    due(now + timedelta(seconds=1), since=BEGINNING, most=200)
print("PLAN", *plans.indexes(*asked[0]))
begun = time.perf_counter()
for _ in range(100):
    found = due(now + timedelta(seconds=1), since=BEGINNING, most=200)
print("COST", len(found), round((time.perf_counter() - begun) * 10, 2))
"""


@contextmanager
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cronjob-shown-") as directory:
        yield Path(directory)


def start_and_stop() -> Iterator[str]:
    with place() as directory:
        begun = time.monotonic()
        with up(directory) as process:
            ready = time.monotonic() - begun
            begun = time.monotonic()
            code = process.end()
            stopped, left = time.monotonic() - begun, len(process.family())
    yield f"| first start of `up`, from the command to its first answer | {ready:.1f} s |"
    what = f"SIGTERM to the end of everything (exit code {code}, {left} processes left)"
    yield f"| {what} | {stopped:.1f} s |"


def two_writers() -> Iterator[str]:
    with place() as directory:
        prepare(directory)
        begun = time.monotonic()
        locked = write_at_once(directory, transactions=TRANSACTIONS)
        rate = 2 * TRANSACTIONS / (time.monotonic() - begun)
    told = f"`database is locked`: {' + '.join(locked)}; {rate:.0f} transactions a second"
    yield f"| two writers on SQLite, {2 * TRANSACTIONS} transactions of four statements | {told} |"


def poll(vendor: str, **variables: str) -> Iterator[str]:
    with place() as directory:
        run("manage.py", "migrate", data_dir=directory, **OWN, **variables).check_returncode()
        said = subprocess.run(
            [sys.executable, "-c", POLL],
            env=environment(directory, **OWN, **variables),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    plan = re.search(r"PLAN (.+)", said)[1]
    rows, cost = re.search(r"COST (\d+) (\S+)", said).groups()
    index = "task_due" if "task_due" in plan else "NO INDEX"
    what = f"the poll for due tasks among {TASKS:,} on {vendor}"
    yield f"| {what} | {index}; {rows} rows in {cost} ms |"


def fuzz(vendor: str, **variables: str) -> Iterator[str]:
    with place() as directory, up(directory, "--no-demo", **variables) as process:
        key = process.until(r"API key +(cj_\S+)\n")[1]
        command = [
            str(Path(sys.executable).parent / "schemathesis"), "run",
            f"{origin(process)}/api/schema/", "--header", f"Authorization: Bearer {key}",
            "--checks", "not_a_server_error,status_code_conformance,response_schema_conformance",
            "--phases", "examples,coverage,fuzzing", "--max-examples", "200",
            "--warnings", "off", "--no-color",
        ]  # fmt: skip
        said = subprocess.run(command, cwd=directory, capture_output=True, text=True).stdout
    cases = re.search(r"(\d+) generated.*", said)
    verdict = "no issues found" if "No issues found" in said else "ISSUES FOUND"
    yield f"| schemathesis against a running server on {vendor} | {cases and cases[0]}: {verdict} |"


def main() -> None:
    head = [
        "# What was measured",
        "",
        "The last output of `python bench/shown.py`, on "
        f"{os.cpu_count()} cores, Python {platform.python_version()}.",
        "",
        "| what | found |",
        "|---|---|",
    ]
    server = Postgres()
    try:
        named = {"DATABASE_URL": server.url}
        rows = [*start_and_stop(), *two_writers(), *poll("SQLite"), *poll("PostgreSQL", **named)]
        rows += [*fuzz("SQLite"), *fuzz("PostgreSQL", **named)]
    finally:
        server.stop()
    text = "\n".join([*head, *rows]) + "\n"
    (ROOT / "docs" / "shown.md").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
