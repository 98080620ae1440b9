"""Ksana's document: its acceptance list (§2.2), its minimal tests (§12), what it says of calls."""

from datetime import UTC, datetime, timedelta

import pytest

from cronjob.lib import clock
from runs.claim import claim
from runs.glance import glance
from runs.materialise import materialise
from runs.models import TaskRun
from runs.settle import settle
from tasks.models import Priority, Task
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task
from tests.runs.engine import outcome, registered
from tests.tasks.test_ksana import PING, refused

pytestmark = marks.both


@pytest.fixture
def post(api):
    def post(**parts):
        answer = api.post("/jobs", PING | parts)
        assert answer.status_code == 201, answer.json()
        return answer.json()

    return post


def told(api, job):
    return api.get(f"/jobs/{job['id']}").json()


def task_of(job):
    return Task.objects.get(uuid=job["id"])


# --- §2.2 and §12: what it must do --------------------------------------------------------------


def beat(now):
    registered("a")
    materialise(now)
    glance()
    return claim(now, owner="a", room=99, priorities=[*Priority]).runs


def ended(run, now, **fields):
    assert settle([(run, outcome(run, **fields))], now=now)
    run.refresh_from_db()
    return run


def moment(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def test_once_runs_at_its_time(api, post):
    at = clock.now() + timedelta(hours=1)
    job = post(schedule={"kind": "once", "run_at": clock.text(at)})
    assert moment(job["next_run_at"]) == at
    (run,) = beat(at + SECOND)
    ended(run, at + SECOND, ok=True)
    after = told(api, job)
    assert (after["last_status"], after["next_run_at"]) == ("success", "")
    assert moment(after["last_run_at"]) == at + SECOND
    assert beat(at + MINUTE) == []


def test_once_that_has_passed_is_missed_and_not_made_up_for(api, post):
    job = post(schedule={"kind": "once", "run_at": "2020-01-01T00:00:00Z"})
    assert (job["last_status"], job["next_run_at"]) == ("missed", "")
    assert beat(clock.now()) == []
    assert [run.status for run in TaskRun.objects.all()] == ["MISSED"]
    assert told(api, job)["last_run_at"] == ""


def test_once_that_nobody_ran_in_time_is_missed(api, post):
    at = clock.now() + timedelta(hours=1)
    job = post(schedule={"kind": "once", "run_at": clock.text(at)})
    assert beat(at + 10 * MINUTE) == []
    assert told(api, job)["last_status"] == "missed"


def test_a_once_moved_to_the_past_is_missed_too(api, post):
    job = post(schedule={"kind": "once", "run_at": "2999-01-01T00:00:00Z"})
    answer = api.patch(f"/jobs/{job['id']}", {"schedule": {"run_at": "2020-01-01T00:00:00Z"}})
    assert answer.json()["last_status"] == "missed"


def test_every_without_a_start_counts_from_the_second_it_was_made_in(post):
    before = clock.now().replace(microsecond=0)
    job = post(schedule={"kind": "every", "every": "5m", "start_at": ""})
    after = clock.now()
    assert before + 5 * MINUTE <= moment(job["next_run_at"]) <= after + 5 * MINUTE


def test_every_with_a_start_begins_there(post):
    start = "2999-01-01T00:00:00Z"
    assert (
        post(schedule={"kind": "every", "every": "5m", "start_at": start})["next_run_at"] == start
    )


def test_every_with_jitter_comes_at_most_so_much_later(post):
    start = moment("2999-01-01T00:00:00Z")
    nexts = {
        moment(
            post(
                name=f"t{n}",
                schedule={
                    "kind": "every", "every": "5m", "start_at": clock.text(start), "jitter": "30s",
                },
            )["next_run_at"]
        )
        for n in range(8)
    }  # fmt: skip
    assert len(nexts) > 1
    assert all(start <= at < start + 30 * SECOND for at in nexts)


def test_every_rolls_to_the_next_moment_after_an_outage(post):
    job = post()
    due = moment(job["next_run_at"])
    assert beat(due + 61 * MINUTE) == []
    task = task_of(job)
    assert task.next_run_at == due + 65 * MINUTE
    assert [(run.status, run.missed_count) for run in TaskRun.objects.all()] == [("MISSED", 13)]


def test_every_does_not_drift(post):
    job = post()
    due = moment(job["next_run_at"])
    (run,) = beat(due + 40 * SECOND)
    ended(run, due + 50 * SECOND, ok=True)
    assert task_of(job).next_run_at == due + 5 * MINUTE


def test_run_now_runs_at_once_and_leaves_the_next_moment_alone(api, post):
    job = post()
    answer = api.post(f"/jobs/{job['id']}/run-now")
    assert answer.status_code == 202
    run = TaskRun.objects.get(uuid=answer.json()["run_id"])
    assert run.trigger == "MANUAL"
    assert told(api, job)["next_run_at"] == job["next_run_at"]
    (claimed,) = beat(clock.now())
    ended(claimed, clock.now(), ok=True)
    after = told(api, job)
    assert (after["last_status"], after["next_run_at"]) == ("success", job["next_run_at"])


def test_run_now_of_a_paused_job_runs_too(api, post):
    job = post(enabled=False)
    assert api.post(f"/jobs/{job['id']}/run-now").status_code == 202
    assert len(beat(clock.now())) == 1


def test_run_now_beside_a_run_is_refused_and_changes_nothing(api, post):
    job = post()
    assert api.post(f"/jobs/{job['id']}/run-now").status_code == 202
    refused(api.post(f"/jobs/{job['id']}/run-now"), code="CONCURRENCY_LIMIT", status=409)
    assert TaskRun.objects.count() == 1


@pytest.mark.parametrize(
    ("fields", "again", "status"),
    [
        ({"kind": "http", "code": 500}, True, "failed"),
        ({"kind": "http", "code": 408}, True, "failed"),
        ({"kind": "http", "code": 429}, True, "failed"),
        ({"kind": "connect", "code": None}, True, "failed"),
        ({"kind": "timeout", "code": None}, True, "timeout"),
        ({"kind": "http", "code": 404}, False, "failed"),
        ({"kind": "http", "code": 400}, False, "failed"),
    ],
)
def test_what_can_get_better_is_tried_again_and_then_recorded(api, post, fields, again, status):
    job = post(max_retries=2, retry_backoff="5s")
    now, tries = moment(job["next_run_at"]), 0
    while claimed := beat(now):
        ended(claimed[0], now, ok=False, message="no luck", **fields)
        tries += 1
        if told(api, job)["last_status"] == "":
            assert beat(now + 4 * SECOND) == []  # the backoff is fixed
        now += 5 * SECOND
    assert tries == (3 if again else 1)
    after = told(api, job)
    assert (after["last_status"], after["last_error"]) == (status, "no luck")


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("SUCCESS", "success"),
        ("CALLBACK_SUCCESS", "success"),
        ("FAILED", "failed"),
        ("FAILED_TIMEOUT", "failed"),
        ("CANCELED", "failed"),
        ("TIMEOUT", "timeout"),
        ("SKIPPED", "skipped"),
        ("MISSED", "missed"),
    ],
)
@pytest.mark.parametrize("also", [None, "SCHEDULED", "RUNNING", "RETRYING", "CALLBACK_PENDING"])
def test_the_last_status_is_that_of_the_last_run_that_is_over(reader, status, shown, also):
    task = make_task()
    make_run(task=task, status=status, error_message="why", start_time=NOON)
    if also:
        make_run(task=task, status=also)
    job = reader.get(f"/jobs/{task.uuid}").json()
    assert job["last_status"] == shown
    assert job["last_error"] == ("" if shown == "success" else "why")
    assert job["last_run_at"] == "2026-01-01T12:00:00Z"


def test_a_disabled_job_that_has_run_says_how_that_ended(reader):
    task = make_task(status="DISABLED")
    make_run(task=task, status="FAILED")
    assert reader.get(f"/jobs/{task.uuid}").json()["last_status"] == "failed"
