"""The whole scheduler in a thread of the test, against a real server on loopback."""

import math
import threading
import time
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import F

from cronjob.lib import clock, http
from cronjob.lib.loop import Loop
from cronjob.lib.wakeup import Listener
from runs import pauses, standing, trigger
from runs.executor import Executor
from runs.lease import Lease
from runs.models import Process, TaskRun
from runs.rescue import rescue
from runs.scheduler import TIDY_SECONDS, Scheduler
from runs.states import FINAL
from tasks.models import Task
from tests import marks
from tests.factories import SECOND, make_run, make_task
from tests.lib.peers import Peer, read_on
from tests.target import Target

pytestmark = [*marks.committing, pytest.mark.usefixtures("hints")]

PATIENCE = 30.0
MS = SECOND / 1000
tick = threading.Event()  # never set: to wait a moment


@pytest.fixture
def target():
    with Target() as server:
        yield server


def schedule(loop, *, slots=4, **options):
    lease = Lease(slots=slots, wake=loop.wake)
    lease.start()
    client = http.Client(allow=(), deny=(), pool=slots)
    executor = Executor(slots=slots, client=client, wake=loop.wake)
    scheduler = Scheduler(loop=loop, lease=lease, executor=executor)
    listener = Listener(scheduler.hint)
    listener.start()
    try:
        scheduler.run(**options)
    finally:
        listener.stopping.set()
        listener.join()
        client.close()


@contextmanager
def scheduling(**options):
    """A scheduler at work until the block ends; then it drains."""
    loop, failed = Loop(), []

    def work():
        try:
            schedule(loop, **options)
        except BaseException as error:
            failed.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield loop
    finally:
        loop.asked_to_stop = 1
        loop.wake()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not failed, failed


def until(condition, *, seconds=PATIENCE):
    for _ in range(int(seconds / 0.02)):
        if found := condition():
            return found
        tick.wait(0.02)
    raise AssertionError("it did not come about")


def ended(**filters):
    return until(lambda: TaskRun.objects.filter(status__in=FINAL, **filters).first())


def new(target, path="/status/200", **fields):
    """A task that is due now, or was."""
    values = {"name": "mine", "schedule_kind": "MANUAL", "target_url": target.url(path)}
    task = Task(**(values | fields))
    standing.create(task, now=clock.now())
    return task


def test_a_due_task_is_called_and_its_answer_kept(target):
    now = clock.now()
    task = new(
        target, "/echo", schedule_kind="ONCE", run_at=now + SECOND / 5, http_method="POST",
        headers={"X-Mine": "{{ run_id }}"}, body_template='{"due": {{ scheduled_time|tojson }}}',
    )  # fmt: skip
    with scheduling():
        run = ended(task=task)
    (request,) = target.wait_for(1)
    assert (run.status, run.response_code, run.attempt) == ("SUCCESS", 200, 1)
    assert request.headers["X-Mine"] == str(run.pk)
    assert request.headers["Idempotency-Key"].startswith(str(task.uuid))
    assert b'"due"' in request.body
    assert '"method": "POST"' in run.response_body
    assert run.timings["total_ms"] is not None


def test_no_call_comes_before_its_moment(target):
    first = clock.now() + SECOND
    for n in range(20):
        new(target, name=f"{n}", schedule_kind="ONCE", run_at=first + n * SECOND / 27)
    with scheduling():
        requests = target.wait_for(20)
        until(lambda: TaskRun.objects.filter(status="SUCCESS").count() == 20)
    since = clock.now() - time.monotonic() * SECOND  # when the clock of the target stood at zero
    due = dict(TaskRun.objects.values_list("pk", "due_at"))
    for request in requests:
        assert since + request.at * SECOND > due[int(request.headers["X-Cronjob-Run-Id"])] - MS
    assert {*TaskRun.objects.values_list("trigger", flat=True)} == {"SCHEDULE"}
    assert not TaskRun.objects.filter(start_time__lt=F("due_at")).exists()


def test_what_is_another_schedulers_to_make_does_not_hide_our_own_behind_it(
    target, settings, monkeypatch
):
    settings.CRONJOB_POLL_SECONDS = 600
    monkeypatch.setattr("runs.materialise.LEFT_TO_LIE", timedelta(hours=1))
    soon = clock.now() + 2 * SECOND
    theirs = new(target, name="theirs", schedule_kind="ONCE", run_at=soon)
    ours = new(target, name="ours", schedule_kind="ONCE", run_at=soon + SECOND / 5)
    assert theirs.pk % 2 != ours.pk % 2
    monkeypatch.setattr(Lease, "share", lambda _: (ours.pk % 2, 2))
    with scheduling():
        ended(task=ours)
    assert not TaskRun.objects.filter(task=theirs).exists()


def test_a_failing_target_is_called_again_until_its_retries_are_spent(target):
    policy = {"max_retries": 2, "initial_delay": 0, "strategy": "fixed"}
    task = new(target, "/status/503", retry_policy=policy)
    with scheduling():
        run = trigger.trigger(task.pk, now=clock.now())
        found = ended(pk=run.pk)
    assert (found.status, found.attempt, found.response_code) == ("FAILED", 3, 503)
    assert len(found.attempts) == 2
    assert len(target.wait_for(3)) == 3


def test_a_target_that_hangs_is_a_timeout(target):
    task = new(target, "/silent", timeout_seconds=0.2)
    with scheduling():
        found = ended(pk=trigger.trigger(task.pk, now=clock.now()).pk)
    assert (found.status, found.error_kind) == ("TIMEOUT", "timeout")


def test_a_call_in_flight_is_cut_off_when_its_run_is_canceled(target):
    task = new(target, "/silent", timeout_seconds=60)
    with scheduling():
        run = trigger.trigger(task.pk, now=clock.now())
        target.wait_for(1, timeout=PATIENCE)
        trigger.cancel(run, reason="enough", now=clock.now())
        next_one = trigger.trigger(new(target, name="other").pk, now=clock.now())
        ended(pk=next_one.pk)
    assert TaskRun.objects.get(pk=run.pk).status == "CANCELED"


def test_once_calls_what_is_due_and_ends(target):
    task = new(target)
    runs = [trigger.trigger(task.pk, now=clock.now()) for _ in range(3)]
    schedule(Loop(), once=True)
    assert {TaskRun.objects.get(pk=run.pk).status for run in runs} == {"SUCCESS"}
    assert not Process.objects.exists()


def test_the_lease_of_a_scheduler_that_ends_is_gone_and_nothing_is_left_running(target):
    task = new(target, concurrency_policy="PARALLEL")
    for _ in range(20):
        trigger.trigger(task.pk, now=clock.now())
    with scheduling(slots=2):
        target.wait_for(2, timeout=PATIENCE)
    assert not Process.objects.exists()
    assert not TaskRun.objects.filter(status="RUNNING").exists()


def test_what_a_dead_process_left_behind_is_called_again(target, settings):
    settings.CRONJOB_LEASE_SECONDS, settings.CRONJOB_BEAT_SECONDS = 1.0, 0.2
    now = clock.now()
    task = make_task(target_url=target.url("/status/200"), schedule_kind="MANUAL")
    run = make_run(
        task=task, trigger="MANUAL", status="RUNNING", attempt=1, fence=1, owner="ghost",
        start_time=now, deadline_at=now + timedelta(hours=1), slot=1,
    )  # fmt: skip
    with scheduling():
        found = ended(pk=run.pk)
    assert (found.status, found.attempt, found.lost) == ("SUCCESS", 2, 1)
    assert found.attempts[0]["error_kind"] == "lost"


def test_a_task_whose_template_cannot_be_filled_fails_itself_alone(target):
    bad = new(target, name="bad")
    Task.objects.filter(pk=bad.pk).update(body_template="{{ nonsense }}", http_method="POST")
    with scheduling():
        first = ended(pk=trigger.trigger(bad.pk, now=clock.now()).pk)
        second = ended(pk=trigger.trigger(new(target).pk, now=clock.now()).pk)
    assert (first.status, first.error_kind) == ("FAILED", "template")
    assert second.status == "SUCCESS"


def test_once_goes_past_what_waits_for_a_slot_of_its_own_task(target):
    full = new(target, name="full", max_concurrency=0)
    for _ in range(6):
        trigger.trigger(full.pk, now=clock.now())
    good = trigger.trigger(new(target).pk, now=clock.now())
    schedule(Loop(), once=True)
    assert TaskRun.objects.get(pk=good.pk).status == "SUCCESS"


def test_very_many_that_wait_for_a_slot_of_their_own_task_do_not_hold_up_others(
    target, monkeypatch
):
    busy = new(target, name="busy", max_concurrency=0)
    for _ in range(200):
        trigger.trigger(busy.pk, now=clock.now())
    good = trigger.trigger(new(target).pk, now=clock.now())
    rests, right = [], Scheduler.beat

    def beat(self):
        rests.append(right(self))
        return rests[-1]

    monkeypatch.setattr(Scheduler, "beat", beat)
    with scheduling(slots=1):
        ended(pk=good.pk)
    before = rests[: rests.index(next(rest for rest in rests if rest > 0))]
    assert 2 < len(before) < 10  # it looks further from round to round, and never rests


def test_a_canceled_call_is_cut_off_within_a_second_however_seldom_the_scheduler_polls(
    target, settings
):
    settings.CRONJOB_POLL_SECONDS = 600
    with scheduling() as loop, Peer(read_on) as peer:
        run = trigger.trigger(
            make_task(schedule_kind="MANUAL", target_url=peer.url, timeout_seconds=600).pk,
            now=clock.now(),
        )
        loop.wake()
        until(lambda: peer.connections)
        trigger.cancel(run, reason="enough", now=clock.now())
        loop.wake()  # comes too soon after the last look
        assert peer.ended.wait(PATIENCE)


def test_a_call_that_we_broke_off_ourselves_is_no_failure_of_its_target(target, settings):
    settings.CRONJOB_BATCH_MAX, settings.CRONJOB_BEAT_SECONDS = 1, 1.0
    policy = {"max_retries": 0, "initial_delay": 0, "strategy": "fixed"}
    task = new(target, "/hold", timeout_seconds=60, retry_policy=policy, max_concurrency=2)
    for _ in range(2):
        trigger.trigger(task.pk, now=clock.now())
    with scheduling():
        target.wait_for(2, timeout=PATIENCE)
        Process.objects.update(lease_until=clock.now() - SECOND)
        assert rescue(clock.now()) == 1  # of two: the other still has its fence
        until(lambda: TaskRun.objects.filter(lost=1).count() == 2)
        for run in TaskRun.objects.all():
            assert (run.status, run.error_kind) == ("RETRYING", "lost")
            trigger.cancel(run, reason="", now=clock.now())


@contextmanager
def counting(monkeypatch):
    """What a scheduler and its lease ask the database."""
    asked = []

    def counted(execute, sql, params, many, context):
        asked.append(sql)
        return execute(sql, params, many, context)

    def wrapped(right):
        def run(self, **options):
            with connection.execute_wrapper(counted):
                return right(self, **options)

        return run

    with monkeypatch.context() as patched:
        patched.setattr(Scheduler, "run", wrapped(Scheduler.run))
        patched.setattr(Lease, "renew", wrapped(Lease.renew))
        yield asked


def nothing_to_do(target):
    new(target, schedule_kind="ONCE", run_at=clock.now() + timedelta(days=1))


def something_held(target):
    now = clock.now()
    task = make_task(start_deadline_seconds=1, schedule_kind="MANUAL")
    make_run(task=task, moment=now - timedelta(minutes=1))
    pauses.pause(tag="", reason="", until=None, now=now)


def something_that_waits(target):
    full = new(target, name="full", max_concurrency=0)
    trigger.trigger(full.pk, now=clock.now())


@pytest.mark.parametrize("rest", [nothing_to_do, something_held, something_that_waits])
def test_at_rest_it_asks_the_database_little(target, monkeypatch, rest):
    """A poll a second, a renewed lease and a sweep every five; SQLite's watcher asks nothing."""
    rest(target)
    with counting(monkeypatch) as asked, scheduling():
        until(lambda: len(asked) > 1)
        tick.wait(1)  # the first rounds tidy, and park what waits
        del asked[:]
        begun = time.monotonic()
        tick.wait(6)
        number, passed = len(asked), time.monotonic() - begun
    sweep = 5 if rest is nothing_to_do else 9  # what is held or waits is looked at by it
    most = often(1, 1, passed) + often(2, settings.CRONJOB_BEAT_SECONDS, passed)
    assert 3 <= number <= most + often(sweep, TIDY_SECONDS, passed), asked


def often(number, every, seconds):
    """At most, in so many seconds."""
    return number * (math.floor(seconds / every) + 1)


def test_the_settings_of_these_tests_let_leases_hold():
    assert settings.CRONJOB_LEASE_SECONDS > settings.CRONJOB_BEAT_SECONDS


def test_once_makes_all_that_is_due_though_claims_end_much_of_it(target, settings):
    settings.CRONJOB_BATCH_MAX = 5
    long_ago = clock.now() - timedelta(seconds=30)
    for number in range(20):
        late = {"start_deadline_seconds": 1} if number < 12 else {}
        make_task(
            schedule_kind="ONCE", run_at=long_ago, next_run_at=long_ago,
            target_url=target.url("/status/200"), **late,
        )  # fmt: skip
    schedule(Loop(), slots=16, once=True)
    assert not Task.objects.filter(next_run_at__isnull=False).exists()
    found = Counter(TaskRun.objects.values_list("status", flat=True))
    assert found == {"MISSED": 12, "SUCCESS": 8}
