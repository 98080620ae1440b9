"""What must hold once a world is quiet, whatever was done to it."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from runs.states import FINAL, TRANSITIONS, Status
from tasks import cron
from tasks.schedule import Schedule
from tests.faults.world import World

CALLED = (Status.SUCCESS, Status.FAILED, Status.TIMEOUT)
UNPLANNED = ("MANUAL", "REPLAY")


def check(world: World, *, empty: bool = False) -> None:
    """Every promise about moments, runs, effects and processes."""
    tasks, runs = world.rows("SELECT * FROM tasks"), world.runs()
    assert runs or empty, f"nothing happened at all\n{world.said()}"
    held = held_tasks(world)
    for task in tasks:
        moments_are_recorded_once(task, [run for run in runs if run["task_id"] == task["id"]], held)
    for run in runs:
        is_whole(run)
    effects_belong_to_runs(world, tasks, runs)
    moves_were_legal(world)
    cursors_went_forward(world)
    living = {one.process.pid for one in world.alive()}
    assert world.registered() <= living, "the lease of a dead process stands"


# --- moments ----------------------------------------------------------------------------------


def schedule_of(task: dict[str, Any]) -> Schedule:
    every = task["every_seconds"]
    return Schedule(
        zone=ZoneInfo(task["timezone"]),
        cron=cron.parse(task["cron_expr"]) if task["cron_expr"] else None,
        every=timedelta(seconds=every) if every else None,
        anchor=task["anchor"], once=task["run_at"],
        start_at=task["start_at"], end_at=task["end_at"],
        jitter=timedelta(seconds=task["jitter_seconds"] or 0), key=identity(task["uuid"]).bytes,
    )  # fmt: skip


def identity(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def held_tasks(world: World) -> set[int]:
    """Those that were held or disabled for a while: moments in between are nobody's."""
    held = "was IS NULL AND became IS NOT NULL"
    rows = world.rows(f"SELECT task FROM audit_tasks WHERE {held} OR status = 'DISABLED'")
    return {row["task"] for row in rows}


def moments_are_recorded_once(
    task: dict[str, Any], runs: list[dict[str, Any]], held: set[int]
) -> None:
    """All that lie before the cursor, and none besides."""
    schedule, cursor = schedule_of(task), task["next_moment"]
    ahead = schedule.moments(task["created_at"])
    expected = Counter(takewhile(lambda moment: cursor is None or moment < cursor, ahead))
    recorded = Counter(moment for run in runs for moment in moments_of(run, schedule))
    lost, more = expected - recorded, recorded - expected
    assert not lost or task["id"] in held, (
        f"{task['name']}: {len(lost)} moments were lost: {sorted(lost)[:5]}"
    )
    assert not more, f"{task['name']}: recorded twice or without reason: {sorted(more)[:5]}"


def moments_of(run: dict[str, Any], schedule: Schedule) -> Iterator[datetime]:
    if run["missed_from"] is None:
        if run["trigger"] not in UNPLANNED:
            yield run["moment"]
        return
    before = run["missed_from"] - timedelta(microseconds=1)
    found = [*takewhile(lambda m: m <= run["missed_to"], schedule.moments(before))]
    assert len(found) == run["missed_count"], f"run {run['id']}: {len(found)} in what it tells of"
    yield from found


# --- runs -------------------------------------------------------------------------------------


def is_whole(run: dict[str, Any]) -> None:
    """It is over, and holds nothing that only a run under way would hold."""
    assert run["status"] in FINAL, f"run {run['id']} is still {run['status']}"
    for name in ("ready_at", "deadline_at", "callback_deadline", "slot", "next_retry_time"):
        assert run[name] is None, f"run {run['id']}: {run['status']} with {name}"
    assert run["attempt"] <= run["fence"], f"run {run['id']}: more attempts than claims"
    assert run["lost"] <= run["attempt"], f"run {run['id']}"
    if run["status"] in CALLED:
        earlier = read(run["attempts"])
        told = [entry["attempt"] for entry in earlier]
        assert told == [*range(1, run["attempt"])], f"run {run['id']}: its attempts are {told}"


def read(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def moves_were_legal(world: World) -> None:
    """Only moves of the table of states; what was over stayed over; no fence ever shrank."""
    for row in world.rows("SELECT * FROM audit_runs"):
        was, became = Status(row["was"]), Status(row["became"])
        again = was in FINAL and (was, row["ended_was"]) != (became, row["ended"])
        assert not again, f"a final run was written again: {row}"
        assert was == became or became in TRANSITIONS[was], f"an illegal move: {row}"
        assert row["fence"] >= row["fence_was"], f"a fence shrank: {row}"
        if row["attempt"] < row["attempt_was"]:
            assert row["fence"] > row["fence_was"], f"a refund kept its fence: {row}"
        if was != Status.RUNNING and became == Status.RUNNING:
            assert row["fence"] > row["fence_was"], f"a claim without a fence: {row}"


def cursors_went_forward(world: World) -> None:
    for row in world.rows("SELECT * FROM audit_tasks"):
        if row["was"] and row["became"]:
            assert row["was"] <= row["became"], f"a cursor went back: {row}"


# --- effects ----------------------------------------------------------------------------------


def effects_belong_to_runs(
    world: World, tasks: list[dict[str, Any]], runs: list[dict[str, Any]]
) -> None:
    """Each request was made by a claim of a recorded run, each claim made one at most."""
    known, by_id = {task["id"]: task for task in tasks}, {run["id"]: run for run in runs}
    claims: Counter[tuple[int, str]] = Counter()
    tries: Counter[tuple[int, int]] = Counter()
    for request in world.target.requests:
        number = int(request.headers["X-Cronjob-Run-Id"])
        assert number in by_id, f"an effect of run {number}, which nobody knows"
        run, attempt = by_id[number], int(request.headers["X-Cronjob-Attempt"])
        assert request.headers["Idempotency-Key"] == key_of(run, known[run["task_id"]])
        span = request.headers["traceparent"].split("-")[2]
        assert span in spans(run), f"run {number} was called by a claim that nobody knows"
        claims[number, span] += 1
        tries[number, attempt] += 1
    assert not claims or max(claims.values()) == 1, f"one claim, two calls: {claims.most_common(3)}"
    assert not tries or max(tries.values()) == 1, f"a sent try came back: {tries.most_common(3)}"
    for run in runs:
        if run["status"] == Status.SUCCESS:
            assert tries[run["id"], run["attempt"]] == 1, f"run {run['id']} was never called"


def key_of(run: dict[str, Any], task: dict[str, Any]) -> str:
    which = f"run:{identity(run['uuid'])}"
    if run["moment"] is not None:
        which = f"{run['moment'].astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
    return f"{identity(task['uuid'])}:{which}"


def spans(run: dict[str, Any]) -> set[str]:
    """What the claims of a run so far called themselves."""
    least = identity(run["uuid"]).int
    return {f"{(least + fence) % 2**64:016x}" for fence in range(1, run["fence"] + 1)}
