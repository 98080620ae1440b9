"""Callbacks that come too early, twice, at the deadline, late, or while somebody dies."""

import signal
import threading
import time
from datetime import timedelta

import pytest
import requests

from tests.faults import oracle
from tests.faults.answering import FAILED, SUCCESS, answered, at_once, report, url_of, web
from tests.faults.world import NEVER, until

pytestmark = pytest.mark.faults

MANY = 20
ABOUT = 0.005  # seconds before and after a deadline
ANSWERED_IN = 6  # seconds that a callback may take: all of them are called before the first is late
TIMES_MOST = 6  # so often, until some came before and some after it
ASYNC = {"exec_type": "ASYNC", "http_method": "POST", "timeout_seconds": 60}


@pytest.fixture
def served(each_world):
    """A web process, a scheduler that knows it, and what starts another such."""
    with web(each_world) as known:
        each_world.known = known
        yield each_world


def called(world, count=1, *, path="/status/202", schedulers=1, **fields):
    """So many runs were called; the URL on which each of them is awaited, by the run's number."""
    world.started(schedulers, **world.known)
    world.plant(count, path=path, run_at=0.5, **(ASYNC | fields))
    requests = world.target.wait_for(count)
    return {int(request.headers["X-Cronjob-Run-Id"]): url_of(request) for request in requests}


def statuses(world):
    return {run["id"]: run["status"] for run in world.runs()}


def pending(world, count):
    until(lambda: [*statuses(world).values()].count("CALLBACK_PENDING") == count, what=world.said)


def kept(world):
    return [r["status"] for r in world.rows("SELECT status FROM async_callbacks ORDER BY id")]


def test_callbacks_that_come_before_our_own_answer_count(served):
    urls = called(served, 12, path="/hold")  # as many as one scheduler has slots, or fewer
    assert {report(url, SUCCESS) for url in urls.values()} == {(200, "SUCCESS")}
    served.target.release()
    served.quiet()
    assert {*statuses(served).values()} == {"CALLBACK_SUCCESS"}
    assert kept(served) == ["RECEIVED"] * 12
    until(lambda: {run["response_code"] for run in served.runs()} == {200})  # kept all the same
    oracle.check(served)


def test_two_reports_at_once_have_one_outcome_and_both_are_told_it(served):
    urls = called(served, MANY)
    pending(served, MANY)
    for run, url in urls.items():
        (first,) = set(at_once(url, SUCCESS, FAILED))
        became = "CALLBACK_SUCCESS" if first == (200, "SUCCESS") else "FAILED"
        assert statuses(served)[run] == became
        assert report(url, SUCCESS) == report(url, FAILED) == first
    assert kept(served).count("RECEIVED") == MANY
    assert kept(served).count("IGNORED") == 3 * MANY
    oracle.check(served)


def at_their_deadlines(world, *, lead, chance):
    """Each run that waits is reported on about when its time is over; what was told."""
    urls = {int(r.headers["X-Cronjob-Run-Id"]): url_of(r) for r in world.target.requests}
    waiting = world.runs("status = 'CALLBACK_PENDING'")
    about = [ABOUT * (2 * n / (MANY - 1) - 1) for n in range(MANY)]
    chance.shuffle(about)
    told = {}

    def send(run, at):
        NEVER.wait(max(0.0, at - time.time()))
        told[run["id"]] = report(urls[run["id"]], SUCCESS)

    whens = [run["callback_deadline"].timestamp() for run in waiting]
    each = zip(waiting, whens, about, strict=True)
    threads = [threading.Thread(target=send, args=(run, at + o - lead)) for run, at, o in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def test_a_report_at_the_deadline_is_told_what_holds_for_ever(served, chance):
    served.started(1, **served.known)
    names, lead, seen = {"CALLBACK_SUCCESS": "SUCCESS"}, ABOUT, set()
    for number in range(1, TIMES_MOST + 1):
        served.plant(MANY, run_at=1, apart=0.05, callback_timeout_sec=ANSWERED_IN, **ASYNC)
        pending(served, MANY)
        told = at_their_deadlines(served, lead=lead, chance=chance)
        served.quiet()
        stored = {run: (200, names.get(s, s)) for run, s in statuses(served).items() if run in told}
        assert told == stored
        assert len(kept(served)) == number * MANY
        found = {status for _, status in told.values()}
        seen |= found
        if seen == {"SUCCESS", "FAILED_TIMEOUT"}:
            break
        lead += ABOUT if found == {"FAILED_TIMEOUT"} else -ABOUT  # they came too late, or too early
    assert seen == {"SUCCESS", "FAILED_TIMEOUT"}
    oracle.check(served)


def test_a_late_report_is_told_that_it_is_late_and_a_wrong_one_nothing(served):
    served.known |= {"CRONJOB_POLL_SECONDS": "60"}  # nobody has to look in between
    served.plant(MANY, run_at=4, callback_timeout_sec=3, **ASYNC)
    served.started(1, **served.known)
    pending(served, MANY)
    deadlines = {run["id"]: run["callback_deadline"] for run in served.runs()}
    served.quiet()
    assert {*statuses(served).values()} == {"FAILED_TIMEOUT"}
    late = [run["end_time"] - deadlines[run["id"]] for run in served.runs()]
    assert timedelta(0) <= min(late) <= max(late) <= timedelta(seconds=2)
    urls = [url_of(request) for request in served.target.requests]
    assert {report(url, SUCCESS) for url in urls} == {(200, "FAILED_TIMEOUT")}
    wrong = [url[:-1] + ("0" if url[-1] != "0" else "1") for url in urls]
    assert {report(url, SUCCESS) for url in wrong} == {(404, "NOT_FOUND")}
    assert kept(served) == ["IGNORED"] * MANY
    oracle.check(served)


@pytest.mark.parametrize(
    ("place", "says"),
    [("call.sent", SUCCESS), ("settle.before", FAILED), ("settle.written", SUCCESS)],
    ids=["its answer has come", "before it is written", "while it is written"],
)
def test_a_callback_counts_though_the_scheduler_died_between_the_2xx_and_the_settle(
    served, place, says
):
    world = served
    world.plant(run_at=0.5, **ASYNC)
    assert world.start(f"{place}=exit", **world.known).wait() == -signal.SIGKILL
    assert world.run()["status"] == "RUNNING"
    (call,) = world.target.requests
    assert report(url_of(call), says) == (200, says["status"])
    world.start(**world.known)
    world.quiet()
    assert world.run()["status"] == {"SUCCESS": "CALLBACK_SUCCESS"}.get(says["status"], "FAILED")
    assert len(world.target.requests) == 1
    oracle.check(world)


def test_a_call_that_must_not_be_made_twice_waits_for_its_callback(served):
    world = served
    world.plant(run_at=0.5, on_lost="FAIL", **ASYNC)
    assert world.start("settle.before=exit", **world.known).wait() == -signal.SIGKILL
    world.start(**world.known)
    pending(world, 1)
    assert report(url_of(world.target.requests[0]), SUCCESS) == (200, "SUCCESS")
    world.quiet()
    assert len(world.target.requests) == 1
    oracle.check(world)


def test_a_target_that_answers_on_the_first_token_it_was_given_ends_the_run(served):
    world = served
    world.plant(run_at=0.5, **ASYNC)
    assert world.start("settle.before=exit", **world.known).wait() == -signal.SIGKILL
    world.start(**world.known)
    first, second = map(url_of, world.target.wait_for(2))
    assert first != second
    pending(world, 1)
    assert report(first, FAILED) == (410, "GONE")
    assert report(first, SUCCESS) == (200, "SUCCESS")
    assert report(second, FAILED) == (200, "SUCCESS")
    world.quiet()
    oracle.check(world)


@pytest.mark.parametrize("place", ["callback.judged", "callback.written"])
def test_a_report_whose_web_process_dies_is_whole_or_not_there_and_can_be_repeated(
    each_world, place
):
    with web(each_world) as known:
        each_world.known = known
        urls = called(each_world, 3)
        pending(each_world, 3)
    with web(each_world, failpoints=f"{place}=exit:0.5") as known:
        for url in urls.values():
            token = url.rpartition("/")[2]
            insist(f"{known['CRONJOB_BASE_URL']}/api/v1/callbacks/{token}")
    each_world.quiet()
    assert {*statuses(each_world).values()} == {"CALLBACK_SUCCESS"}
    assert kept(each_world).count("RECEIVED") == 3
    oracle.check(each_world)


def insist(url):
    """As a target should: again and again, until there is an answer."""
    for _ in range(60):
        try:
            return report(url, SUCCESS)
        except requests.ConnectionError:
            NEVER.wait(0.1)
    raise AssertionError("never answered")


def test_a_report_in_chunks_is_understood_and_one_that_never_ends_is_refused(served):
    urls = [*called(served, 2).values()]
    pending(served, 2)
    answer = requests.post(urls[0], data=iter([b'{"status": ', b'"SUCCESS"}']), timeout=30)
    assert (answer.status_code, answer.json()["final_status"]) == (200, "SUCCESS")
    answer = requests.post(urls[1], data=(b"x" * 2**16 for _ in range(20)), timeout=30)
    assert answer.status_code == 413
    assert kept(served) == ["RECEIVED", "IGNORED"]


def test_all_web_processes_count_strangers_together(each_world):
    with web(each_world, processes=2) as known:
        url = f"{known['CRONJOB_BASE_URL']}/api/v1/callbacks/{'0' * 32}"
        codes = [report(url, SUCCESS)[0] for _ in range(70)]
    assert codes == [404] * 60 + [429] * 10


def test_very_many_callbacks_from_many_clients_all_count(world):
    count = 200
    with web(world, processes=2) as known:
        world.known = known
        urls = called(world, count, concurrency_policy="PARALLEL")
        pending(world, count)
        assert answered(urls.values(), clients=20) == [200] * count
        world.quiet()
    assert kept(world) == ["RECEIVED"] * count
    oracle.check(world)
