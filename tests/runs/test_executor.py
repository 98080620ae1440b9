"""Threads that call: few where answers come at once, as many as slots where they do not."""

import time
from uuid import uuid4

import pytest

from cronjob.lib import clock, http, processor
from runs import calls, executor, trigger
from runs.models import TaskRun
from tasks.models import Task
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


@pytest.fixture
def calling():
    """An executor, with two attempts that nobody knows of but their target."""
    client = http.Client(allow=(), deny=(), pool=2)
    yield executor.Executor(slots=2, client=client, wake=lambda: None)
    client.close()


def attempt(target, **ids):
    run = TaskRun(**(ids | {"uuid": uuid4(), "trigger": "MANUAL", "scheduled_time": clock.now()}))
    run.task = Task(id=1, name="mine", target_url=target.url("/status/200"))
    return run, calls.prepare(run, now=clock.now())


def test_a_call_claimed_early_waits_for_its_moment(target, calling):
    before = time.monotonic()
    calling.submit(*attempt(target, id=1, fence=1), wait=0.3)
    (request,) = target.wait_for(1)
    assert request.at >= before + 0.3
    calling.end(patience=PATIENCE)


def test_it_is_told_how_long_a_call_waits_for_a_thread(target, calling, monkeypatch):
    told = []
    monkeypatch.setattr(executor.metrics, "observe", lambda *what: told.append(what))
    with monkeypatch.context() as nobody_calls:
        nobody_calls.setattr(calling, "grow", lambda number: None)
        calling.submit(*attempt(target, id=1, fence=1))
    (held,) = calling.held.values()
    held.due -= 100
    calling.grow(1)
    target.wait_for(1)
    ((name, seconds),) = told
    assert name == "cronjob_executor_wait_seconds"
    assert 100 <= seconds < 600
    calling.end(patience=PATIENCE)


def test_a_call_that_waits_for_its_moment_can_be_taken_back(target, calling):
    for n in range(executor.FEW):
        calling.submit(*attempt(target, id=n, fence=1), wait=3600)
    calling.submit(*attempt(target, id=99, fence=1))
    target.wait_for(1)  # it need not wait for them
    assert [held.run.pk for held in calling.unstarted()] == [*range(executor.FEW)]
    calling.end(patience=PATIENCE)
    assert not any(thread.is_alive() for thread in calling.threads)
    assert len(target.wait_for(1)) == 1


@pytest.mark.parametrize(
    ("ours", "idle", "widens"),
    [
        (0.1, 0.0, True),  # its targets take their time
        (0.5, 1.0, True),  # so they do, and are called as they answer
        (0.5, 0.1, False),  # all processors are at work
        (0.9, 1.0, False),  # ours is
    ],
)
def test_threads_are_added_while_processors_have_nothing_to_do(
    calling, monkeypatch, ours, idle, widens
):
    now = time.monotonic()
    told = iter(
        [processor.Times(now - 10, 1, 1), processor.Times(now, 1 + 10 * ours, 1 + 10 * idle)]
    )
    monkeypatch.setattr(processor, "times", lambda: next(told))
    grown = []
    monkeypatch.setattr(calling, "grow", grown.append)
    calling.widen()
    calling.queue.put(None)  # something waits for a thread
    calling.widen()
    assert not grown
    calling.widen()
    assert bool(grown) == widens


@pytest.mark.parametrize(
    ("calls", "grown"),
    [
        ([1000], 1),  # a second; the next ones with four times the threads
        ([1000, 3000], 2),
        ([1000, 1200], 1),  # something else is what they wait for: a lock, or their target
        ([1000, 3], 2),  # they take longer than that
        ([1000, 1200, 400], 2),  # now they take longer
    ],
)
def test_threads_are_added_as_long_as_they_bring_something(calling, monkeypatch, calls, grown):
    now, seconds = time.monotonic() - 10, iter(range(len(calls) + 1))
    monkeypatch.setattr(processor, "times", lambda: processor.Times(now + next(seconds), 1, 1))
    times = []
    monkeypatch.setattr(calling, "grow", times.append)
    calling.threads = {*range(executor.FEW)}
    calling.queue.put(None)
    calling.widen()
    for done in calls:
        calling.called += done
        calling.widen()
    assert len(times) == grown


def test_a_machine_tells_how_long_its_processors_had_nothing_to_do():
    assert processor.idle_seconds() > 0


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
