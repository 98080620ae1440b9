"""A forgotten session that keeps every dead row: do polls and claims get slower under load?

Each poll and claim is timed by the scheduler itself, and read from its own /metrics.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psycopg  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from bench.engine import PLANT, database, pause, say, script, target  # noqa: E402
from tests.processes import running  # noqa: E402

PORT = 19321
SCAN, CLAIM = "cronjob_scheduler_scan_latency", "cronjob_scheduler_claim_seconds"
WORST = 0.95
Buckets = dict[float, float]


def scrape() -> dict[str, Buckets]:
    with urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        family.name: {
            float(s.labels["le"]): s.value for s in family.samples if s.name.endswith("_bucket")
        }
        for family in text_string_to_metric_families(text)
        if family.name in (SCAN, CLAIM)
    }


def below(before: Buckets, after: Buckets) -> str:
    """Under which bound 95 % of what happened in between stayed."""
    grown = {bound: after[bound] - before[bound] for bound in after}
    all_of = max(grown.values())
    bound = min(bound for bound, number in grown.items() if number >= WORST * all_of)
    return f"≤ {bound * 1000:g} ms of {all_of:g}"


def measured(what: str, seconds: float) -> None:
    before = scrape()
    pause(seconds)
    after = scrape()
    say(f"| {what} | {below(before[SCAN], after[SCAN])} | {below(before[CLAIM], after[CLAIM])} |")


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    with psycopg.connect(url) as forgotten:
        forgotten.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        forgotten.execute("SELECT count(*) FROM task_runs")
        yield
        forgotten.rollback()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="how long the session stays open")
    parser.add_argument("--tasks", type=int, default=500, help="so many runs a second")
    chosen = parser.parse_args()
    part = min(60, chosen.seconds // 3)
    say(f"{chosen.tasks} runs a second, PostgreSQL.\n")
    say("| when | poll, 95 % | claim, 95 % |\n|---|---|---|")
    with database("postgresql") as (place, variables), target() as url:
        script(PLANT, chosen.tasks, 1, 6, url, place=place, variables=variables)
        with psycopg.connect(variables["DATABASE_URL"]) as pausing:  # so that all runs are claimed
            pausing.execute(
                "INSERT INTO pauses (tag, reason, created_at) VALUES ('something else', '', now())"
            )
        flags = ["runscheduler", "--slots=32", f"--metrics-port={PORT}"]
        with running("manage.py", *flags, data_dir=place, **variables) as scheduler:
            pause(12)
            measured("before", part)
            with snapshot(variables["DATABASE_URL"]):
                measured("in its first minute", part)
                pause(chosen.seconds - 2 * part)
                measured(f"in its last, after {chosen.seconds} s", part)
            pause(part)
            measured(f"{part} s after it was closed", part)
            scheduler.end()


if __name__ == "__main__":
    main()
