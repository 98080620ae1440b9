"""What a job of Ksana's says of its schedule, and what it says without meaning it."""

import pytest

from tasks.models import Task
from tests import marks
from tests.factories import NOON, make_task
from tests.tasks.test_ksana import PING, post, refused, told

__all__ = ["post"]
pytestmark = marks.both

LATER, LATEST = "2099-01-01T00:00:00Z", "2099-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("schedule", "first"),
    [
        ({"kind": "cron", "cron": "0 0 1 * * *", "start_at": LATER}, "2099-01-01T01:00:00Z"),
        ({"kind": "once", "run_at": LATEST, "start_at": LATER}, LATEST),
        ({"kind": "every", "every": "1h", "start_at": LATER, "jitter": "0s"}, LATER),
    ],
)
def test_a_job_of_any_kind_begins_when_it_says(api, post, schedule, first):
    job = post(schedule=schedule)
    assert (job["schedule"], job["next_run_at"]) == (schedule, first)
    assert told(api, job)["schedule"] == schedule


@pytest.mark.parametrize(
    "schedule",
    [
        {"kind": "cron", "cron": "0 0 * * * *", "jitter": "30s"},
        {"kind": "once", "run_at": LATER, "jitter": "30s"},
        {"kind": "every", "every": "1h", "start_at": LATER, "jitter": "30s"},
    ],
)
def test_a_job_of_any_kind_is_spread(post, schedule):
    assert post(schedule=schedule)["schedule"] == schedule
    assert Task.objects.get().jitter_seconds == 30


def test_a_window_is_merged_and_taken_away_like_every_part(api, post):
    path = f"/jobs/{post(schedule={'kind': 'cron', 'cron': '0 0 * * * *', 'jitter': '5s'})['id']}"
    changed = api.patch(path, {"schedule": {"start_at": LATER}}).json()["schedule"]
    assert changed == {"kind": "cron", "cron": "0 0 * * * *", "start_at": LATER, "jitter": "5s"}
    changed = api.patch(path, {"schedule": {"start_at": None, "jitter": ""}}).json()["schedule"]
    assert changed == {"kind": "cron", "cron": "0 0 * * * *"}


@pytest.mark.parametrize("part", [{"start_at": LATER}, {"jitter": "5s"}, {"every": "5m"}])
def test_a_job_that_is_only_triggered_has_no_times(api, part):
    answer = api.post("/jobs", PING | {"schedule": {"kind": "manual"} | part})
    refused(answer, f"schedule.{next(iter(part))}")


def test_the_end_of_a_once_holds_for_the_time_that_it_was_set_for(api):
    task = make_task(run_at=NOON.replace(year=2098), end_at=NOON.replace(year=2098, month=2))
    api.patch(f"/jobs/{task.uuid}", {"schedule": {"jitter": "5s"}})
    assert Task.objects.get().end_at is not None
    assert api.patch(f"/jobs/{task.uuid}", {"schedule": {"run_at": LATER}}).status_code == 200
    assert Task.objects.get().end_at is None


@pytest.mark.parametrize("nothing", [None, "", "0s"])
@pytest.mark.parametrize(
    "meant",
    [{"kind": "every", "every": "5m"}, {"kind": "once", "run_at": LATER},
     {"kind": "cron", "cron": "0 0 * * * *"}, {"kind": "manual"}],
)  # fmt: skip
def test_parts_of_a_schedule_that_go_leaves_empty_are_not_given(api, post, meant, nothing):
    parts = ("every", "run_at", "cron", "start_at", "jitter")
    job = post(schedule=dict.fromkeys(parts, nothing) | meant)
    assert meant.items() <= job["schedule"].items()
    answer = api.patch(f"/jobs/{job['id']}", {"schedule": dict.fromkeys(parts, nothing) | meant})
    assert answer.json()["schedule"] == job["schedule"]


@pytest.mark.parametrize(
    "empty",
    [
        {"http": PING["http"] | {"headers": None, "body": None}},
        {"id": None}, {"id": ""}, {"timeout": ""}, {"timeout": None}, {"retry_backoff": ""},
    ],
)  # fmt: skip
def test_parts_of_a_job_that_go_leaves_empty_are_not_given(post, empty):
    job = post(**empty)
    assert (job["http"]["headers"], job["http"]["body"]) == ({}, "")
    assert (job["timeout"], job["retry_backoff"]) == ("10s", "5s")


def test_a_change_that_leaves_a_part_empty_leaves_it_alone(api, post):
    job = post(timeout="3s")
    answer = api.patch(f"/jobs/{job['id']}", {"id": None, "timeout": "", "name": "renamed"})
    assert (answer.json()["timeout"], answer.json()["name"]) == ("3s", "renamed")


def test_a_new_job_says_where_it_is(api):
    answer = api.post("/jobs", PING)
    assert answer["Location"] == f"/jobs/{answer.json()['id']}"
    assert api.get(answer["Location"]).json() == answer.json()
