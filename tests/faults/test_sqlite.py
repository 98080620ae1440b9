"""One file for a scheduler that is killed again and again, and for others who write."""

import resource
import signal

import pytest

from tests.faults import oracle
from tests.faults.world import NEVER, until

pytestmark = pytest.mark.faults


def test_a_scheduler_is_killed_again_and_again_while_others_write(small_world, chance):
    world = small_world
    world.started(1)
    world.plant(10, end_at=9)
    writers = [world.process("tests.faults.writing", "5") for _ in range(2)]
    for _ in range(5):
        NEVER.wait(0.5 + chance.random())
        for one in world.alive():
            one.end(signal.SIGKILL)
        world.start()
    for writer in writers:
        assert writer.wait() == 0, writer.output
        assert "locked" not in writer.output
    world.quiet()
    assert "locked" not in world.said()
    oracle.check(world)


PLACES = (
    "materialise.advanced", "materialise.committed", "claim.locked", "claim.committed",
    "call.before", "call.sent", "settle.written", "settle.committed",
)  # fmt: skip


@pytest.mark.parametrize("apart", [False, True], ids=["begun as made", "claimed"])
def test_a_scheduler_that_dies_at_one_place_after_the_other_loses_nothing(
    small_world, chance, apart
):
    world = small_world
    if apart:
        world.claim_apart()
    places = [place for place in PLACES if apart or place != "claim.locked"]
    for place in chance.sample(places, 5):
        world.plant(2, run_at=0.1)
        assert world.start(f"{place}=exit").wait() == -signal.SIGKILL, world.said()
    world.start()
    world.quiet()
    oracle.check(world)


def test_a_disk_that_is_full_for_some_seconds_loses_nothing(small_world):
    world = small_world
    (one,) = world.started(1)
    world.plant(5, end_at=8)
    until(lambda: len(world.runs()) >= 5, what=world.said)
    limit = resource.RLIM_INFINITY
    resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (4096, limit))  # no file grows
    one.until("the database failed, trying again")
    NEVER.wait(3)
    resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    world.quiet()
    assert one.process.poll() is None
    oracle.check(world)
