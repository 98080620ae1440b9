"""Secrets of a task go where they were meant to go, whoever says it and however."""

import pytest

from runs import standing
from tasks.changes import Change
from tasks.models import Task
from tests import marks
from tests.factories import NOON, make_run, make_task

pytestmark = marks.both

MASK = "********"


@pytest.fixture
def task(api):
    answer = api.post(
        "tasks",
        {
            "name": "t", "every": "5m", "http_method": "POST",
            "target_url": "https://good/?token=S3", "headers": {"Authorization": "Bearer S1"},
            "body_template": '{"password": "S2", "x": 1}', "secret_paths": ["password"],
        },
    )  # fmt: skip
    assert answer.status_code == 201
    return Task.objects.get(pk=answer.json()["id"])


def held(task):
    task.refresh_from_db()
    return f"{task.target_url} {task.headers} {task.body_template}"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target_url": f"https://evil/?token={MASK}"}, "target_url"),
        ({"headers": {"authorization": MASK}}, "headers"),
        ({"body_template": f'{{"password": "{MASK}", "x": 2}}'}, "body_template"),
    ],
)
def test_what_is_masked_does_not_follow_to_another_host(api, task, change, field):
    answer = api.patch(f"tasks/{task.pk}", {"target_url": "https://evil/"} | change)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    assert "evil" not in held(task)


def test_what_is_left_as_it_is_is_cleared_on_the_way_to_another_host(api, task):
    body = '{"password": "S2", "x": 2}'
    answer = api.patch(f"tasks/{task.pk}", {"target_url": "https://evil/", "body_template": body})
    assert answer.status_code == 200
    assert not any(secret in held(task) for secret in ("S1", "S2", "S3"))
    assert '"x": 2' in task.body_template


def test_another_scheme_or_port_is_somebody_else_and_another_query_is_not(api, task):
    api.patch(f"tasks/{task.pk}", {"target_url": "https://good?token=S3&a=2"})
    assert "S1" in held(task)
    api.patch(f"tasks/{task.pk}", {"target_url": "http://good/"})
    assert "S1" not in held(task)


def test_the_log_tells_what_was_cleared(api, task):
    api.patch(f"tasks/{task.pk}", {"target_url": "https://evil/"})
    assert set(Change.objects.filter(task=task).latest("id").new) == {
        "target_url", "headers", "body_template",
    }  # fmt: skip


def test_a_restore_does_not_carry_secrets_to_an_earlier_host(api, task):
    api.patch(
        f"tasks/{task.pk}", {"target_url": "https://new/?token=N3", "headers": {"X-Key": "N1"}}
    )
    answer = api.post(f"tasks/{task.pk}/restore", {"version": 1})
    assert answer.status_code == 400
    assert "https://new/" in held(task)


def test_a_restore_keeps_a_secret_that_came_later_and_that_it_is_one(api, task):
    api.patch(f"tasks/{task.pk}", {"headers": {"Authorization": "Bearer S1", "X-Auth": "OLD"}})
    new = {"Authorization": "Bearer S1", "X-Auth": "NEW", "X-Key": "K"}
    api.patch(f"tasks/{task.pk}", {"headers": new, "secret_headers": ["X-Auth"]})
    assert api.post(f"tasks/{task.pk}/restore", {"version": 2}).status_code == 200
    task.refresh_from_db()
    assert task.headers == new
    assert task.secret_headers == ["X-Auth"]


def test_what_is_marked_secret_was_secret_before_in_the_same_change(reader, api):
    made = api.post(
        "tasks",
        {"name": "u", "every": "5m", "target_url": "http://x/", "headers": {"X-A": "CLEAR"}},
    ).json()["id"]
    api.patch(f"tasks/{made}", {"headers": {"X-A": "NEW"}, "secret_headers": ["X-A"]})
    newest = reader.get(f"tasks/{made}/changes").json()["results"][0]
    assert "CLEAR" not in str(newest)
    assert "NEW" not in str(newest)


def test_a_list_in_a_body_is_not_filled_from_another_one(api, task):
    old = '{"items": [{"id": 1, "key": "A"}, {"id": 2, "key": "B"}]}'
    api.patch(f"tasks/{task.pk}", {"body_template": old, "secret_paths": ["items.*.key"]})
    shown = f'{{"items": [{{"id": 2, "key": "{MASK}"}}]}}'
    answer = api.patch(f"tasks/{task.pk}", {"body_template": shown})
    assert list(answer.json()["fields"]) == ["body_template"]


def test_a_change_by_an_old_copy_does_not_write_down_what_others_changed_since(api, task):
    old = Task.objects.get(pk=task.pk)
    api.patch(f"tasks/{task.pk}", {"description": "newer"})
    standing.disable(old, reason="", now=NOON)
    assert Change.objects.filter(task=task).latest("id").values["description"] == "newer"


def test_a_masked_url_with_a_placeholder_comes_back_through_the_dialect(reader, api):
    task = make_task(target_url="http://x/?token=S3&run={{ run_id }}")
    http = reader.get(f"/jobs/{task.uuid}").json()["http"]
    assert MASK in http["url"]
    assert api.patch(f"/jobs/{task.uuid}", {"http": http}).status_code == 200
    assert task.target_url in held(task)


def test_a_job_sent_back_as_it_was_read_changes_nothing(api):
    make_run(task=make_task(work=None), status="SUCCESS")
    make_task(run_at=NOON.replace(year=2999), jitter_seconds=5, end_at=NOON.replace(year=3000))
    make_task(retry_policy={"max_retries": 1, "initial_delay": 0.00001})
    before = list(Task.objects.order_by("pk").values())
    for job in api.get("/jobs").json():
        answer = api.patch(f"/jobs/{job['id']}", job)
        assert (answer.status_code, answer.json()) == (200, job)
    same = [name for name in before[0] if name not in ("version", "updated_at", "retry_policy")]
    after = list(Task.objects.order_by("pk").values())
    assert [[row[n] for n in same] for row in after] == [[row[n] for n in same] for row in before]
    assert {row["retry_policy"].get("strategy", "exponential") for row in after} == {"exponential"}


def test_a_job_of_the_queue_can_be_renamed_in_the_dialect(api):
    task = make_task(
        exec_type="JOB", target_url="", schedule_kind="MANUAL",
        work={"queue": "q", "job_type": "t"},
    )  # fmt: skip
    assert api.patch(f"/jobs/{task.uuid}", {"name": "renamed"}).json()["name"] == "renamed"
    answer = api.patch(f"/jobs/{task.uuid}", {"type": "http"})
    assert list(answer.json()["fields"]) == ["type"]


@pytest.mark.parametrize("part", ["http", "schedule", "name", "timeout"])
def test_a_part_of_a_job_cannot_be_nothing(api, part):
    answer = api.patch(f"/jobs/{make_task().uuid}", {part: None})
    assert list(answer.json()["fields"]) == [part]
