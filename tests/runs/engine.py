"""The steps of the engine, one by one, without threads and without a network."""

from runs.calls import Outcome
from runs.claim import AGED, claim
from runs.glance import glance
from runs.models import Process, TaskRun
from runs.settle import settle
from tasks.models import Priority
from tests.factories import NOON

EVERY_PRIORITY = list(Priority)


def claimed(now=NOON, *, room=100, owner="a", priorities=EVERY_PRIORITY):
    registered(owner)
    longest = glance().longest
    first = None if longest is None else (longest, room // AGED)
    return claim(now, owner=owner, room=room, priorities=priorities, first=first).runs


def registered(owner):
    """Only a process that is alive may own a run."""
    seen = {"host": "here", "pid": 1, "started_at": NOON, "last_seen": NOON, "lease_until": NOON}
    Process.objects.get_or_create(name=owner, defaults=seen)


def outcome(run, **fields):
    of = {"run_id": run.pk, "fence": run.fence, "attempt": run.attempt}
    return Outcome(**(of | {"ok": True, "code": 200, "method": "GET", "url": "http://x/"} | fields))


def failed(run, **fields):
    return outcome(run, **({"ok": False, "kind": "http", "code": 503, "message": "503"} | fields))


def settled(run, what=outcome, *, now=NOON, **fields):
    """Whether it was still its to settle."""
    return run.pk in settle([(run, what(run, **fields))], now=now)


def fresh(run):
    return TaskRun.objects.get(pk=run.pk)
