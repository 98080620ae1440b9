"""What is promised of calls, each by its name: whole schedulers against a real server."""

import re
import threading
from collections import Counter

import pytest
from django.db import OperationalError, connection

from cronjob.lib import clock, http, metrics
from cronjob.lib.loop import Loop
from runs import calls, executor, trigger
from runs.executor import Executor
from runs.lease import Lease
from runs.materialise import materialise
from runs.models import TaskRun
from runs.scheduler import Scheduler
from tasks.models import Task
from tests import marks
from tests.factories import NOON, SECOND, make_api, make_run, make_task
from tests.lib.peers import Peer, full, read_on
from tests.runs.engine import claimed, fresh, settled
from tests.runs.test_races import at_once, patiently
from tests.runs.test_scheduler import PATIENCE, ended, new, scheduling, until
from tests.target import Answer, Target

pytestmark = marks.committing

AGAIN = {"max_retries": 1, "initial_delay": 0, "strategy": "fixed"}
NEVER_AGAIN = AGAIN | {"max_retries": 0}


@pytest.fixture
def target():
    with Target() as server:
        yield server


def triggered(target, path, **fields):
    task = new(target, path, name=f"{path} {Task.objects.count()}", **fields)
    return trigger.trigger(task.pk, now=clock.now())


def called(target, *paths, **fields):
    """A run for each path, with all that became of it."""
    fields.setdefault("retry_policy", AGAIN)
    asked = [triggered(target, path, **fields) for path in paths]
    with scheduling():
        return [ended(pk=run.pk) for run in asked]


def became(runs):
    return {(run.status, run.attempt, run.error_kind) for run in runs}


# --- what is tried again --------------------------------------------------------------------------


def test_a_network_error_is_tried_again(target):
    runs = called(target, "/close", "/early-close")
    runs += called(target, "/", target_url="http://127.0.0.1:9/nobody-listens")
    assert became(runs) == {("FAILED", 2, "connect")}


def test_an_answer_that_breaks_off_or_is_not_http_is_tried_again(target):
    assert became(called(target, "/half", "/wrong")) == {("FAILED", 2, "body")}


def test_a_server_error_is_tried_again(target):
    runs = called(target, *(f"/status/{code}" for code in (500, 502, 503, 504)))
    assert became(runs) == {("FAILED", 2, "http")}


def test_a_target_that_is_busy_is_tried_again(target):
    runs = called(target, *(f"/status/{code}" for code in (408, 425, 429)))
    assert became(runs) == {("FAILED", 2, "http")}


def test_any_other_refusal_and_a_redirect_are_final(target):
    refusals = (f"/status/{code}" for code in (400, 401, 403, 404, 409, 410, 422))
    runs = called(target, *refusals, "/redirect?to=/echo", "/redirect?status=307&to=/echo")
    assert became(runs) == {("FAILED", 1, "http")}


def test_a_timeout_is_tried_again(target):
    assert became(called(target, "/silent", timeout_seconds=0.2)) == {("TIMEOUT", 2, "timeout")}


def test_a_run_that_timed_out_is_tried_again_only_within_its_limit(target):
    policy = AGAIN | {"max_retries": 2}
    (run,) = called(target, "/silent", timeout_seconds=0.1, retry_policy=policy)
    assert (run.status, run.attempt, run.max_attempts) == ("TIMEOUT", 3, 3)
    assert [entry["error_kind"] for entry in run.attempts] == ["timeout", "timeout"]
    assert len(target.requests) == 3


def test_a_run_that_succeeds_within_its_retries_is_a_success(target):
    target.answers("/moody", [Answer(status=503), Answer(status=500), Answer(body=b"at last")])
    (run,) = called(target, "/moody", retry_policy=AGAIN | {"max_retries": 5})
    assert (run.status, run.attempt, run.response_body) == ("SUCCESS", 3, "at last")
    assert [entry["response_code"] for entry in run.attempts] == [503, 500]
    assert (run.error_kind, run.next_retry_time) == ("", None)


def test_every_attempt_of_a_run_carries_the_same_idempotency_key(target):
    called(target, "/status/503", retry_policy=AGAIN | {"max_retries": 2})
    sent = [request.headers for request in target.requests]
    assert [headers["X-Cronjob-Attempt"] for headers in sent] == ["1", "2", "3"]
    assert len({headers["Idempotency-Key"] for headers in sent}) == 1


@pytest.mark.parametrize(("asked", "waits"), [(1, 5), (90, 90), (5000, 100)])
def test_a_target_may_ask_for_a_longer_delay_up_to_a_limit(target, asked, waits, settings):
    settings.CRONJOB_RETRY_AFTER_MAX_SECONDS = 100
    policy = AGAIN | {"initial_delay": 5}
    run = triggered(target, f"/status/429?retry_after={asked}", retry_policy=policy)
    with scheduling():
        kept = until(lambda: TaskRun.objects.filter(pk=run.pk, status="RETRYING").first())
    assert kept.next_retry_time == kept.updated_at + waits * SECOND


# --- deadlines ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/silent", "/drip", "/drip-headers"])
def test_the_whole_call_has_a_deadline_however_its_answer_comes(target, path):
    (run,) = called(target, path, timeout_seconds=0.3, retry_policy=NEVER_AGAIN)
    assert became([run]) == {("TIMEOUT", 1, "timeout")}


def test_connecting_has_a_deadline_of_its_own(target):
    fields = {"connect_timeout_seconds": 0.2, "timeout_seconds": 600}
    with full() as port:
        url = f"http://127.0.0.1:{port}/"
        runs = called(target, "/", target_url=url, retry_policy=NEVER_AGAIN, **fields)
    assert became(runs) == {("TIMEOUT", 1, "timeout")}


def test_an_asynchronous_call_that_is_not_accepted_in_time_is_a_timeout(target):
    fields = {"exec_type": "ASYNC", "timeout_seconds": 0.2, "retry_policy": NEVER_AGAIN}
    assert became(called(target, "/silent", **fields)) == {("TIMEOUT", 1, "timeout")}


def test_an_asynchronous_call_that_is_accepted_waits_for_its_callback(target):
    run = triggered(target, "/status/202", exec_type="ASYNC", callback_timeout_sec=300)
    with scheduling():
        kept = until(lambda: TaskRun.objects.filter(pk=run.pk, status="CALLBACK_PENDING").first())
    assert kept.callback_deadline == kept.updated_at + 300 * SECOND
    headers = target.requests[0].headers
    assert headers["X-Cronjob-Callback-Url"].endswith(headers["X-Cronjob-Callback-Token"])


@pytest.mark.parametrize(
    ("path", "kind"), [("/half", "body"), ("/drip?bytes=9999", "timeout")], ids=["half", "drip"]
)
def test_an_asynchronous_call_is_accepted_though_its_body_hangs_or_breaks_off(target, path, kind):
    run = triggered(target, path, exec_type="ASYNC", timeout_seconds=0.5, retry_policy=AGAIN)
    with scheduling():
        kept = until(lambda: TaskRun.objects.filter(pk=run.pk, status="CALLBACK_PENDING").first())
    assert (kept.attempt, kept.response_code, kept.error_kind) == (1, 200, kind)
    assert kept.response_body.startswith("x")
    assert kept.error_message


def test_a_scheduler_ends_the_runs_whose_callback_does_not_come(target):
    late, early = clock.now() - SECOND, clock.now() + 3600 * SECOND
    run, other = (
        make_run(status="CALLBACK_PENDING", attempt=1, callback_deadline=at) for at in (late, early)
    )
    with scheduling():
        assert ended(pk=run.pk).status == "FAILED_TIMEOUT"
    assert fresh(other).status == "CALLBACK_PENDING"


# --- taken back -----------------------------------------------------------------------------------


def test_a_run_that_is_canceled_while_its_target_takes_long_is_canceled_at_once(target):
    run = triggered(target, "/hold", timeout_seconds=600)
    with scheduling():
        target.wait_for(1, timeout=PATIENCE)
        assert fresh(run).status == "RUNNING"
        trigger.cancel(run, reason="enough", now=clock.now())
        assert fresh(run).status == "CANCELED"
        target.release()
        ended(pk=triggered(target, "/status/200").pk)
    assert (fresh(run).status, fresh(run).response_code) == ("CANCELED", None)


def test_canceling_hangs_up_on_a_target_that_is_being_called():
    with Peer(read_on) as peer, scheduling():
        task = make_task(schedule_kind="MANUAL", target_url=peer.url, timeout_seconds=600)
        run = trigger.trigger(task.pk, now=clock.now())
        until(lambda: peer.connections)
        trigger.cancel(run, reason="enough", now=clock.now())
        assert peer.ended.wait(PATIENCE)


def test_a_run_that_is_canceled_before_its_turn_is_never_called(target):
    run = triggered(target, "/status/200")
    trigger.cancel(run, reason="", now=clock.now())
    called(target, "/echo")
    assert [request.path for request in target.requests] == ["/echo"]


# --- at the same time -----------------------------------------------------------------------------


def test_a_run_now_and_a_planned_run_at_once_each_keep_their_own_answer(target):
    both = threading.Barrier(2)

    def answer(request):
        both.wait(PATIENCE)  # each is called while the other is
        reason = request.headers["X-Cronjob-Reason"]
        return Answer(status=200 if reason == "MANUAL" else 404, body=reason.encode())

    target.answers("/mine", answer)
    soon = clock.now() + SECOND / 2
    task = new(target, "/mine", schedule_kind="ONCE", run_at=soon, max_concurrency=2)
    trigger.trigger(task.pk, now=clock.now())
    with scheduling():
        planned, manual = ended(trigger="SCHEDULE"), ended(trigger="MANUAL")
    assert (planned.status, planned.response_body) == ("FAILED", "SCHEDULE")
    assert (manual.status, manual.response_body) == ("SUCCESS", "MANUAL")


def test_two_schedulers_together_call_every_run_once(target):
    asked = [triggered(target, "/status/200") for _ in range(20)]
    soon = clock.now() + SECOND / 2
    for n in range(20):
        new(target, name=f"once {n}", schedule_kind="ONCE", run_at=soon)
    with scheduling(), scheduling():
        until(lambda: TaskRun.objects.filter(status="SUCCESS").count() == 40)
    seen = Counter(request.headers["X-Cronjob-Run-Id"] for request in target.requests)
    assert set(seen.values()) == {1}
    assert len(seen) == TaskRun.objects.count() == 40
    assert {str(run.pk) for run in asked} <= set(seen)


def test_edits_and_runs_at_full_speed_lose_nothing_and_spoil_nothing():
    task = make_task(next_run_at=NOON, every_seconds=1, max_concurrency=3)
    key, edits, end = make_api("write"), 20, NOON + 30 * SECOND
    over = threading.Event()

    def edit():
        for n in range(edits):
            change = {"description": f"edit {n}", "headers": {"X-Edit": str(n)}}
            assert key.patch(f"tasks/{task.pk}", change).status_code == 200

    def look():
        while (at := Task.objects.get().next_moment) < end:
            patiently(lambda: materialise(at))
        over.set()

    def run():
        while not over.wait(0.01) or TaskRun.objects.filter(end_time=None).exists():
            for mine in patiently(lambda: claimed(end, room=4)):
                patiently(lambda mine=mine: settled(mine))

    at_once(edit, look, run, run)
    kept = Task.objects.get()
    assert (kept.version, kept.headers) == (1 + edits, {"X-Edit": str(edits - 1)})
    assert Counter(TaskRun.objects.values_list("status", "attempt")) == {("SUCCESS", 1): 30}
    assert {run.moment for run in TaskRun.objects.all()} == {NOON + n * SECOND for n in range(30)}
    assert kept.next_moment == end


# --- the database goes away -----------------------------------------------------------------------


@pytest.fixture
def scheduler():
    loop, client = Loop(), http.Client(allow=(), deny=(), pool=1)
    lease = Lease(slots=1, wake=loop.wake)
    calling = Executor(slots=1, client=client, wake=loop.wake)
    yield Scheduler(loop=loop, lease=lease, executor=calling)
    lease.end()
    client.close()


def away(*_):
    raise OperationalError("the database is away")


def test_while_its_database_is_away_a_scheduler_waits_longer_and_longer_and_then_goes_on(scheduler):
    task = make_task(next_run_at=NOON, max_concurrency=0)
    with connection.execute_wrapper(away):
        rests = [scheduler.careful_beat() for _ in range(8)]
    assert rests == sorted(rests)
    assert rests[0] < rests[3] < rests[-1] == rests[-2]
    assert not TaskRun.objects.exists()
    while scheduler.careful_beat() == 0:
        pass
    assert TaskRun.objects.filter(task=task).exists()
    scheduler.hint()
    with connection.execute_wrapper(away):
        assert scheduler.careful_beat() == rests[0]


def test_every_round_that_its_database_fails_is_counted_for_whoever_watches(scheduler):
    def counted():
        found = re.search(rb"^cronjob_scheduler_troubles_total (.+)$", metrics.own_text(), re.M)
        return float(found[1])

    before = counted()
    with connection.execute_wrapper(away):
        for _ in range(3):
            scheduler.careful_beat()
    scheduler.careful_beat()
    assert counted() == before + 3


def test_while_too_many_answers_wait_to_be_written_nothing_more_is_claimed(target, monkeypatch):
    monkeypatch.setattr(executor, "BUFFER_BYTES", 10_000)
    answered = threading.Event()
    client = http.Client(allow=(), deny=(), pool=4)
    busy = Executor(slots=4, client=client, wake=answered.set)
    triggered(target, "/huge?bytes=20000")
    (run,) = claimed(clock.now())
    busy.submit(run, calls.prepare(run, now=clock.now()))
    assert busy.free == 3
    assert answered.wait(PATIENCE)
    assert busy.free == 0
    busy.release(busy.finished(1))
    assert busy.free == 4
    busy.end(patience=PATIENCE)
    client.close()


@pytest.mark.parametrize(("size", "truncated"), [(999, False), (1000, False), (1001, True)])
def test_an_answer_is_kept_whole_up_to_the_cap_and_marked_beyond_it(
    target, size, truncated, settings
):
    settings.CRONJOB_RESPONSE_BYTES_MAX = 1000
    (run,) = called(target, f"/huge?bytes={size}")
    kept = (run.status, len(run.response_body), run.response_truncated)
    assert kept == ("SUCCESS", min(size, 1000), truncated)
