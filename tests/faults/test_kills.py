"""Schedulers that are killed, stopped and started again while their tasks fire."""

import signal
import time

import pytest

from tests.faults import oracle
from tests.faults.world import LEASE, NEVER, until

pytestmark = pytest.mark.faults


def test_a_random_scheduler_is_killed_every_second_and_no_moment_is_lost_or_doubled(
    each_world, chance
):
    world = each_world
    world.started(3)
    world.plant(40, end_at=8)
    for number in range(6):
        NEVER.wait(1)
        chance.choice(world.alive()).end(signal.SIGKILL)
        world.start()
        if number == 2:  # until now they began as they were made
            world.claim_apart()
    world.quiet()
    oracle.check(world)


def test_a_scheduler_that_slept_through_its_lease_changes_nothing_when_it_wakes(each_world):
    world = each_world
    (owner,) = world.started(1)
    world.plant(path="/hold", run_at=0.5)
    world.target.wait_for(1)
    world.stop(owner)
    world.started(1)
    first, second = world.target.wait_for(2)
    assert [r.headers["X-Cronjob-Attempt"] for r in (first, second)] == ["1", "2"]
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    world.target.release()
    until(lambda: world.run()["status"] == "SUCCESS")
    ended = world.run()["end_time"]
    world.wake(owner)
    until(lambda: owner.process.pid in world.registered(), what=world.said)
    owner.until("a late answer")
    world.quiet()
    assert world.run()["end_time"] == ended
    assert world.run()["lost"] == 1
    oracle.check(world)


def test_a_scheduler_that_slept_beyond_some_moments_adds_none(any_world):
    world = any_world
    sleeper, _ = world.started(2)
    world.plant(5, end_at=7)
    until(lambda: len(world.runs()) >= 5)
    world.stop(sleeper)
    NEVER.wait(5)
    world.wake(sleeper)
    world.quiet()
    oracle.check(world)


def test_a_run_that_kills_every_scheduler_ends_and_others_go_on(any_world):
    world = any_world
    world.plant(run_at=0.5)
    for _ in range(4):
        begun = time.monotonic()
        killed = world.start("call.before=exit")
        assert killed.wait() == -signal.SIGKILL, killed.output
        assert time.monotonic() - begun < 30
    world.plant(run_at=0.5)
    world.start()
    world.quiet()
    poison, other = world.runs()
    assert (poison["status"], poison["reason"]) == ("FAILED", "lost")
    assert (poison["attempt"], poison["lost"], poison["error_kind"]) == (4, 4, "lost")
    assert other["status"] == "SUCCESS"
    assert len(world.target.requests) == 1
    oracle.check(world)


def test_a_scheduler_is_taken_for_dead_after_a_lease_of_silence_and_not_before(any_world):
    world = any_world
    (owner,) = world.started(1)
    world.plant(path="/hold", run_at=0.5, timeout_seconds=60)
    world.target.wait_for(1)
    world.started(1)
    NEVER.wait(2 * LEASE)
    assert len(world.target.requests) == 1, "it was alive"
    killed = time.monotonic()
    owner.end(signal.SIGKILL)
    _, again = world.target.wait_for(2)
    assert again.at - killed >= LEASE - 0.5 - 0.2  # since its last beat
    world.target.release()
    world.quiet()
    oracle.check(world)
