"""Threads that begin together, round after round, and what has to hold after each of them."""

import itertools
import json
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from django.db import connection

from callbacks import target
from callbacks.models import AsyncCallback
from runs import trigger
from runs.models import TaskRun
from runs.rescue import expire, rescue
from runs.states import FINAL, TRANSITIONS, Status
from tests.callbacks.reports import make_async, post, said
from tests.factories import MINUTE, NOON, SECOND, make_run
from tests.runs.engine import claimed, failed, fresh, outcome, settled
from tests.runs.test_races import patiently

FIRST_STEP, STEP = 0.003, 0.0003  # seconds by which who won is held back the next time
SPREAD = 0.0015  # seconds of pure chance, either way
SWITCH = 0.0002  # seconds after which Python looks at another thread
BATCH = 20
LATE = 4  # after one round in so many somebody reports once more
AGES = 1000 * 365 * 24 * 60 * MINUTE  # when whatever could still happen has happened
FOR_EVER = ("status", "reason", "end_time", "attempt", "slot", "error_kind", "error_message")

marks = itertools.count(1)


def rounds():
    """How often each race is run; on SQLite, where every commit waits for the disk, fewer."""
    asked = int(os.environ.get("RACE_ROUNDS", 0))
    if connection.vendor == "postgresql":
        return asked or 25
    return max(1, asked // 10) if asked else 8


class Race:
    """Two threads that stay, each with its own connection; whoever wins gives way next time."""

    def __init__(self, *, seed):
        self.dice = random.Random(seed)
        self.pool, self.gate = ThreadPoolExecutor(2), threading.Barrier(2)
        self.ends, self.winners = {}, Counter()
        self.late = 0.0  # by how much the first waits, or, if negative, the second
        self.step, self.second_won = FIRST_STEP, None

    def rounds(self, *states, batch=BATCH, each_its_own=False, **fields):
        """A run in one of these states, and a token of it, for each round; then, what is for ever.

        Runs are called in batches, of one task or each of its own; those of the same batch come
        into their state two seconds one after the other.
        """
        shared = None if each_its_own else make_async(max_concurrency=batch, **fields)
        for number in range(rounds()):
            place = number % batch
            now = NOON + number // batch * 10 * MINUTE
            if not place:
                tasks = (shared or make_async(**fields) for _ in range(batch))
                tokens = called(tasks, now=now)
            run, token = tokens[place]
            yield self.dice.choice(states)(run, now + 2 * place * SECOND), token
            if run.pk not in self.ends:
                canceled(run, now=now)
        self.nothing_changes_any_more()

    def __call__(self, *works):
        """What each of them returned; what it raised is raised here."""
        late = self.late + self.dice.uniform(-SPREAD, SPREAD)
        begun = [
            self.pool.submit(self.begin, work, wait)
            for work, wait in zip(works, (late, -late), strict=True)
        ]
        return [each.result(60) for each in begun]

    def begin(self, work, wait):
        self.gate.wait(30)
        if wait > 0:
            threading.Event().wait(wait)
        return work()

    def came_first(self, other, second):
        """Count who it was: `other` if it was the second of the works, else the report."""
        self.winners[other if second else "report"] += 1
        if self.second_won != bool(second):  # we are about where either may win
            self.step, self.second_won = max(STEP, self.step / 2), bool(second)
        self.late += -self.step if second else self.step

    def checked(self, run, token, *told):
        """What holds after every round. The run as it is now."""
        now = fresh(run)
        if now.status in FINAL:
            self.ends[now.pk] = values(now)
            if not self.dice.randrange(LATE):
                told = (*told, report(token, self.dice.choice(("SUCCESS", "FAILED")))())
                assert values(fresh(run)) == values(now)
        assert (now.slot is None) == (now.template is None) == (now.status in FINAL)
        moved_legally(now)
        accounted(now, told)
        return now

    def nothing_changes_any_more(self):
        expire(NOON + AGES)
        rescue(NOON + AGES)
        assert claimed(NOON + AGES) == []
        stored = {run.pk: values(run) for run in TaskRun.objects.filter(pk__in=self.ends)}
        assert stored == self.ends

    def close(self):
        self(*2 * [lambda: connection.close()])  # each the one of its own thread
        self.pool.shutdown()


@contextmanager
def racing(seed) -> Iterator[Race]:
    """The two threads, and a record of every move that any run makes meanwhile."""
    interval, race = sys.getswitchinterval(), Race(seed=seed)
    record()
    sys.setswitchinterval(SWITCH)
    try:
        yield race
    finally:
        sys.setswitchinterval(interval)
        race.close()
        forget()


# --- in which state they are --------------------------------------------------------------------


def called(tasks, *, now):
    """A run of each of these whose call is under way, and the token that it was given."""
    for number, task in enumerate(tasks, 1):
        most = task.retry_policy["max_retries"] + 1
        make_run(task=task, moment=now - number * SECOND, max_attempts=most)
    runs = claimed(now)
    issued = target.issue(runs)
    return [(run, issued[run.pk][1]) for run in runs]


def running(run, now):
    return run


def pending(run, now):
    assert settled(run, outcome, now=now, asynchronous=True)
    return fresh(run)


def retrying(run, now):
    """Its first attempt failed; the token is of that one."""
    assert settled(run, failed, now=now)
    return fresh(run)


# --- what they do -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What somebody reported, and what was answered: how the run ended, or an error."""

    mark: int
    says: str
    code: int
    final: str | None


def report(token, says, *, api=None, **fields):
    """Posts, once, by ids if there is no token; what is not written would be a report lost."""
    mark = next(marks)
    body = {"status": says, "data": mark, "error_message": "no disk"} | fields

    def work():
        return Told(mark, says, *said(post(token, body, api=api)))

    return work


def patient(work, *args, **fields):
    """What the scheduler does, which comes again if the database is busy."""
    return partial(patiently, partial(work, *args, **fields))


def canceled(run, *, now):
    try:
        trigger.cancel(run, reason="enough", now=now)
    except trigger.NotPossible:
        return False
    return True


# --- what has to hold ---------------------------------------------------------------------------


def accounted(run, told):
    """Each report was answered, is kept once, and was told what holds; at most one ended it."""
    shown = {"CALLBACK_SUCCESS": "SUCCESS"}.get(run.status, run.status)
    rows = list(AsyncCallback.objects.filter(task_run=run.pk).order_by("id"))
    order = [json.loads(row.body)["data"] for row in rows]
    assert sorted(order) == sorted(one.mark for one in told if not only_progress(one))
    counted = {mark for mark, row in zip(order, rows, strict=True) if row.status == "RECEIVED"}
    for one in told:
        assert one.code in (200, 410), one
        if one.code == 410:
            assert one.mark not in counted
        elif one.mark in counted:
            assert one.final in ((one.says,) if one.says == "SUCCESS" else ("FAILED", None))
        elif not only_progress(one):
            assert one.final is not None
        assert one.code == 410 or one.final in (None, shown), (one, run.status)
    ending = [one for one in told if one.mark in counted and one.final]
    assert len(ending) <= 1
    if ending:
        assert order[len(counted) - 1] == ending[0].mark  # what came after it did not count
        kind = "callback" if ending[0].says == "FAILED" else ""
        assert (shown, run.error_kind) == (ending[0].says, kind)
    assert bool(ending) or run.status != Status.CALLBACK_SUCCESS


def values(run):
    return [getattr(run, name) for name in FOR_EVER]


def only_progress(told):
    return told.says == "RUNNING" and told.final is None


def moved_legally(run):
    """From being planned to where it is now, step by step, each of them legal."""
    at = Status.SCHEDULED
    for old, new in moves(run):
        assert old == at
        assert new in TRANSITIONS[old], f"{old} -> {new}"
        at = Status(new)
    assert at == run.status


def moves(run):
    with connection.cursor() as cursor:
        cursor.execute("SELECT old, new FROM race_moves WHERE run = %s ORDER BY id", [run.pk])
        return cursor.fetchall()


RECORD = {
    "postgresql": [
        "CREATE TABLE race_moves (id bigserial PRIMARY KEY, run bigint, old text, new text)",
        "CREATE FUNCTION race_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO race_moves (run, old, new) VALUES (OLD.id, OLD.status, NEW.status);"
        " RETURN NULL; END $$",
        "CREATE TRIGGER race_moved AFTER UPDATE ON task_runs FOR EACH ROW"
        " WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION race_moved()",
    ],
    "sqlite": [
        "CREATE TABLE race_moves (id integer PRIMARY KEY, run integer, old text, new text)",
        "CREATE TRIGGER race_moved AFTER UPDATE ON task_runs WHEN OLD.status <> NEW.status BEGIN"
        " INSERT INTO race_moves (run, old, new) VALUES (OLD.id, OLD.status, NEW.status); END",
    ],
}
FORGET = {
    "postgresql": ["DROP FUNCTION race_moved() CASCADE", "DROP TABLE race_moves"],
    "sqlite": ["DROP TRIGGER race_moved", "DROP TABLE race_moves"],
}


def record():
    """Let the database itself write down which moves are made, by whatever statement."""
    executed(RECORD)


def forget():
    executed(FORGET)


def executed(statements):
    with connection.cursor() as cursor:
        for statement in statements[connection.vendor]:
            cursor.execute(statement)
        if statements is RECORD:
            cursor.execute("CREATE INDEX race_moves_of_run ON race_moves (run)")
