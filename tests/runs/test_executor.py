"""Calls: as many at once as there are slots, and threads for those that nobody can watch."""

import math
import threading
import time
from functools import partial
from uuid import uuid4

import pytest

from cronjob.lib import clock, http, wire
from runs import calls, executor, trigger
from runs.models import TaskRun
from tasks.models import Task
from tests import marks
from tests.lib.peers import OK, Peer, read_head, read_on, request, saying
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


def test_targets_that_take_their_time_are_waited_for_by_one_thread(target, executors):
    task = new(target, "/hold", concurrency_policy="PARALLEL", timeout_seconds=600)
    many = 3 * executor.FEW
    for _ in range(many):
        trigger.trigger(task.pk, now=clock.now())
    with scheduling(slots=many):
        assert len(target.wait_for(many, timeout=PATIENCE)) == many
        until(lambda: executors[0].queue.empty())
        assert len(executors[0].threads) < many
        target.release()


def test_a_run_taken_for_a_slot_that_does_not_come_free_is_given_back(
    target, executors, monkeypatch
):
    tasks = [new(target, "/hold", timeout_seconds=600), new(target, name="another")]
    runs = [trigger.trigger(task.pk, now=clock.now()) for task in tasks]
    paces = [1 / executor.SOON_SECONDS]
    monkeypatch.setattr(executor.Pace, "of_late", lambda pace: paces[-1])
    with scheduling(slots=1):
        target.wait_for(1)
        until(lambda: len(executors[0].held) == 2)
        paces.append(0)
        given_back = TaskRun.objects.filter(status="SCHEDULED", attempt=0, fence__gt=1)
        assert until(given_back.first) == runs[1]
        assert len(executors[0].held) == 1
        target.release()
        assert {ended(pk=run.pk).attempt for run in runs} == {1}


def unwatchable(sock):
    """An answer of which only reading tells where it ends."""
    read_head(sock)
    sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
    read_on(sock)


def test_answers_that_nobody_can_watch_get_threads_up_to_as_many_as_there_are_slots(
    calling, target
):
    many = 3 * executor.FEW
    calling.slots = many + 1
    with Peer(unwatchable) as peer:
        for n in range(many):
            run, call = attempt(target, id=n, fence=1)
            call.request.url = peer.url
            calling.submit(run, call)
        until(lambda: len(calling.threads) >= many)
        calling.submit(*attempt(target, id=many, fence=1))
        target.wait_for(1)  # and others go on
        calling.cut([(n, 1) for n in range(many)])
        until(lambda: len(calling.answers) == many + 1)
    calling.end(patience=PATIENCE)


def test_no_more_is_called_at_once_than_there_are_slots(target, calling):
    for n in range(3):
        calling.submit(*attempt(target, "/hold", id=n, fence=1))
    assert len(target.wait_for(2)) == 2
    until(lambda: calling.watch.watched)
    assert calling.under_way == 2
    assert [held.run.pk for held in calling.unstarted()] == [2]
    target.release()
    until(lambda: len(calling.answers) == 2)
    calling.end(patience=PATIENCE)
    assert calling.under_way == 0


def test_a_slot_is_free_once_its_call_is_answered_and_before_if_they_end_one_after_another(
    target, calling, monkeypatch
):
    calling.submit(*attempt(target, "/hold", id=1, fence=1))
    target.wait_for(1)
    assert calling.free == 1
    target.release()
    until(lambda: calling.answers)
    assert calling.free == 2  # although its answer is not written yet
    calling.release(calling.finished(1))
    assert calling.free == 2
    monkeypatch.setattr(calling.pace, "of_late", lambda: 1 / executor.SOON_SECONDS)
    assert calling.free == 3
    monkeypatch.setattr(calling.pace, "of_late", lambda: 100 / executor.SOON_SECONDS)
    assert calling.free == 4  # never more than the slots once more
    calling.end(patience=PATIENCE)


def test_a_call_that_hangs_where_none_should_holds_up_no_other(target, calling, monkeypatch):
    monkeypatch.setattr(executor, "HUNG_SECONDS", 0.1)
    hung, over = threading.Event(), threading.Event()

    def hang(call, reply, right=calls.outcome):
        if not hung.is_set():
            hung.set()
            over.wait()
        return right(call, reply)

    monkeypatch.setattr(calls, "outcome", hang)
    calling.submit(*attempt(target, id=1, fence=1))
    assert hung.wait(PATIENCE)
    first = calling.watching
    calling.submit(*attempt(target, id=2, fence=1))
    until(lambda: calling.look_after() or calling.answers)
    over.set()
    until(lambda: len(calling.answers) == 2)
    first.join(PATIENCE)
    assert not first.is_alive()
    calling.end(patience=PATIENCE)


def test_what_waits_too_long_for_a_slot_can_be_taken_back(target, calling):
    calling.slots = 1
    calling.submit(*attempt(target, "/hold", id=1, fence=1))
    target.wait_for(1)
    calling.submit(*attempt(target, id=2, fence=1), wait=3600)
    calling.submit(*attempt(target, id=3, fence=1))
    assert not calling.unstarted(late=1)
    calling.held[3, 1].due -= 2
    assert [held.run.pk for held in calling.unstarted(late=1)] == [3]
    assert set(calling.held) == {(1, 1), (2, 1)}
    target.release()
    until(lambda: calling.answers)
    calling.end(patience=PATIENCE)


def test_what_should_have_begun_long_ago_is_not_called_but_taken_back(target, calling):
    """Meanwhile its lease may have run out, and somebody else have called it."""
    calling.slots = 1
    calling.submit(*attempt(target, "/hold", id=1, fence=1))
    target.wait_for(1)
    calling.submit(*attempt(target, id=2, fence=1))
    calling.submit(*attempt(target, id=3, fence=1))
    with calling.lock:
        stale = calling.held[2, 1]
        stale.due -= executor.STALE_SECONDS + 1
    target.release()
    until(lambda: len(calling.answers) == 2)  # the third is called instead
    assert [held.run.pk for held, _ in calling.answers] == [1, 3]
    assert calling.unstarted(late=1) == [stale]
    calling.end(patience=PATIENCE)


def test_what_one_who_was_left_behind_adds_when_it_comes_back_is_watched(
    target, calling, monkeypatch
):
    hung, over = threading.Event(), threading.Event()
    calling.submit(*attempt(target, id=1, fence=1))
    until(lambda: calling.answers)  # its connection is kept

    def hang(request, line, right=calling.client.steps):
        hung.set()
        over.wait()
        return right(request, line)

    monkeypatch.setattr(calling.client, "steps", hang)
    calling.submit(*attempt(target, "/slow?seconds=0.3", id=2, fence=1))
    assert hung.wait(PATIENCE)
    calling.begin_watching()
    until(lambda: calling.sleeping.locked() and calling.busy_since == math.inf)
    over.set()
    until(lambda: len(calling.answers) == 2)
    calling.end(patience=PATIENCE)


def test_who_was_left_behind_and_comes_back_takes_nothing_from_who_follows(
    target, calling, monkeypatch
):
    many, over = 12, threading.Event()
    calling.slots = many

    def hang(*_, right=http.Client.steps):
        monkeypatch.setattr(calling.client, "steps", partial(right, calling.client))
        over.wait()
        return right(calling.client, *_)

    for n in range(many - 1):
        calling.submit(*attempt(target, "/hold", id=n, fence=1))
    until(lambda: len(calling.watch.watched) == many - 1)
    monkeypatch.setattr(calling.client, "steps", hang)
    calling.submit(*attempt(target, id=many, fence=1))
    until(lambda: calling.busy_since < math.inf)
    for _ in range(3):  # also if nobody hangs in truth, and they sleep one behind the other
        calling.begin_watching()
        over.set()
    target.release()
    until(lambda: len(calling.answers) == many)
    assert calling.under_way == 0
    calling.end(patience=PATIENCE)


def test_what_one_who_hangs_had_in_hand_is_gone_on_with_at_once(target, calling):
    run, call = attempt(target, id=1, fence=1)
    calling.ready.append(executor.Held(run, call, steps=calling.client.steps(call.request)))
    calling.under_way = 1
    calling.begin_watching()
    until(lambda: calling.answers)
    calling.end(patience=PATIENCE)


@pytest.mark.parametrize("name", ["calls", "call"])
def test_where_no_thread_can_be_started_calls_wait_until_one_can(
    target, calling, monkeypatch, name
):
    right, refused = threading.Thread.start, []

    def start(thread):
        if thread.name == name and len(refused) < 5:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        right(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    calling.submit(*attempt(target, id=1, fence=1))
    until(lambda: calling.look_after() or calling.answers)
    assert len(refused) == 5
    ((_, outcome),) = calling.answers
    assert (outcome.code, calling.under_way) == (200, 0)
    assert all(thread.is_alive() for thread in calling.threads)
    calling.end(patience=PATIENCE)


def test_a_pace_is_told_as_it_was_of_late_and_fades():
    pace = executor.Pace()
    assert pace.of_late() == 0
    for _ in range(100):
        pace.add()
    assert 100 < pace.of_late() <= 100 / executor.LATELY_SECONDS
    pace.told_at -= 100 * executor.LATELY_SECONDS
    assert pace.of_late() < 0.01


def test_whatever_goes_wrong_in_waiting_is_told_and_calls_go_on(target, calling, monkeypatch):
    def failing(seconds, right=calling.watch.wait):
        monkeypatch.setattr(calling.watch, "wait", right)
        raise OSError("no more")

    monkeypatch.setattr(calling.watch, "wait", failing)
    calling.submit(*attempt(target, id=1, fence=1))
    until(lambda: calling.answers)
    calling.end(patience=PATIENCE)


@pytest.fixture
def calling():
    """An executor, with two attempts that nobody knows of but their target."""
    client = http.Client(allow=(), deny=(), pool=2)
    yield executor.Executor(slots=2, client=client, wake=lambda: None)
    client.close()


def attempt(target, path="/status/200", **ids):
    run = TaskRun(**(ids | {"uuid": uuid4(), "trigger": "MANUAL", "scheduled_time": clock.now()}))
    run.task = Task(id=1, name="mine", target_url=target.url(path))
    return run, calls.prepare(run, now=clock.now())


def test_a_call_claimed_early_waits_for_its_moment(target, calling):
    before = time.monotonic()
    calling.submit(*attempt(target, id=1, fence=1), wait=0.3)
    (request,) = target.wait_for(1)
    assert request.at >= before + 0.3
    calling.end(patience=PATIENCE)


def test_it_is_told_how_long_a_call_waits_for_a_slot(target, calling, monkeypatch):
    told = []
    monkeypatch.setattr(executor.metrics, "observe", lambda *what: told.append(what))
    calling.slots = 0
    calling.submit(*attempt(target, id=1, fence=1))
    (held,) = calling.held.values()
    held.due -= 3
    calling.slots = 1
    calling.watch.bell.ring()
    target.wait_for(1)
    ((name, seconds),) = told
    assert name == "cronjob_executor_wait_seconds"
    assert seconds >= 3
    calling.end(patience=PATIENCE)


def test_a_call_that_waits_for_its_moment_can_be_taken_back(target, calling):
    for n in range(executor.FEW):
        calling.submit(*attempt(target, id=n, fence=1), wait=3600)
    calling.submit(*attempt(target, id=99, fence=1))
    target.wait_for(1)  # it need not wait for them
    assert [held.run.pk for held in calling.unstarted()] == [*range(executor.FEW)]
    calling.end(patience=PATIENCE)
    assert not any(thread.is_alive() for thread in (*calling.threads, calling.watching))
    assert len(target.wait_for(1)) == 1


def test_connections_that_nobody_takes_any_more_are_closed(calling, monkeypatch):
    with Peer(saying(OK, OK)) as peer:
        assert calling.client.send(request(peer.url)).code == 200
        monkeypatch.setattr(wire, "IDLE_SECONDS", 0)
        calling.look_after()
        assert peer.ended.wait(PATIENCE)
    calling.end(patience=PATIENCE)


def test_threads_that_are_not_needed_any_more_end(target, calling, monkeypatch):
    monkeypatch.setattr(executor, "IDLE_SECONDS", 0.1)
    calling.slots = 2 * executor.FEW
    calling.grow(2 * executor.FEW)
    until(lambda: len(calling.threads) == executor.FEW)
    calling.submit(*attempt(target, id=1, fence=1))
    target.wait_for(1)
    calling.end(patience=PATIENCE)
