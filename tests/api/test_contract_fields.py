"""API.md on the shape of a task: its fields, defaults, ranges, and what is refused by name."""

import uuid
from datetime import datetime

import pytest

from runs.materialise import materialise
from tests import marks
from tests.api.contract import (
    DEFAULTS,
    FIRST,
    GIVEN_BY_US,
    LATER,
    TIME,
    WORK,
    created,
    refused,
    said,
    with_,
)
from tests.factories import MINUTE, NOON, make_run, make_task

pytestmark = marks.both


# --- the shape of a task ------------------------------------------------------------------------


def test_a_task_has_every_field_of_the_document_with_its_default(api):
    task = created(api)
    assert {name: task.get(name, "missing") for name in DEFAULTS} == DEFAULTS
    assert set(task) >= GIVEN_BY_US
    assert isinstance(task["id"], int)
    assert str(uuid.UUID(task["uuid"])) == task["uuid"]
    assert all(TIME.fullmatch(task[name]) for name in ("created_at", "updated_at", "next_run_at"))


def test_the_last_run_of_a_task_is_told_in_four_fields(reader):
    run = make_run(status="SUCCESS", scheduled_time=NOON, end_time=NOON)
    task = said(reader.get(f"tasks/{run.task_id}"))
    at = "2026-01-01T12:00:00Z"
    assert task["last_run"] == {
        "id": run.pk, "status": "SUCCESS", "scheduled_time": at, "end_time": at,
    }  # fmt: skip


@pytest.mark.parametrize(
    "missing", [{"name": None}, {"target_url": None}, {"exec_type": "ASYNC", "target_url": None}]
)
def test_a_name_and_a_target_are_required(api, missing):
    field = "name" if "name" in missing else "target_url"
    refused(api.post("tasks", with_(**missing)), 400, "INVALID_ARGUMENT", field)


@pytest.mark.parametrize(
    ("schedule", "kind"),
    [
        ({"cron_expr": "*/5 * * * *"}, "CRON"),
        ({"every": "5m"}, "EVERY"),
        ({"run_at": FIRST}, "ONCE"),
        ({"schedule_kind": "MANUAL"}, "MANUAL"),
    ],
)
def test_one_schedule_is_required(api, schedule, kind):
    assert created(api, **{"every": None} | schedule)["schedule_kind"] == kind


def test_without_a_schedule_there_is_no_task(api):
    refused(api.post("tasks", with_(every=None)), 400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    "schedules",
    [
        {"every": "5m", "cron_expr": "* * * * *"},
        {"every": "5m", "run_at": FIRST},
        {"every": None, "cron_expr": "* * * * *", "run_at": FIRST},
        {"every": "5m", "schedule_kind": "MANUAL"},
        {"every": "5m", "schedule_kind": "CRON"},
        {"start_at": LATER, "end_at": FIRST},
        {"start_at": FIRST, "end_at": FIRST},
    ],
)
def test_more_than_one_schedule_or_a_window_that_ends_first_is_refused(api, schedules):
    refused(api.post("tasks", with_(**schedules)), 400, "INVALID_ARGUMENT")
    task = make_task(schedule_kind="MANUAL")
    refused(api.patch(f"tasks/{task.pk}", with_(**schedules)), 400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", ["x" * 128]),
        ("description", ["x" * 512]),
        ("target_url", ["http://svc/" + "x" * (2048 - 11), "https://svc/"]),
        ("timeout_seconds", [0.1, 86400]),
        ("max_concurrency", [0, 1000]),
        ("priority", ["LOW", "NORMAL", "HIGH", "URGENT"]),
        ("callback_method", ["POST", "PUT", "PATCH"]),
        ("concurrency_policy", ["QUEUE", "SKIP", "PARALLEL"]),
        ("misfire_policy", ["FIRE_NOW", "SKIP", "CATCH_UP_LIMITED"]),
        ("on_lost", ["RETRY", "FAIL"]),
        ("exec_type", ["SYNC", "ASYNC"]),
        ("every", ["1s", "5m", "1h30m"]),
        ("jitter", ["5s"]),
        ("body_template", ["{{run_id}} {{ run_id }}", '{"at": {{ scheduled_time|tojson }}}']),
    ],
)
def test_a_field_takes_every_value_of_its_range(api, field, values):
    for number, value in enumerate(values):
        own = {"name": f"t{number}"} | {field: value}
        assert created(api, **own)[field] == value


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", ["x" * 129, "", 7]),
        ("description", ["x" * 513]),
        ("target_url", ["http://svc/" + "x" * (2049 - 11), "ftp://svc/", "http://a:b@svc/", ""]),
        ("timeout_seconds", [0, 0.09, 86401, "soon"]),
        ("max_concurrency", [-1, 1001, 1.5]),
        ("priority", ["HIGHEST", 1]),
        ("callback_method", ["GET", "DELETE"]),
        ("concurrency_policy", ["WAIT"]),
        ("misfire_policy", ["RUN"]),
        ("on_lost", ["SKIP"]),
        ("exec_type", ["CALL"]),
        ("timezone", ["Mars/Olympus"]),
        ("every", ["0s", 0, "-5m", "soon", 1.5]),
        ("jitter", ["soon"]),
        ("headers", [{"Host": "x"}, {"X-Cronjob-Run-Id": "1"}, {"A": "b\r\nC: d"}, "x"]),
        ("body_template", ["{{ nobody }}"]),
        ("retry_policy", [{"max_retries": 101}, {"max_retries": -1}, {"strategy": "linear"}]),
        ("retry_policy", [{"colour": 1}, 3]),
        ("run_at", ["2020-01-01T00:00:00Z", "tomorrow"]),
        ("cron_expr", ["0 0 0 1 1 * 2026", "R * * * *", "H * * * *", "0 0 0 30 2 *"]),
        ("cron_expr", ["0 30-10 * * * *", "0 5-5 * * * *", "60 * * * * *", "", "x" * 257]),
        ("work", [{"queue": "q", "job_type": "t"}]),  # null but for JOB and NODE
    ],
)
def test_a_field_refuses_what_is_out_of_its_range_by_its_name(api, field, values):
    for value in values:
        own = {"every": None} if field in ("run_at", "cron_expr") else {}
        body = with_(**own) | {field: value}
        refused(api.post("tasks", body), 400, "INVALID_ARGUMENT", field)


@pytest.mark.parametrize(("number", "text"), [(300, "5m"), (1, "1s"), (5400, "1h30m")])
def test_a_duration_as_a_number_is_in_seconds(api, number, text):
    task = created(api, every=number, jitter=number)
    assert (task["every"], task["jitter"]) == (text, text)


def test_the_work_of_a_job_and_of_a_node_has_the_documented_parts(api):
    whole = WORK | {
        "subject": "o-1", "cost_units": 2, "constraints": {"gpu_required": True},
        "payload": {"a": 1}, "max_attempts": 5, "timeout_seconds": 60,
    }  # fmt: skip
    job = created(api, exec_type="JOB", target_url=None, work=whole)
    assert job["work"].items() >= whole.items()
    push = {"model": "asr", "payload": {}, "timeout_seconds": 30}
    node = created(api, name="n", exec_type="NODE", target_url=None, work=push)
    assert node["work"].items() >= push.items()
    for work in ({"queue": "q"}, {"job_type": "t"}, WORK | {"colour": 1}):
        body = with_(name="x", exec_type="JOB", target_url=None, work=work)
        refused(api.post("tasks", body), 400, "INVALID_ARGUMENT", "work")


def test_a_once_that_has_fired_has_ended_and_a_new_time_arms_it_again(api):
    task = make_task(run_at=NOON, next_run_at=NOON)
    materialise(NOON)
    path = f"tasks/{task.pk}"
    fired = said(api.get(path))
    assert (fired["ended"], fired["next_run_at"], fired["status"]) == (True, None, "ENABLED")
    again = said(api.patch(path, {"run_at": FIRST}))
    assert (again["ended"], again["next_run_at"]) == (False, FIRST)


def test_every_begins_at_its_start_or_one_step_after_it_was_made(api):
    assert created(api, start_at=FIRST, end_at=LATER)["next_run_at"] == FIRST
    task = created(api, name="b")
    made, first = (datetime.fromisoformat(task[name]) for name in ("created_at", "next_run_at"))
    assert first == made.replace(microsecond=0) + 5 * MINUTE
