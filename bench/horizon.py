"""A forgotten session that keeps every dead row: do polls and claims get slower under load?

Each poll and claim is timed by the scheduler itself, and read from its own /metrics.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psycopg  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from bench.contenders import ours  # noqa: E402
from bench.ground import pause, say, sink  # noqa: E402

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
    scheduler = ours(processes=1, slots=32)
    scheduler.flags += (f"--metrics-port={PORT}",)
    with sink() as target, scheduler.ready() as field:
        server = field.variables["DATABASE_URL"]
        with psycopg.connect(server) as pausing:  # so that all runs are claimed
            pausing.execute(
                "INSERT INTO pauses (tag, reason, created_at) VALUES ('something else', '', now())"
            )
        field.tick(chosen.tasks, int((time.time() + 6) * 1e6), target.url)
        pause(12)
        measured("before", part)
        with snapshot(server):
            measured("in its first minute", part)
            pause(chosen.seconds - 2 * part)
            measured(f"in its last, after {chosen.seconds} s", part)
        pause(part)
        measured(f"{part} s after it was closed", part)


if __name__ == "__main__":
    main()
