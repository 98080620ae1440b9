"""The clock is wrong, for all schedulers or for one of them."""

import pytest

from tests.faults import oracle
from tests.faults.hurried import SKEW
from tests.faults.world import NEVER, until

pytestmark = pytest.mark.faults

HOUR = 3600


@pytest.mark.parametrize(
    ("place", "steps"),
    [
        ("world", (-HOUR, HOUR)),
        ("world", (HOUR,)),
        ("world", (600, -600, 600)),
        ("small_world", (-600, HOUR)),
    ],
)
def test_no_moment_is_lost_or_doubled_when_the_clock_steps(request, place, steps):
    world = request.getfixturevalue(place)
    world.started(2)
    world.plant(5, end_at=max(steps) + 6)
    until(lambda: len(world.runs()) >= 10, what=world.said)
    for step in steps:
        world.step(step)
        NEVER.wait(1.5)
    world.quiet()
    oracle.check(world)


@pytest.mark.parametrize("step", [HOUR, 2 * HOUR])
def test_what_a_step_passes_over_is_made_up_for_as_each_task_says(each_world, step):
    world = each_world
    made_up_for = {"FIRE_NOW": 1, "SKIP": 0, "CATCH_UP_LIMITED": 3}
    tasks = {
        task.pk: policy
        for policy in made_up_for
        for task in world.plant(2, misfire_policy=policy, catchup_limit=3, end_at=step + 4)
    }
    world.started(2)
    until(lambda: len(world.runs()) >= 10, what=world.said)
    world.step(step)
    world.quiet()
    oracle.check(world)
    for task, policy in tasks.items():
        late = world.runs(f"task_id = {task} AND trigger = 'CATCH_UP'")
        made = [(run["moment"], run["created_at"], run["status"]) for run in late]
        statuses = [status for *_, status in made]
        assert statuses == ["SUCCESS"] * made_up_for[policy], (policy, made, world.said())
        (missed,) = world.runs(f"task_id = {task} AND missed_count > {step} / 2")
        assert (missed["status"], missed["reason"]) == ("MISSED", "misfire")


@pytest.mark.parametrize("skew", [-600, 600])
def test_the_clock_of_a_host_does_not_matter_where_the_database_has_one(world, skew):
    world.started(1, **{SKEW: str(skew)})
    world.started(1)
    world.plant(10, end_at=4)
    world.quiet()
    oracle.check(world)
    runs = world.runs()
    assert {(run["trigger"], run["status"]) for run in runs} == {("SCHEDULE", "SUCCESS")}
    assert max(run["lateness_ms"] for run in runs) < 30_000
