"""A scheduler is asked to stop while it calls slow targets."""

import signal
import time

import pytest

from tests.faults import oracle
from tests.faults.world import LEASE, NEVER, until

pytestmark = pytest.mark.faults
PATIENT = {"timeout_seconds": 60}


def test_one_signal_lets_calls_end_while_others_take_over_what_waits(each_world):
    world = each_world
    (going,) = world.started(1, CRONJOB_SLOTS="3")
    world.plant(3, path="/hold", run_at=0.5, **PATIENT)
    world.target.wait_for(3)
    world.plant(4, run_at=0.2)
    world.started(1)
    going.process.send_signal(signal.SIGTERM)
    until(lambda: len(world.runs("status = 'SUCCESS'")) == 4, what=world.said)
    assert going.process.poll() is None
    world.target.release()
    assert going.wait() == 0, going.output
    assert going.process.pid not in world.registered()
    world.quiet()
    assert {(run["status"], run["attempt"]) for run in world.runs()} == {("SUCCESS", 1)}
    oracle.check(world)


def test_a_newer_version_may_add_columns_while_this_one_runs(each_world):
    world = each_world
    old, _ = world.started(2)
    world.plant(10, end_at=6)
    until(lambda: len(world.runs()) >= 20, what=world.said)
    for table in ("tasks", "task_runs", "processes", "async_callbacks"):
        world.alter(f"ALTER TABLE {table} ADD COLUMN later varchar(9) DEFAULT 'x' NOT NULL")
        world.alter(f"ALTER TABLE {table} ADD COLUMN unknown timestamp")
    world.started(1)  # one that has seen them from the first
    assert old.end() == 0, old.output
    world.quiet()
    assert {(run["status"], run["attempt"]) for run in world.runs()} == {("SUCCESS", 1)}
    assert "again" not in world.said(), "a round failed"
    oracle.check(world)


@pytest.mark.parametrize("how", ["second signal", "patience is over"])
def test_what_does_not_end_in_time_is_given_back_at_once(any_world, how):
    world = any_world
    last = {"CRONJOB_DRAIN_SECONDS": "1"} if how == "patience is over" else {}
    (going,) = world.started(1, CRONJOB_LEASE_SECONDS="60", **last)  # nobody may wait for that
    world.plant(2, path="/hold", run_at=0.5, **PATIENT)
    world.target.wait_for(2)
    world.started(1)
    begun = time.monotonic()
    going.process.send_signal(signal.SIGTERM)
    if how == "second signal":
        draining = "SELECT count(*) AS n FROM processes WHERE draining"
        until(lambda: world.number(draining), what=world.said)
        going.process.send_signal(signal.SIGTERM)
    assert going.wait() == 0, going.output
    assert time.monotonic() - begun < 30
    assert going.process.pid not in world.registered()
    world.target.wait_for(4)
    world.target.release()
    world.quiet()
    assert [run["lost"] for run in world.runs()] == [1, 1]
    oracle.check(world)


def test_a_scheduler_killed_while_it_drains_is_rescued_like_any_other(any_world):
    world = any_world
    (going,) = world.started(1, FAILPOINTS="drain.released=exit")
    world.plant(2, path="/hold", run_at=0.5, **PATIENT)
    world.target.wait_for(2)
    world.started(1)
    assert going.end() == -signal.SIGKILL
    world.target.wait_for(4)
    world.target.release()
    world.quiet()
    oracle.check(world)


def test_a_rolling_restart_every_second_loses_nothing_and_doubles_nothing(any_world):
    world = any_world
    old = world.started(2)
    world.plant(20, end_at=6)
    for one in old:
        world.start()
        NEVER.wait(1)
        assert one.end() == 0, one.output
    world.quiet()
    assert {run["attempt"] for run in world.runs()} == {1}
    assert {run["lost"] for run in world.runs()} == {0}
    oracle.check(world)


def test_a_frozen_host_gives_up_nothing_when_it_wakes(any_world, chance):
    """All schedulers slept longer than a lease; none of them may take the others for dead."""
    world = any_world
    all_of_them = world.started(3)
    world.plant(9, path="/hold", run_at=0.5, **PATIENT)
    world.target.wait_for(9)
    for one in all_of_them:
        world.stop(one)
    NEVER.wait(1.5 * LEASE)
    for one in chance.sample(all_of_them, 3):
        world.wake(one)
    NEVER.wait(2 * LEASE)
    world.target.release()
    world.quiet()
    assert len(world.target.requests) == 9, "a live run was rescued"
    oracle.check(world)
