import pytest

from cronjob.lib.masking import MASK
from runs.models import TaskRun
from runs.states import FINAL, WAITING, Status
from tasks.models import Task
from tests import marks
from tests.factories import NOON, make_api, make_run, make_task

pytestmark = marks.both


def put(task):
    """The least a PUT must say."""
    return {"name": task.name, "target_url": task.target_url, "every": "1m"}


def test_a_patch_changes_what_it_names_and_grows_the_version(api):
    task = make_task(description="old", tags=["a"])
    answer = api.patch(f"tasks/{task.pk}", {"description": "new"})
    told = answer.json()
    assert (answer.status_code, answer["ETag"], told["version"]) == (200, '"2"', 2)
    assert (told["description"], told["tags"], told["every"]) == ("new", ["a"], "1m")


def test_a_patch_that_changes_nothing_leaves_the_version(api):
    task = make_task(description="same")
    assert api.patch(f"tasks/{task.pk}", {"description": "same"}).json()["version"] == 1
    assert api.patch(f"tasks/{task.pk}", {}).json()["version"] == 1


def test_a_patch_merges_the_retry_policy_and_replaces_headers_and_tags(api):
    task = make_task(headers={"X-A": "1"}, tags=["a", "b"])
    api.patch(f"tasks/{task.pk}", {"retry_policy": {"max_retries": 3}})
    told = api.patch(
        f"tasks/{task.pk}",
        {"retry_policy": {"initial_delay": 9}, "headers": {"X-B": "2"}, "tags": ["c"]},
    ).json()
    assert (told["retry_policy"]["max_retries"], told["retry_policy"]["initial_delay"]) == (3, 9)
    assert (told["headers"], told["tags"]) == ({"X-B": "2"}, ["c"])


def test_a_patch_merges_the_work_of_a_job(api):
    work = {"queue": "q", "job_type": "t"}
    task = make_task(exec_type="JOB", target_url="", work=work)
    told = api.patch(f"tasks/{task.pk}", {"work": {"cost_units": 5}}).json()
    assert told["work"] == work | {"cost_units": 5}


@pytest.mark.parametrize(
    ("given", "kind", "left"),
    [
        ({"cron_expr": "@hourly"}, "CRON", {"every": None, "cron_expr": "0 0 * * * *"}),
        ({"run_at": "2030-01-01T00:00:00Z"}, "ONCE", {"every": None}),
        ({"schedule_kind": "MANUAL"}, "MANUAL", {"every": None}),
        ({"every": "2m"}, "EVERY", {"every": "2m"}),
        ({"schedule_kind": "EVERY"}, "EVERY", {"every": "1m"}),
    ],
)
def test_a_patch_with_one_schedule_sets_the_kind_and_clears_the_others(api, given, kind, left):
    task = make_task()
    told = api.patch(f"tasks/{task.pk}", given).json()
    assert told["schedule_kind"] == kind
    assert {name: told[name] for name in left} == left


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("cron_expr", {"cron_expr": "@daily", "every": "5m"}),
        ("every", {"every": None}),
        ("cron_expr", {"schedule_kind": "CRON"}),
        ("every", {"every": "5m", "schedule_kind": "MANUAL"}),
        ("end_at", {"start_at": "2030-02-01T00:00:00Z", "end_at": "2030-01-01T00:00:00Z"}),
        ("run_at", {"run_at": "2020-01-01T00:00:00Z"}),
        ("name", {"name": None}),
        ("id_", {"id_": 3}),
    ],
)
def test_a_patch_that_makes_no_sense_changes_nothing(api, field, given):
    task = make_task()
    answer = api.patch(f"tasks/{task.pk}", given)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")
    assert field in answer.json()["fields"]
    assert Task.objects.get(pk=task.pk).version == 1


def test_a_once_task_whose_time_has_passed_can_still_be_edited_otherwise(api):
    task = make_task(run_at=NOON, ended=True)
    told = api.patch(f"tasks/{task.pk}", {"description": "past"}).json()
    assert (told["description"], told["ended"]) == ("past", True)


def test_a_new_time_rearms_a_task_that_had_ended(api):
    task = make_task(run_at=NOON, ended=True)
    told = api.patch(f"tasks/{task.pk}", {"run_at": "2030-01-01T00:00:00Z"}).json()
    assert told["ended"] is False


def test_a_put_resets_what_it_leaves_out(api):
    task = make_task(description="old", tags=["a"], priority=0, max_concurrency=7)
    told = api.put(f"tasks/{task.pk}", put(task)).json()
    assert (told["description"], told["tags"], told["priority"]) == ("", [], "NORMAL")
    assert (told["max_concurrency"], told["id"], told["version"]) == (1, task.pk, 2)


def test_a_put_needs_what_a_create_needs(api):
    task = make_task()
    told = api.put(f"tasks/{task.pk}", {"name": "x", "target_url": "http://svc/"}).json()
    assert "schedule_kind" in told["fields"]
    assert "name" in api.put(f"tasks/{task.pk}", {"every": "1m"}).json()["fields"]


def test_what_a_get_answers_can_be_put_back(api):
    task = make_task(description="kept", tags=["a"])
    told = api.get(f"tasks/{task.pk}").json()
    answer = api.put(f"tasks/{task.pk}", told)
    assert (answer.status_code, answer.json()) == (200, told)


def test_a_put_leaves_a_disabled_task_disabled(api):
    task = make_task(status="DISABLED")
    assert api.put(f"tasks/{task.pk}", put(task)).json()["status"] == "DISABLED"


def test_status_in_an_edit_means_enable_or_disable(api):
    task = make_task()
    run = make_run(task=task)
    told = api.patch(f"tasks/{task.pk}", {"status": "DISABLED", "description": "x"}).json()
    assert (told["status"], told["description"]) == ("DISABLED", "x")
    run.refresh_from_db()
    assert run.status == Status.CANCELED
    assert api.patch(f"tasks/{task.pk}", {"status": "ENABLED"}).json()["status"] == "ENABLED"


def test_an_edit_cannot_take_the_name_of_another_task(api):
    make_task(name="taken")
    answer = api.patch(f"tasks/{make_task().pk}", {"name": "taken"})
    assert (answer.status_code, answer.json()["code"]) == (409, "NAME_TAKEN")


@pytest.mark.parametrize("guard", [{"version": 3}, {"version": 1}])
def test_the_version_in_the_body_guards_an_edit(api, guard):
    task = make_task(version=2)
    answer = api.patch(f"tasks/{task.pk}", {"description": "mine", **guard})
    assert (answer.status_code, answer.json()["code"]) == (409, "VERSION_CONFLICT")
    assert api.patch(f"tasks/{task.pk}", {"description": "x", "version": 2}).status_code == 200


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("PATCH", "", {"description": "x"}),
        ("PUT", "", {"name": "n", "target_url": "http://svc/", "every": 9}),
        ("DELETE", "", None),
        ("POST", "/disable", {}),
        ("POST", "/enable", {}),
    ],
)
def test_if_match_guards_every_change(api, verb, path, body):
    task = make_task(version=2)
    answer = api.call(verb, f"tasks/{task.pk}{path}", body, if_match='"1"')
    assert (answer.status_code, answer.json()["code"]) == (409, "VERSION_CONFLICT")
    for good in ('"2"', "*", '"1", "2"'):
        task = make_task(version=2)
        answer = api.call(verb, f"tasks/{task.pk}{path}", body, if_match=good)
        assert answer.status_code == 200, answer.json()
        Task.objects.filter(pk=task.pk).update(deleted=True)  # "n" is free for the next


def test_an_old_version_put_back_is_noticed(api):
    task = make_task()
    told = api.get(f"tasks/{task.pk}").json()
    api.patch(f"tasks/{task.pk}", {"description": "somebody else"})
    assert api.put(f"tasks/{task.pk}", told).json()["code"] == "VERSION_CONFLICT"


def test_a_deleted_task_is_gone_and_its_name_is_free_and_its_runs_stay(api):
    task = make_task(name="again")
    done, waiting = make_run(task=task, status=Status.SUCCESS), make_run(task=task)
    answer = api.delete(f"tasks/{task.pk}")
    assert (answer.status_code, answer.json()) == (200, {"deleted": True})
    for verb, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/enable")):
        assert api.call(verb, f"tasks/{task.pk}{path}", {}).status_code == 404
    assert api.get("tasks").json()["count"] == 0
    assert api.post("tasks", put(task)).status_code == 201
    done.refresh_from_db()
    waiting.refresh_from_db()
    assert (done.status, waiting.status, waiting.reason) == ("SUCCESS", "CANCELED", "deleted")


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_disabling_cancels_what_waits_and_leaves_the_rest(api, method):
    task = make_task()
    runs = {status: make_run(task=task, status=status).pk for status in Status}
    answer = api.call(method, f"tasks/{task.pk}/disable", {"reason": "target is down"})
    assert (answer.status_code, answer.json()) == (200, {"status": "DISABLED"})
    for status, pk in runs.items():
        run = TaskRun.objects.get(pk=pk)
        assert run.status == (Status.CANCELED if status in WAITING else status)
        assert (run.end_time is not None) is (run.status in FINAL)
    task.refresh_from_db()
    assert (task.version, task.disabled_reason) == (2, "target is down")


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_enabling_is_a_new_version_once(api, method):
    task = make_task(status="DISABLED", disabled_reason="why")
    for _ in range(2):
        answer = api.call(method, f"tasks/{task.pk}/enable")
        assert (answer.status_code, answer.json()) == (200, {"status": "ENABLED"})
    task.refresh_from_db()
    assert (task.version, task.disabled_reason) == (2, "")


def test_a_verb_knows_its_fields(api):
    answer = api.post(f"tasks/{make_task().pk}/disable", {"reson": "typo"})
    assert answer.json()["fields"] == {"reson": ["There is no such field."]}


def test_work_is_not_merged_into_another_kind_of_work_and_a_null_takes_a_part_away(api):
    work = {"queue": "q", "job_type": "t", "subject": "s"}
    task = make_task(exec_type="JOB", target_url="", work=work)
    told = api.patch(f"tasks/{task.pk}", {"work": {"subject": None}}).json()
    assert told["work"] == {"queue": "q", "job_type": "t"}
    told = api.patch(f"tasks/{task.pk}", {"exec_type": "NODE", "work": {"model": "m"}}).json()
    assert told["work"] == {"model": "m"}


def test_a_once_task_that_has_fired_can_be_put_back_as_it_was_read(api):
    task = make_task(run_at=NOON, ended=True)
    answer = api.put(f"tasks/{task.pk}", api.get(f"tasks/{task.pk}").json())
    assert (answer.status_code, answer.json()["version"]) == (200, 1)


SECRET = {"Authorization": "Bearer s3cret", "X-Mine": "own", "Accept": "*/*"}


def make_secretive():
    return make_task(
        target_url="http://one/?token=s3cret",
        headers=SECRET,
        secret_headers=["X-Mine"],
        body_template='{"password": "s3cret", "n": 1}',
        secret_paths=["password"],
    )


def test_a_masked_reading_put_back_keeps_the_secrets(api):
    task = make_secretive()
    told = make_api("read").get(f"tasks/{task.pk}").json()
    assert told["headers"]["Authorization"] == MASK
    assert api.patch(f"tasks/{task.pk}", {"headers": told["headers"]}).status_code == 200
    assert api.put(f"tasks/{task.pk}", told).json()["version"] == 1
    kept = Task.objects.get()
    assert kept.headers == SECRET
    assert kept.target_url == "http://one/?token=s3cret"
    assert kept.body_template == '{"password": "s3cret", "n": 1}'


def test_secrets_meant_for_one_host_do_not_go_to_another(api):
    task = make_secretive()
    told = api.patch(f"tasks/{task.pk}", {"target_url": "http://one/elsewhere"}).json()
    assert told["headers"] == SECRET
    told = api.patch(f"tasks/{task.pk}", {"target_url": "http://two/"}).json()
    assert (told["headers"], told["body_template"]) == (
        {"Accept": "*/*"},
        '{"password": "", "n": 1}',
    )
    given = {"target_url": "http://three/", "headers": {"Authorization": "Bearer new"}}
    told = api.patch(f"tasks/{task.pk}", given).json()
    assert told["headers"] == {"Authorization": "Bearer new"}
