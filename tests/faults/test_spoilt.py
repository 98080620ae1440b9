"""A row that cannot be is nobody's fault but its own, and nobody else's trouble."""

import pytest

from tasks.models import Task
from tests.faults.world import until

pytestmark = pytest.mark.faults

SPOILT = {
    "its zone": {"timezone": "Nowhere/Else"},
    "its retries": {"retry_policy": "never"},
    "its timeout": {"timeout_seconds": 1e300},
    "its headers": {"headers": [1]},
}


def spoil(world, task, **fields):
    with world.inside():
        Task.objects.filter(pk=task.pk).update(**fields)


def others_go_on(world, bad):
    done = f"SELECT count(*) AS n FROM task_runs WHERE status = 'SUCCESS' AND task_id <> {bad.pk}"
    until(lambda: world.number(done) == 9, what=world.said)


@pytest.mark.parametrize("fields", SPOILT.values(), ids=SPOILT)
def test_a_task_spoilt_before_it_is_due_does_not_stop_the_others(world, fields):
    (bad,) = world.plant(run_at=0.3)
    spoil(world, bad, **fields)
    world.plant(3, end_at=3.5)
    world.start()
    others_go_on(world, bad)
