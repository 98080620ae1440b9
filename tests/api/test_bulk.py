import pytest

from cronjob.api import bulk
from runs.models import TaskRun
from runs.states import Status
from tasks.changes import Change
from tasks.models import Task
from tests import marks
from tests.factories import make_api, make_run, make_task

pytestmark = marks.both


@pytest.fixture
def operator(db):
    return make_api("operate", name="ops")


def told(answer):
    assert answer.status_code == 200, answer.json()
    body = answer.json()
    return {row["id"]: row["outcome"] for row in body["results"]}


def test_a_dry_run_says_what_it_would_do_and_does_nothing(operator):
    off, on = make_task(status="DISABLED"), make_task()
    asked = {"filter": {"all": True}, "action": "enable", "dry_run": True}
    answer = operator.post("tasks/bulk", asked)
    assert told(answer) == {off.pk: "changed", on.pk: "unchanged"}
    assert (answer.json()["matched"], answer.json()["changed"]) == (2, 1)
    assert not Task.objects.filter(pk=off.pk, status="ENABLED").exists()
    del asked["dry_run"]
    assert told(operator.post("tasks/bulk", asked)) == told(answer)
    assert Task.objects.filter(status="ENABLED").count() == 2


def test_disabling_many_says_who_and_why_in_each_log(operator):
    tasks = [make_task(tags=["nightly"]) for _ in range(3)]
    other = make_task()
    asked = {"filter": {"tag": "nightly"}, "action": "disable", "reason": "deploy"}
    assert told(operator.post("tasks/bulk", asked)) == {task.pk: "changed" for task in tasks}
    other.refresh_from_db()
    assert other.status == "ENABLED"
    log = Change.objects.filter(task__in=tasks).values_list("who", "verb", "reason")
    assert list(log) == [("key ops", "DISABLE", "deploy")] * 3


def test_disabling_again_gives_the_new_reason_and_without_one_leaves_the_old(operator):
    task = make_task(status="DISABLED", disabled_reason="deploy")
    asked = {"filter": {"all": True}, "action": "disable"}
    assert told(operator.post("tasks/bulk", asked)) == {task.pk: "unchanged"}
    asked["reason"] = "still deploying"
    assert told(operator.post("tasks/bulk", asked)) == {task.pk: "changed"}
    assert told(operator.post("tasks/bulk", asked)) == {task.pk: "unchanged"}
    task.refresh_from_db()
    assert (task.status, task.disabled_reason) == ("DISABLED", "still deploying")


def test_enabling_many_says_why_in_each_log(operator):
    task = make_task(status="DISABLED")
    asked = {"filter": {"all": True}, "action": "enable", "reason": "quiet now"}
    assert told(operator.post("tasks/bulk", asked)) == {task.pk: "changed"}
    assert Change.objects.get(task=task).reason == "quiet now"


def test_the_answer_tells_of_all_that_match_as_far_as_lists_count(operator, monkeypatch):
    for _ in range(5):
        make_task()
    monkeypatch.setattr(bulk, "MOST", 2)
    asked = {"filter": {"all": True}, "action": "disable", "dry_run": True}
    body = operator.post("tasks/bulk", asked).json()
    assert (body["matched"], body["total"], body["total_capped"]) == (2, 5, False)
    body = operator.post("tasks/bulk", asked | {"after_id": body["next_after_id"]}).json()
    assert (body["matched"], body["total"]) == (2, 5)
    monkeypatch.setattr(bulk, "COUNT_MAX", 3)
    body = operator.post("tasks/bulk", asked).json()
    assert (body["total"], body["total_capped"]) == (3, True)


def test_triggering_many_makes_a_run_of_each_that_may(operator):
    free, full = make_task(), make_task(concurrency_policy="SKIP")
    make_run(task=full, status=Status.RUNNING, slot=1)
    answer = operator.post("tasks/bulk", {"filter": {"all": True}, "action": "trigger"})
    assert told(answer) == {free.pk: "changed", full.pk: "refused"}
    first, second = answer.json()["results"]
    assert TaskRun.objects.get(pk=first["run_id"]).task == free
    assert "slots of the task are taken" in second["detail"]


def test_tags_are_added_and_taken_away(api):
    task = make_task(tags=["a", "b"])
    asked = {
        "filter": {"ids": [task.pk]}, "action": "tag", "add_tags": ["c"], "remove_tags": ["a"],
    }  # fmt: skip
    assert told(api.post("tasks/bulk", asked)) == {task.pk: "changed"}
    task.refresh_from_db()
    assert task.tags == ["b", "c"]
    assert told(api.post("tasks/bulk", asked)) == {task.pk: "unchanged"}


def test_a_task_that_would_have_too_many_tags_is_refused_alone(api):
    full, free = make_task(tags=[f"t{n}" for n in range(50)]), make_task()
    asked = {"filter": {"all": True}, "action": "tag", "add_tags": ["more"]}
    assert told(api.post("tasks/bulk", asked)) == {full.pk: "refused", free.pk: "changed"}


def test_deleting_many(api):
    keep, go = make_task(name="keep"), make_task(name="temp 1")
    assert told(api.post("tasks/bulk", {"filter": {"name": "temp"}, "action": "delete"})) == {
        go.pk: "changed"
    }
    assert list(Task.objects.live()) == [keep]


@pytest.mark.parametrize("action", ["tag", "delete"])
def test_what_changes_tasks_needs_the_scope_for_it(operator, action):
    make_task()
    asked = {"filter": {"all": True}, "action": action, "add_tags": ["x"]}
    answer = operator.post("tasks/bulk", asked)
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
    assert Task.objects.live().count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "delete"}, "filter"),
        ({"filter": {}, "action": "delete"}, "filter"),
        ({"filter": {"all": False}, "action": "delete"}, "filter"),
        ({"filter": {"colour": "red"}, "action": "delete"}, "filter.colour"),
        ({"filter": {"status": "ON"}, "action": "delete"}, "filter.status"),
        ({"filter": {"name": {"x": 1}}, "action": "delete"}, "filter.name"),
        ({"filter": {"ids": ["1"]}, "action": "delete"}, "filter.ids"),
        ({"filter": {"ids": 1}, "action": "delete"}, "filter.ids"),
        ({"filter": {"all": True}, "action": "explode"}, "action"),
        ({"filter": {"all": True}, "action": "tag"}, "add_tags"),
        ({"filter": {"all": True}, "action": "tag", "add_tags": ["a b"]}, "add_tags"),
        ({"filter": {"all": True}, "action": "delete", "dryrun": True}, "dryrun"),
    ],
)
def test_what_is_not_understood_is_refused_before_anything_is_done(api, body, field):
    make_task()
    answer = api.post("tasks/bulk", body)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    assert Task.objects.live().count() == 1


@pytest.mark.parametrize(
    "given",
    [
        {"status": ""}, {"status": []}, {"name": ""}, {"name": "  "}, {"tag": None}, {"tag": []},
        {"ordering": "id"}, {"before_id": 1}, {"status": ["ENABLED"]}, {"search": True},
    ],
)  # fmt: skip
def test_nothing_where_something_should_be_does_not_mean_everything(api, given):
    make_task()
    answer = api.post("tasks/bulk", {"filter": given, "action": "delete"})
    assert (answer.status_code, Task.objects.live().count()) == (400, 1)


@pytest.mark.parametrize(
    "given", [{"task_id": ""}, {"task_id": []}, {"status": []}, {"status": [""]}, {"from": ""}]
)
def test_an_empty_filter_of_runs_cancels_none(operator, given):
    run = make_run()
    answer = operator.post("runs/bulk", {"filter": given, "action": "cancel"})
    run.refresh_from_db()
    assert (answer.status_code, run.status) == (400, Status.SCHEDULED)


def test_a_dry_run_of_a_trigger_knows_who_would_be_refused(operator):
    full = make_task(concurrency_policy="SKIP")
    make_run(task=full, status=Status.RUNNING, slot=1)
    over = make_run(task=make_task(deleted=True), status=Status.FAILED)
    asked = {"filter": {"all": True}, "action": "trigger", "dry_run": True}
    assert told(operator.post("tasks/bulk", asked)) == {full.pk: "refused"}
    asked = {"filter": {"ids": [over.pk]}, "action": "replay", "dry_run": True}
    assert told(operator.post("runs/bulk", asked)) == {over.pk: "refused"}


def test_more_than_one_request_takes_goes_on_where_it_ended(api, monkeypatch):
    monkeypatch.setattr(bulk, "MOST", 2)
    tasks = [make_task().pk for _ in range(5)]
    asked, seen = {"filter": {"all": True}, "action": "disable"}, []
    while True:
        answer = api.post("tasks/bulk", asked).json()
        seen.append([row["id"] for row in answer["results"]])
        if answer["next_after_id"] is None:
            break
        asked["after_id"] = answer["next_after_id"]
    assert seen == [tasks[:2], tasks[2:4], tasks[4:]]


def test_many_runs_are_canceled_or_refused_one_by_one(operator):
    task = make_task()
    waiting, over = make_run(task=task), make_run(task=task, status=Status.SUCCESS)
    make_run()
    asked = {"filter": {"task_id": task.pk}, "action": "cancel", "reason": "stop", "dry_run": True}
    wanted = {waiting.pk: "changed", over.pk: "refused"}
    assert told(operator.post("runs/bulk", asked)) == wanted
    waiting.refresh_from_db()
    assert waiting.status == Status.SCHEDULED
    assert told(operator.post("runs/bulk", asked | {"dry_run": False})) == wanted
    waiting.refresh_from_db()
    assert (waiting.status, waiting.reason) == (Status.CANCELED, "stop")


def test_many_runs_are_replayed(operator):
    failed = [make_run(status=status) for status in (Status.FAILED, Status.TIMEOUT)]
    make_run(status=Status.SUCCESS)
    asked = {"filter": {"status": ["FAILED", "TIMEOUT"]}, "action": "replay"}
    answer = operator.post("runs/bulk", asked)
    assert told(answer) == {run.pk: "changed" for run in failed}
    made = {row["run_id"] for row in answer.json()["results"]}
    assert set(TaskRun.objects.filter(trigger="REPLAY").values_list("pk", flat=True)) == made


def test_open_runs_in_a_span_of_time_are_found_as_in_the_list(operator):
    early, late = make_run(), make_run()
    since = late.scheduled_time.isoformat()
    asked = {"filter": {"outcome": "open", "from": since}, "action": "cancel"}
    assert told(operator.post("runs/bulk", asked)) == {late.pk: "changed"}
    early.refresh_from_db()
    assert early.status == Status.SCHEDULED
