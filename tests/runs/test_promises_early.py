"""What is promised of moments about to come: made and claimed early, begun when they are due."""

import pytest

from runs import pauses, standing
from runs.claim import claim
from runs.materialise import materialise
from runs.models import TaskRun
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run
from tests.runs.engine import EVERY_PRIORITY, claimed, registered, settled
from tests.runs.test_promises import HOUR, due, recorded

pytestmark = marks.both

MS = SECOND / 1000


def test_a_moment_about_to_come_is_made_ahead_claimed_early_and_starts_when_it_is_due():
    task = due(NOON + 30 * MS)
    assert materialise(NOON, ahead=29 * MS).due.total() == 0
    assert materialise(NOON, ahead=30 * MS).due.total() == 1
    registered("a")
    early = {"owner": "a", "room": 1, "priorities": EVERY_PRIORITY, "ahead": 8 * MS}
    assert claim(NOON + 21 * MS, **early).runs == []
    (run,) = claim(NOON + 22 * MS, **early).runs
    assert (run.task_id, run.start_time, run.lateness_ms) == (task.pk, NOON + 30 * MS, 0)


def test_what_is_late_when_its_run_is_made_ahead_starts_when_it_is_claimed():
    due(NOON, misfire_grace_seconds=60)
    materialise(NOON + SECOND, ahead=30 * MS)
    (run,) = claimed(NOON + 2 * SECOND)
    assert (run.trigger, run.start_time, run.lateness_ms) == ("SCHEDULE", NOON + 2 * SECOND, 2000)


@pytest.mark.parametrize(("now", "trigger"), [(0, "SCHEDULE"), (1, "CATCH_UP")])
def test_to_be_made_ahead_is_not_to_be_late(now, trigger):
    due(NOON, misfire_grace_seconds=0)
    materialise(NOON + now * MS, ahead=30 * MS)
    assert [run.trigger for run in claimed(NOON + SECOND)] == [trigger]


@pytest.mark.parametrize("policy", ["SKIP", "QUEUE"])
def test_what_finds_no_place_when_it_is_claimed_early_is_looked_at_again_when_it_is_due(policy):
    task = due(NOON, concurrency_policy=policy, max_concurrency=1)
    make_run(task=task, moment=NOON - MINUTE)
    (before,) = claimed(NOON - SECOND)
    materialise(NOON - 20 * MS, ahead=30 * MS)
    early = {"owner": "a", "room": 9, "priorities": EVERY_PRIORITY, "ahead": 30 * MS}
    assert claim(NOON - 20 * MS, **early) == ([], 0)
    assert recorded(task)[1:] == [("SCHEDULED", 0)]
    settled(before, now=NOON - 5 * MS)
    (run,) = claim(NOON - 4 * MS, **early).runs
    assert run.start_time == NOON


def test_what_waited_for_a_place_and_gets_one_early_starts_when_it_is_due():
    task = due(NOON, concurrency_policy="QUEUE", max_concurrency=1)
    make_run(task=task, moment=NOON - MINUTE)
    (before,) = claimed(NOON - SECOND)
    materialise(NOON - 20 * MS, ahead=30 * MS)
    TaskRun.objects.filter(moment=NOON).update(ready_at=None)  # as if it were parked
    settled(before, now=NOON - 10 * MS)
    early = {"owner": "a", "room": 9, "priorities": EVERY_PRIORITY, "ahead": 30 * MS}
    (run,) = claim(NOON - 9 * MS, **early).runs
    assert run.start_time == NOON


def test_what_is_yet_to_come_is_no_part_of_a_backlog():
    task = due(NOON, every_seconds=1, misfire_policy="SKIP", misfire_grace_seconds=60)
    back = NOON + HOUR - 20 * MS
    materialise(back, ahead=60 * MS)
    (missed,) = TaskRun.objects.all()
    assert (missed.status, missed.missed_to) == ("MISSED", NOON + HOUR - SECOND)
    materialise(back, ahead=60 * MS)
    assert recorded(task)[1:] == [("SCHEDULED", 3600)]


def test_a_pause_until_a_moment_does_not_swallow_it():
    task = due(NOON)
    pauses.pause(tag="", reason="", until=NOON, now=NOON - HOUR)
    assert materialise(NOON - 20 * MS, ahead=60 * MS).due.total() == 0
    pauses.end_due(NOON)
    assert materialise(NOON, ahead=60 * MS).due.total() == 1
    assert recorded(task) == [("SCHEDULED", 0)]


def test_a_run_that_a_pause_holds_is_not_judged_before_it_is_due():
    due(NOON)
    materialise(NOON - 20 * MS, ahead=60 * MS)
    pauses.pause(tag="", reason="", until=NOON, now=NOON - 15 * MS)
    registered("a")
    early = {"owner": "a", "room": 9, "priorities": EVERY_PRIORITY, "ahead": 30 * MS}
    assert claim(NOON - 10 * MS, **early) == ([], 0)
    pauses.end_due(NOON)
    assert [run.start_time for run in claim(NOON, **early).runs] == [NOON]


def test_a_try_that_is_ready_does_not_wait_until_a_clock_that_went_back_comes_to_its_moment():
    make_run(status="RETRYING", moment=NOON, attempt=1, fence=1)
    TaskRun.objects.update(ready_at=NOON - HOUR, next_retry_time=NOON - HOUR)
    registered("a")
    early = {"owner": "a", "room": 9, "priorities": EVERY_PRIORITY, "ahead": 30 * MS}
    (run,) = claim(NOON - HOUR, **early).runs
    assert run.start_time <= NOON - HOUR + 30 * MS


@pytest.mark.parametrize("verb", ["disable", "delete"])
def test_what_was_made_ahead_is_not_called_if_its_task_is_stopped_before_it_is_due(verb):
    task = due(NOON)
    materialise(NOON - 20 * MS, ahead=30 * MS)
    reason = {"reason": "enough"} if verb == "disable" else {}
    getattr(standing, verb)(task, now=NOON - 10 * MS, **reason)
    assert claimed(NOON + SECOND) == []
    assert recorded(task) == [("CANCELED", 0)]
