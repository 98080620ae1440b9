"""Threads that call: few where answers come at once, as many as slots where they do not."""

import pytest

from cronjob.lib import clock
from runs import executor, trigger
from tests import marks
from tests.runs.test_scheduler import PATIENCE, ended, new, scheduling, until
from tests.target import Target

pytestmark = [*marks.committing, pytest.mark.usefixtures("hints")]


@pytest.fixture
def target():
    with Target() as server:
        yield server


@pytest.fixture
def executors(monkeypatch):
    """Every executor that is made."""
    made, right = [], executor.Executor.__init__

    def remember(self, **options):
        right(self, **options)
        made.append(self)

    monkeypatch.setattr(executor.Executor, "__init__", remember)
    return made


def test_targets_that_take_their_time_get_as_many_calls_at_once_as_there_are_slots(target):
    task = new(target, "/hold", concurrency_policy="PARALLEL", timeout_seconds=600)
    many = 3 * executor.FEW
    for _ in range(many):
        trigger.trigger(task, now=clock.now())
    with scheduling(slots=many):
        assert len(target.wait_for(many, timeout=PATIENCE)) == many
        target.release()


def test_threads_that_are_not_needed_any_more_end(target, executors, monkeypatch):
    monkeypatch.setattr(executor, "IDLE_SECONDS", 0.1)
    task = new(target, "/hold", concurrency_policy="PARALLEL", timeout_seconds=600)
    many = 2 * executor.FEW
    for _ in range(many):
        trigger.trigger(task, now=clock.now())
    with scheduling(slots=many):
        target.wait_for(many, timeout=PATIENCE)
        assert len(executors[0].threads) == many
        target.release()
        until(lambda: len(executors[0].threads) == executor.FEW)
        last = trigger.trigger(new(target, name="another"), now=clock.now())
        ended(pk=last.pk)
