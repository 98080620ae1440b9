"""A fault in each failure window of the reliability model, and what becomes of the run."""

import signal
from datetime import timedelta

import pytest

from cronjob.lib import clock
from runs import pauses, standing
from tasks.models import Task
from tests.faults import oracle
from tests.faults.hurried import SEED
from tests.faults.world import until

pytestmark = pytest.mark.faults

SOON = 0.5
NOT_STARTED = {"status": "SUCCESS", "attempt": 1, "lost": 0}  # as if nothing had happened
AGAIN = {"status": "SUCCESS", "attempt": 2, "lost": 1}
GIVEN_UP = {"status": "FAILED", "reason": "lost", "attempt": 1, "lost": 1}


def dies_at(world, place, **fields):
    """The first of two schedulers, with one task."""
    world.plant(run_at=SOON, **fields)
    assert world.start(f"{place}=exit").wait() == -signal.SIGKILL
    world.start()


def became(world, wanted, *, calls):
    world.quiet()
    run = world.run()
    assert {name: run[name] for name in wanted} == wanted
    assert len(world.target.requests) == calls
    oracle.check(world)


# Where the scheduler dies, what becomes of the run then, and how often its target is called.
DEATHS = {
    "1: before a due task is read": ("materialise.read", NOT_STARTED, 1),
    "2: inside the transaction that makes the run": ("materialise.advanced", NOT_STARTED, 1),
    "6: when the run was just made, and has begun": ("materialise.committed", AGAIN, 1),
    "6: before the call is sent": ("call.before", AGAIN, 1),
    "8: when the answer has just come": ("call.sent", AGAIN, 2),
    "8: before the answer is written": ("settle.before", AGAIN, 2),
    "8: inside the transaction that writes the answer": ("settle.written", AGAIN, 2),
    "9: when the answer was just written": ("settle.committed", NOT_STARTED, 1),
}


@pytest.mark.parametrize(("place", "wanted", "calls"), DEATHS.values(), ids=DEATHS)
def test_a_scheduler_that_dies_in_a_window_leaves_what_the_table_says(
    each_world, place, wanted, calls
):
    world = each_world
    dies_at(world, place)
    became(world, wanted, calls=calls)


# The same where something has to be chosen, so that runs are made first and then claimed.
DEATHS_APART = {
    "2: inside the transaction that makes the run": ("materialise.advanced", NOT_STARTED, 1),
    "3: when the run was just made": ("materialise.committed", NOT_STARTED, 1),
    "4: before the run is claimed": ("claim.locked", NOT_STARTED, 1),
    "6: when the claim was just made": ("claim.committed", AGAIN, 1),
}


@pytest.mark.parametrize(("place", "wanted", "calls"), DEATHS_APART.values(), ids=DEATHS_APART)
def test_a_scheduler_that_dies_between_making_and_claiming_leaves_what_the_table_says(
    each_world, place, wanted, calls
):
    world = each_world
    world.claim_apart()
    dies_at(world, place)
    became(world, wanted, calls=calls)


LOST = {
    "6: before the call is sent": ("call.before", 0),
    "8: when the answer has just come": ("call.sent", 1),
    "8: inside the transaction that writes the answer": ("settle.written", 1),
}


@pytest.mark.parametrize(("place", "calls"), LOST.values(), ids=LOST)
def test_a_task_that_must_not_be_called_twice_is_recorded_as_lost(each_world, place, calls):
    world = each_world
    dies_at(world, place, on_lost="FAIL")
    became(world, GIVEN_UP, calls=calls)


@pytest.mark.parametrize(
    ("on_lost", "wanted", "calls"), [("RETRY", AGAIN, 2), ("FAIL", GIVEN_UP, 1)]
)
def test_7_a_scheduler_killed_while_its_call_is_under_way(each_world, on_lost, wanted, calls):
    world = each_world
    (killed,) = world.started(1)
    world.plant(path="/hold", run_at=SOON, on_lost=on_lost)
    world.target.wait_for(1)
    killed.end(signal.SIGKILL)
    world.start()
    if calls == 2:
        first, second = world.target.wait_for(2)
        assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
        world.target.release()
    became(world, wanted, calls=calls)


# The same with a scheduler that lives on and does not know what was done: the reply was lost.
LOST_REPLIES = {
    "1: while due tasks are read": "materialise.read",
    "2: inside the transaction that makes the run": "materialise.advanced",
    "3: when the run was just made": "materialise.committed",
    "4: before the claim is made": "claim.locked",
    "5: when the claim was just made": "claim.committed",
    "8: before the answer is written": "settle.before",
    "8: inside the transaction that writes the answer": "settle.written",
    "9: when the answer was just written": "settle.committed",
}


@pytest.mark.parametrize(
    ("place", "apart"),
    [
        *((place, True) for place in LOST_REPLIES.values()),
        *((place, False) for place in LOST_REPLIES.values() if place != "claim.locked"),
    ],
    ids=[
        *LOST_REPLIES,
        *(f"{name}, begun" for name in LOST_REPLIES if LOST_REPLIES[name] != "claim.locked"),
    ],
)
def test_a_scheduler_that_lives_on_after_an_error_calls_once_and_records_it(
    any_world, place, apart
):
    world = any_world
    if apart:
        world.claim_apart()
    world.plant(run_at=SOON)
    living = world.start(f"{place}=raise", once=True, CRONJOB_SLOTS="1")
    became(world, NOT_STARTED, calls=1)
    world.plant(run_at=SOON)  # its only slot is free again
    world.quiet()
    assert len(world.target.requests) == 2
    assert living.end() == 0
    oracle.check(world)


@pytest.mark.parametrize(
    "place", ["materialise.advanced", "claim.locked", "settle.written", "rescue.written"]
)
def test_a_scheduler_paused_inside_a_transaction_holds_up_the_others_for_seconds_only(world, place):
    if place == "claim.locked":
        world.claim_apart()
    world.plant(3, end_at=4)
    if place == "rescue.written":
        assert world.start("call.before=exit").wait() == -signal.SIGKILL
    impatient = f"{world.url}&options=-c%20idle_in_transaction_session_timeout%3D1s"
    paused = world.start(f"{place}=stop", once=True, url=impatient)
    world.stopped(paused)
    world.start()
    world.quiet()
    oracle.check(world)
    world.wake(paused)
    until(lambda: paused.process.pid in world.registered(), what=world.said)
    world.plant(run_at=SOON)
    world.quiet()
    oracle.check(world)


def test_11_a_rescuer_that_dies_leaves_the_rescue_to_the_next_one(any_world):
    world = any_world
    world.plant(run_at=SOON)
    assert world.start("call.before=exit").wait() == -signal.SIGKILL
    assert world.start("rescue.written=exit").wait() == -signal.SIGKILL
    world.start()
    became(world, AGAIN, calls=1)


def test_11_two_rescuers_count_a_lost_attempt_once(any_world):
    world = any_world
    world.plant(30, run_at=SOON)
    assert world.start("call.before=exit", CRONJOB_SLOTS="64").wait() == -signal.SIGKILL
    for _ in range(3):
        world.start()
    world.quiet()
    assert {run["lost"] for run in world.runs()} <= {0, 1}
    oracle.check(world)


def test_16_a_task_disabled_between_being_read_and_moved_on_makes_no_run(any_world):
    world = any_world
    world.plant(run_at=SOON)
    paused = world.start("materialise.read=stop", once=True)
    world.stopped(paused)
    with world.inside():
        standing.disable(Task.objects.get(), reason="", now=clock.now())
    world.wake(paused)
    world.quiet()
    assert (world.run()["status"], world.run()["reason"]) == ("MISSED", "disabled")
    assert world.target.requests == []
    oracle.check(world)


def test_a_scheduler_that_dies_when_a_pause_has_just_ended_leaves_nothing_held(each_world):
    each_world.plant(3, end_at=4)
    with each_world.inside():
        now = clock.now()
        pauses.pause(tag="", reason="", until=now + timedelta(seconds=1.5), now=now)
    assert each_world.start("pause.ended=exit").wait() == -signal.SIGKILL
    each_world.start()
    each_world.quiet()
    oracle.check(each_world)


def test_a_retry_is_made_though_its_scheduler_died_while_it_waited(each_world):
    policy = {"max_retries": 1, "initial_delay": 2, "strategy": "fixed"}
    each_world.plant(path="/status/503", run_at=SOON, retry_policy=policy)
    (killed,) = each_world.started(1)
    until(lambda: [run for run in each_world.runs() if run["status"] == "RETRYING"])
    killed.end(signal.SIGKILL)
    each_world.start()
    became(each_world, {"status": "FAILED", "attempt": 2, "lost": 0}, calls=2)


def test_errors_after_every_tenth_commit_lose_nothing_and_double_nothing(each_world, chance):
    places = ("materialise.committed", "claim.committed", "settle.committed", "rescue.written")
    armed = ",".join(f"{place}=raise:0.1" for place in places)
    for _ in range(2):
        each_world.start(armed, CRONJOB_SLOTS="4", **{SEED: str(chance.random())})
    each_world.plant(15, end_at=6)
    until(lambda: len(each_world.runs()) >= 30)
    each_world.claim_apart()
    each_world.quiet()
    oracle.check(each_world)
