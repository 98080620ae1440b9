"""Tasks of ours: `COUNT DUE STEP URL [APART]`.

Each is due once, a STEP after the one before; with a negative STEP each is due every so often, the
first of them APART from each other.
"""

import sys
from datetime import UTC, datetime

import django

django.setup()

from django.db import connection  # noqa: E402

from tests.factories import copy, make_task  # noqa: E402


def at(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1e6, UTC)


def main() -> None:
    count, due, *rest = sys.argv[1:]
    first, step, url = int(due), int(rest[0]), rest[1]
    apart = int(rest[2]) if len(rest) > 2 else 0
    every: dict[str, object] = {"schedule_kind": "ONCE", "run_at": at(first)}
    if step < 0:  # each of them every so often
        every = {"schedule_kind": "EVERY", "every_seconds": -step // 1_000_000, "anchor": at(first)}
        task = make_task(next_run_at=at(first), target_url=f"{url}0/0", **every)
        later = f"timestamptz '{at(first).isoformat()}' + n * interval '{apart} microseconds'"
        moments = dict.fromkeys(("anchor", "next_moment", "next_run_at"), later)
        copy(task, int(count) - 1, name="'copy ' || n", target_url=f"'{url}0/' || n", **moments)
    elif step == 0:
        task = make_task(next_run_at=at(first), target_url=f"{url}{first}/0", **every)
        copy(task, int(count) - 1, name="'copy ' || n", target_url=f"'{url}{first}/' || n")
    else:
        for number in range(int(count)):
            due_at = first + number * step
            every["run_at"] = at(due_at)
            make_task(next_run_at=at(due_at), target_url=f"{url}{due_at}/{number}", **every)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE tasks")


if __name__ == "__main__":
    main()
