"""What nobody is calling any more is found, however it came to be nobody's."""

import signal

import pytest

from tests.faults import oracle
from tests.faults.world import until

pytestmark = pytest.mark.faults
PATIENT = {"timeout_seconds": 60}


def test_all_runs_of_a_dead_scheduler_are_rescued_also_if_they_are_more_than_a_batch(world):
    few = {"CRONJOB_BATCH_MAX": "4"}
    (killed,) = world.started(1, **few)
    world.plant(10, path="/hold", run_at=0.5, **PATIENT)
    world.target.wait_for(10)
    killed.end(signal.SIGKILL)
    world.started(1, **few)
    world.target.wait_for(20)
    world.target.release()
    world.quiet()
    oracle.check(world)


def test_what_a_scheduler_claims_after_it_was_taken_for_dead_is_rescued_in_seconds(any_world):
    world = any_world
    world.claim_apart()
    world.plant(path="/hold", run_at=0.5, **PATIENT)
    asleep = world.start("materialise.committed=stop", once=True)
    world.stopped(asleep)
    (other,) = world.started(1, CRONJOB_SLOTS="1")
    world.target.wait_for(1)  # which leaves the other no slot
    until(lambda: asleep.process.pid not in world.registered(), what=world.said)
    world.plant(path="/hold", run_at=0.2, **PATIENT)
    until(lambda: len(world.runs("status = 'SCHEDULED'")) == 1, what=world.said)
    world.wake(asleep)
    until(lambda: asleep.process.pid in world.registered(), what=world.said)
    until(lambda: len(world.target.requests) >= 2, what=world.said)
    until(no_owner_is_dead(world), what=world.unrest)
    world.target.release()
    until(no_owner_is_dead(world), what=world.unrest)
    world.target.release()
    until(lambda: world.target.release() or world.is_quiet(), what=world.unrest)
    oracle.check(world)
    assert other.end() == 0


def no_owner_is_dead(world):
    orphans = (
        "SELECT count(*) AS n FROM task_runs WHERE status = 'RUNNING'"
        " AND owner NOT IN (SELECT name FROM processes)"
    )
    return lambda: world.number(orphans) == 0


def test_a_call_that_hangs_beyond_its_deadline_is_given_up_and_made_again(any_world):
    world = any_world
    world.plant(run_at=0.5, timeout_seconds=1)
    world.start("call.before=hang", once=True)
    world.quiet()
    assert (world.run()["status"], world.run()["lost"]) == ("SUCCESS", 1)
    oracle.check(world)


def test_the_shortest_lease_that_settings_allow_still_rescues(any_world):
    world = any_world
    short = {"CRONJOB_BEAT_SECONDS": "1", "CRONJOB_LEASE_SECONDS": "3"}
    (killed,) = world.started(1, **short)
    world.plant(path="/hold", run_at=0.5, **PATIENT)
    world.target.wait_for(1)
    world.started(1, **short)
    killed.end(signal.SIGKILL)
    world.target.wait_for(2)
    world.target.release()
    world.quiet()
    oracle.check(world)
