"""How long a scheduler rests, and how early it begins."""

import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from cronjob.lib.http import Client
from runs.executor import Executor
from runs.glance import Glance
from runs.lead import IN_TIME, TO_BEGIN, TO_CLAIM, TO_MAKE
from runs.scheduler import (
    CONTENDED_SECONDS,
    LATELY_SECONDS,
    LEAST_SECONDS,
    LONG_SECONDS,
    Scheduler,
)
from tests import marks
from tests.factories import NOON, SECOND

pytestmark = marks.both


@pytest.fixture
def scheduler():
    """One that has looked at `seen`, so many seconds ago."""

    def at_rest(*, ago=0.0, ready=None, **seen):
        times = ("due", "overdue", "unanswered", "dead", "unpause", "paused")
        executor = Executor(slots=1, client=Client(allow=(), deny=(), pool=1), wake=None)
        found = Scheduler(loop=None, lease=None, executor=executor)
        found.looked_now = True
        found.seen = Glance(
            now=NOON, told_at=time.monotonic() - ago,
            ready={} if ready is None else {2: NOON + ready * SECOND},
            **{name: NOON + seen[name] * SECOND if name in seen else None for name in times},
        )  # fmt: skip
        return found

    return at_rest


A_POLL = 1000  # s: however slow this machine is
close = partial(pytest.approx, abs=100)


@pytest.mark.parametrize(
    ("seen", "rest"),
    [
        ({}, A_POLL),
        ({"due": 3600}, A_POLL),
        ({"due": 800}, close(800)),
        ({"due": 800, "ready": 500}, close(500)),
        ({"due": 800, "ago": 400}, close(400)),
        ({"due": 800, "ago": 900}, LEAST_SECONDS),  # it came meanwhile
        ({"due": 3600, "ago": 400}, A_POLL),  # from the end of a round
        ({"unanswered": 500}, close(500)),
        ({"unanswered": -1}, CONTENDED_SECONDS),  # somebody else ends it
    ],
)
def test_a_scheduler_sleeps_until_the_next_moment_and_never_longer_than_a_poll(
    scheduler, seen, rest, settings
):
    settings.CRONJOB_POLL_SECONDS = A_POLL
    assert scheduler(**seen).rest() == rest


def test_what_takes_long_is_begun_earlier_and_what_comes_meanwhile_goes_along():
    quick, slow = TO_CLAIM.of(0.005), TO_CLAIM.of(0.03)
    assert TO_CLAIM.least < quick.least < slow.least
    assert slow.pause > quick.pause > TO_CLAIM.pause
    assert IN_TIME.of(0.03) == IN_TIME


def test_what_came_late_is_begun_so_much_earlier_the_next_time_and_for_some_seconds(scheduler):
    busy = scheduler(ready=0.0)
    busy.seen = replace(busy.seen, told_at=time.monotonic() - 0.03)
    busy.learn(time.monotonic() - 0.02, busy.seen)  # 30 ms after it was due
    first = busy.lasts
    assert 0.03 <= first <= LONG_SECONDS
    busy.learn(time.monotonic(), busy.seen)
    assert first < busy.lasts <= LONG_SECONDS
    busy.learn(time.monotonic() - 10, busy.seen)
    assert busy.lasts == LONG_SECONDS
    busy.lasted_at -= 10 * LATELY_SECONDS
    early = scheduler(ready=1.0).seen  # long before it is due
    busy.learn(time.monotonic(), replace(early, told_at=time.monotonic()))
    assert busy.lasts < 0.001


def test_where_there_are_several_priorities_nothing_is_claimed_far_ahead(scheduler):
    busy = scheduler(ready=0.05)
    busy.lasts = 0.04
    assert busy.lead_of(busy.seen, NOON) == TO_CLAIM.of(0.04)
    busy.seen.ready[1] = NOON
    assert busy.lead_of(busy.seen, NOON) == TO_CLAIM


@pytest.mark.parametrize(
    ("at", "done", "most"),
    [
        (1, 1, TO_MAKE.pause),  # what comes after that is not seen yet
        (1, 0, TO_MAKE.pause / 2),  # it is somebody else's; ours may come behind it
        (0.001, 0, 0.001),  # it waits until it is due
        (-1, 0, CONTENDED_SECONDS),
    ],
)
def test_after_what_was_done_or_could_not_be_a_scheduler_soon_looks_again(
    scheduler, at, done, most, settings
):
    settings.CRONJOB_POLL_SECONDS = A_POLL
    resting = scheduler()
    resting.tried(TO_MAKE, NOON + at * SECOND, NOON, done=done)
    assert resting.again - time.monotonic() <= most
    assert resting.rest() <= max(most, LEAST_SECONDS)


def test_what_was_gone_when_it_was_to_be_done_is_looked_for_at_once(scheduler):
    resting = scheduler()
    resting.looked_now = False
    resting.tried(TO_MAKE, NOON, NOON, done=0)
    assert resting.rest() == 0


def test_what_is_due_begins_as_it_is_made_unless_another_waits_for_a_slot(scheduler):
    alone = scheduler(due=0)
    assert alone.making(alone.seen, NOON) == (TO_BEGIN, 1)
    later = scheduler(due=0, ready=9)
    assert later.making(later.seen, NOON) == (TO_BEGIN, 1)
    behind_another = scheduler(due=0, ready=0.0)
    assert behind_another.making(behind_another.seen, NOON) == (TO_MAKE, 0)
    beside_a_pause = scheduler(due=0, paused=-9)
    assert beside_a_pause.making(beside_a_pause.seen, NOON) == (TO_MAKE, 0)
    full = scheduler(due=0)
    full.executor.slots = 0
    assert full.making(full.seen, NOON) == (TO_MAKE, 0)


def test_where_more_waits_than_was_taken_twice_as_much_is_taken_as_made(scheduler, monkeypatch):
    busy, done = scheduler(due=0, ready=0.0), []
    busy.lease = SimpleNamespace(lost=False, holds=lambda: True)
    monkeypatch.setattr(busy, "look", lambda: busy.seen)
    monkeypatch.setattr(busy, "tidy", lambda *_: None)
    monkeypatch.setattr(busy, "make", lambda *_: done.append("make") or 1)
    left = iter([True, True, True, False, False])
    monkeypatch.setattr(busy, "take", lambda *_: (done.append("take") or 1, next(left)))
    assert [busy.beat() for _ in range(4)] == [0, 0, 0, 0]
    busy.beat()
    assert done == ["make", "take", "take", "make", "take", "take", "make", "take"]


def test_while_claims_fail_runs_are_made_all_the_same(scheduler, monkeypatch):
    busy, made = scheduler(due=0, ready=0.0), []
    busy.lease = SimpleNamespace(lost=False, holds=lambda: True)
    monkeypatch.setattr(busy, "look", lambda: busy.seen)
    monkeypatch.setattr(busy, "tidy", lambda *_: None)
    monkeypatch.setattr(busy, "make", lambda *_: made.append(1) or 1)
    busy.behind = True

    def take(*_):
        raise RuntimeError

    monkeypatch.setattr(busy, "take", take)
    for _ in range(3):
        busy.careful_beat()
        busy.seen = scheduler(due=0).seen
    assert len(made) == 2
