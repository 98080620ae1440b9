"""API.md on tasks, row by row, by whoever knows the document and not the code."""

import uuid

import pytest

from tests import marks
from tests.api.contract import (
    DEFAULTS,
    FIRST,
    LATER,
    LEAST,
    WORK,
    created,
    link,
    names,
    refused,
    said,
)
from tests.factories import MINUTE, NOON, Api, make_run, make_task

pytestmark = marks.both


# --- the table of tasks -------------------------------------------------------------------------


def test_get_the_root_is_a_browsable_index(reader):
    assert said(reader.get("/api/v1/"))


def test_post_tasks_creates_a_task_and_says_where(api):
    answer = api.post("tasks", LEAST)
    task = said(answer, 201)
    assert link(answer["Location"]) == f"/api/v1/tasks/{task['id']}"
    assert said(api.get(link(answer["Location"]))) == task
    refused(api.post("tasks", LEAST), 409, "NAME_TAKEN")


def test_get_tasks_filters_orders_and_pages(reader):
    make_task(name="sync stats", tags=["nightly"], description="of billing")
    make_task(name="clean up", status="DISABLED")
    make_task(name="send mail", exec_type="ASYNC")
    assert names(reader.get("tasks?status=DISABLED")) == ["clean up"]
    assert names(reader.get("tasks?name=stat")) == ["sync stats"]
    assert names(reader.get("tasks?exec_type=ASYNC")) == ["send mail"]
    assert names(reader.get("tasks?tag=nightly")) == ["sync stats"]
    assert names(reader.get("tasks?search=mail")) == ["send mail"]
    ordered = ["clean up", "send mail", "sync stats"]
    assert names(reader.get("tasks?ordering=name")) == ordered  # all statuses
    assert names(reader.get("tasks?ordering=-name")) == ordered[::-1]
    page = said(reader.get("tasks?ordering=name&page=2&page_size=2"))
    assert set(page) >= {"count", "next", "previous", "results"}
    assert (page["count"], page["next"], len(page["results"])) == (3, None, 1)
    assert names(reader.get(link(page["previous"]))) == ordered[:2]


def test_get_a_task_answers_it_with_its_etag(reader):
    task = make_task(version=3)
    answer = reader.get(f"tasks/{task.pk}")
    assert (said(answer)["version"], answer["ETag"]) == (3, '"3"')
    refused(reader.get("tasks/4711"), 404, "NOT_FOUND")
    refused(reader.get("tasks/abc"), 400, "INVALID_ID")


def test_put_a_task_resets_what_is_left_out(api):
    task = created(api, description="x", tags=["a"], headers={"A": "1"}, timeout_seconds=3,
                   retry_policy={"max_retries": 3}, priority="HIGH")  # fmt: skip
    put = said(api.put(f"tasks/{task['id']}", LEAST))
    assert {name: put[name] for name in DEFAULTS} == DEFAULTS | {"version": 2}
    assert (put["id"], put["uuid"]) == (task["id"], task["uuid"])
    refused(
        api.put(f"tasks/{task['id']}", {"name": "x", "every": 60}),
        400,
        "INVALID_ARGUMENT",
        "target_url",
    )


def test_patch_a_task_merges_the_policy_and_the_work_and_replaces_headers_and_tags(api):
    task = created(api, headers={"A": "1", "B": "2"}, tags=["a"], description="kept",
                   retry_policy={"max_retries": 3, "max_delay": 9})  # fmt: skip
    change = {"retry_policy": {"max_delay": 30}, "headers": {"C": "3"}, "tags": ["b"]}
    changed = said(api.patch(f"tasks/{task['id']}", change))
    assert changed["retry_policy"] == task["retry_policy"] | {"max_retries": 3, "max_delay": 30}
    assert (changed["headers"], changed["tags"]) == ({"C": "3"}, ["b"])
    assert (changed["description"], changed["next_run_at"]) == ("kept", task["next_run_at"])
    job = created(api, name="j", exec_type="JOB", target_url=None, work=WORK)
    changed = said(api.patch(f"tasks/{job['id']}", {"work": {"cost_units": 4}}))
    assert changed["work"] == job["work"] | {"cost_units": 4}


def test_patch_with_one_schedule_field_sets_the_kind_and_clears_the_others(api):
    path = f"tasks/{created(api)['id']}"
    for change, kind in (
        ({"cron_expr": "0 0 * * *"}, "CRON"),
        ({"run_at": FIRST}, "ONCE"),
        ({"every": "1h"}, "EVERY"),
        ({"schedule_kind": "MANUAL"}, "MANUAL"),
    ):
        task = said(api.patch(path, change))
        assert task["schedule_kind"] == kind
        fields = {"cron_expr", "every", "run_at"}
        assert {name for name in fields if task[name] is not None} == fields & set(change)


def test_delete_a_task_is_soft(api):
    task = created(api)
    path = f"tasks/{task['id']}"
    run = said(api.post(f"{path}/trigger"), 202)["run_id"]
    assert said(api.delete(path)) == {"deleted": True}
    verbs = [("GET", ""), ("PATCH", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/next")]
    verbs += [("POST", "/enable"), ("PATCH", "/disable"), ("POST", "/trigger")]
    for method, rest in verbs:
        body = LEAST if method == "PUT" else {"description": "x"} if not rest else {}
        refused(api.call(method, path + rest, body), 404, "NOT_FOUND")
    assert said(api.get(f"runs/{run}"))["status"] == "CANCELED"  # it waited
    assert [row["id"] for row in said(api.get(f"{path}/runs"))["results"]] == [run]
    assert created(api)["id"] != task["id"]  # the name is free


@pytest.mark.parametrize("method", ["PATCH", "POST"])
def test_enable_and_disable_a_task(api, method):
    task = make_task()
    waiting = [make_run(task=task, status=status) for status in ("SCHEDULED", "RETRYING")]
    going = [make_run(task=task, status=status) for status in ("RUNNING", "CALLBACK_PENDING")]
    path = f"tasks/{task.pk}"
    assert said(api.call(method, f"{path}/disable", {"reason": "moving"})) == {"status": "DISABLED"}
    assert said(api.get(path))["status"] == "DISABLED"
    for run in waiting:
        assert said(api.get(f"runs/{run.pk}"))["status"] == "CANCELED"
    for run in going:
        assert said(api.get(f"runs/{run.pk}"))["status"] == run.status
    assert said(api.call(method, f"{path}/enable")) == {"status": "ENABLED"}
    assert said(api.get(path))["version"] == 3


def test_trigger_a_task_makes_one_run_now_also_of_a_disabled_one(api):
    task = make_task(status="DISABLED", body_template="x", http_method="POST")
    path = f"tasks/{task.pk}/trigger"
    told = said(api.post(path, {"override_body": "{{run_id}}", "force_async": True}), 202)
    run = said(api.get(f"runs/{told['run_id']}"))
    assert (run["task_id"], run["trigger"], run["status"]) == (task.pk, "MANUAL", "SCHEDULED")
    refused(api.post(path, {"override_body": "{{ no }}"}), 400, "INVALID_ARGUMENT", "override_body")
    refused(api.post(path, {"force": True}), 400, "INVALID_ARGUMENT", "force")
    job = make_task(exec_type="JOB", target_url="", work=WORK)
    answer = api.post(f"tasks/{job.pk}/trigger", {"force_async": True})
    refused(answer, 400, "INVALID_ARGUMENT", "force_async")


def test_trigger_with_an_idempotency_key_makes_one_run(api):
    path = f"tasks/{make_task(concurrency_policy='PARALLEL').pk}/trigger"
    body = {"override_body": "a"}
    ids = {said(api.post(path, body, Idempotency_Key="k-1"), 202)["run_id"] for _ in range(2)}
    assert len(ids) == 1
    assert said(api.post(path, body, Idempotency_Key="k-2"), 202)["run_id"] not in ids
    refused(api.post(path, {}, Idempotency_Key="k-1"), 409, "IDEMPOTENCY_CONFLICT")


def test_get_the_runs_of_a_task_newest_first_and_of_no_other(reader):
    task = make_task()
    mine = [make_run(task=task, status=status).pk for status in ("FAILED", "SUCCESS", "RUNNING")]
    make_run()
    page = said(reader.get(f"tasks/{task.pk}/runs?page=1&page_size=2"))
    assert (page["count"], [row["id"] for row in page["results"]]) == (3, mine[:0:-1])
    (failure,) = said(reader.get(f"tasks/{task.pk}/runs?outcome=failure"))["results"]
    assert failure["id"] == mine[0]


def test_get_the_next_moments_of_a_task(reader):
    task = make_task(cron_expr="0 0 12 * * *", timezone="Asia/Shanghai")
    moments = said(reader.get(f"tasks/{task.pk}/next"))["moments"]
    assert len(moments) == 10
    assert all(set(moment) >= {"at", "local", "fires_at", "note"} for moment in moments)
    assert all(moment["at"].endswith("T04:00:00Z") for moment in moments)
    assert all("T12:00:00" in moment["local"] and not moment["note"] for moment in moments)
    assert all(moment["fires_at"] == moment["at"] for moment in moments)  # no jitter
    assert len(said(reader.get(f"tasks/{task.pk}/next?count=3"))["moments"]) == 3


def test_post_a_preview_tells_moments_after_from_and_describes_them(reader):
    noon = "2030-01-01T12:00:00Z"
    body = {"cron_expr": "0 12 * * *", "timezone": "UTC", "count": 2, "from": noon}
    told = said(reader.post("tasks/preview", body))
    ats = [moment["at"] for moment in told["moments"]]
    assert ats == ["2030-01-02T12:00:00Z", "2030-01-03T12:00:00Z"]
    assert told["description"]
    assert len(said(reader.post("tasks/preview", {"cron_expr": "0 12 * * *"}))["moments"]) == 10
    refused(reader.post("tasks/preview", {"cron_expr": "x"}), 400, "INVALID_ARGUMENT", "cron_expr")
    body = {"every": "5m", "cron_expr": "* * * * *"}
    refused(reader.post("tasks/preview", body), 400, "INVALID_ARGUMENT")


# --- what holds for all of them -----------------------------------------------------------------


def test_the_version_or_if_match_guards_an_edit(api):
    task = created(api)
    path = f"tasks/{task['id']}"
    answer = api.patch(path, {"description": "b", "version": 1}, If_Match='"1"')
    assert (said(answer)["version"], api.get(path)["ETag"]) == (2, '"2"')
    refused(api.patch(path, {"description": "c", "version": 1}), 409, "VERSION_CONFLICT")
    refused(api.put(path, LEAST | {"version": 1}), 409, "VERSION_CONFLICT")
    for method in ("PATCH", "PUT"):
        refused(api.call(method, path, LEAST, If_Match='"1"'), 409, "VERSION_CONFLICT")
    refused(api.delete(path, If_Match='"1"'), 409, "VERSION_CONFLICT")
    assert said(api.get(path))["description"] == "b"


def test_only_an_edit_an_enable_and_a_disable_make_a_version(api):
    path = f"tasks/{created(api)['id']}"
    api.post(f"{path}/trigger")
    api.get(f"{path}/next")
    assert said(api.get(path))["version"] == 1
    api.patch(path, {"description": "b"})
    api.post(f"{path}/disable")
    api.post(f"{path}/enable")
    assert said(api.get(path))["version"] == 4


def test_every_answer_has_a_request_id_and_it_is_the_callers_if_well_formed(api):
    name = str(uuid.uuid4())
    task = link(api.post("tasks", LEAST)["Location"])
    for path in (task, "tasks", "tasks/4711", "nothing", "healthz", "/api/v1/"):
        assert api.get(path, X_Request_ID=name)["X-Request-ID"] == name
        assert api.get(path)["X-Request-ID"] != api.get(path)["X-Request-ID"]
        assert Api().get(path, X_Request_ID="no \x7f id")["X-Request-ID"] != "no \x7f id"


def test_a_path_works_with_a_trailing_slash_too(api):
    task = said(api.post("tasks/", LEAST), 201)
    path = f"tasks/{task['id']}"
    assert said(api.patch(f"{path}/", {"description": "b"}))["description"] == "b"
    assert said(api.post(f"{path}/disable/"))
    assert said(api.post(f"{path}/trigger/"), 202)
    for place in ("tasks", path, f"{path}/next", f"{path}/runs"):
        assert said(api.get(f"{place}/")) == said(api.get(place))
    assert said(api.post("tasks/preview/", {"every": "5m"}))
    assert said(api.delete(f"{path}/"))


def test_unknown_fields_and_parameters_are_refused_by_name(api):
    path = f"tasks/{created(api)['id']}"
    odd = {"colour": "red"}
    for method, place in (("POST", "tasks"), ("PUT", path)):
        body = LEAST | odd
        refused(api.call(method, place, body), 400, "INVALID_ARGUMENT", "colour")
    rest = ["/enable", "/disable", "/trigger"]
    for method, place in (("PATCH", path), *(("POST", path + verb) for verb in rest)):
        refused(api.call(method, place, odd), 400, "INVALID_ARGUMENT", "colour")
    refused(api.post("tasks/preview", {"every": "5m"} | odd), 400, "INVALID_ARGUMENT", "colour")
    for place in ("tasks", path, f"{path}/runs", f"{path}/next"):
        refused(api.get(f"{place}?colour=red"), 400, "INVALID_ARGUMENT", "colour")


def test_read_only_fields_sent_back_are_ignored(api):
    task = created(api)
    path = f"tasks/{task['id']}"
    lies = {
        "id": 99, "uuid": str(uuid.uuid4()), "created_at": FIRST, "updated_at": FIRST,
        "next_run_at": FIRST, "last_run": {"id": 1}, "ended": True,
    }  # fmt: skip
    for method in ("PATCH", "PUT"):
        back = said(api.call(method, path, task | lies))
        assert {name: back[name] for name in lies if name != "updated_at"} == {
            name: task[name] for name in lies if name != "updated_at"
        }
    copy = said(api.post("tasks", task | lies | {"name": "copy"}), 201)
    assert copy["id"] not in (99, task["id"])
    assert copy["uuid"] not in (lies["uuid"], task["uuid"])


def test_a_once_moves_and_times_are_told_in_utc(api):
    task = created(api, every=None, run_at="2030-01-01T02:00:00+02:00")
    assert (task["run_at"], task["next_run_at"]) == (FIRST, FIRST)
    moved = said(api.patch(f"tasks/{task['id']}", {"run_at": LATER}))
    assert (moved["run_at"], moved["next_run_at"], moved["ended"]) == (LATER, LATER, False)


def test_only_a_change_of_the_schedule_moves_the_next_moment(api):
    task = make_task(next_run_at=NOON + MINUTE)
    path = f"tasks/{task.pk}"
    assert said(api.patch(path, {"timeout_seconds": 3}))["next_run_at"] == "2026-01-01T12:01:00Z"
    assert said(api.patch(path, {"every": "2m"}))["next_run_at"] > "2026-01-01T12:01:00Z"
