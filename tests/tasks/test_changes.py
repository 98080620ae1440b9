import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cronjob.lib import clock
from runs import materialise, standing
from tasks.changes import Change
from tasks.models import Task
from tests import marks
from tests.factories import NOON, make_api, make_task

pytestmark = marks.both

BASE = {"name": "t", "cron_expr": "0 0 * * * *", "target_url": "http://svc/"}


@pytest.fixture
def made(api):
    answer = api.post("tasks", BASE)
    assert answer.status_code == 201, answer.json()
    return answer.json()["id"]


def log(api, task):
    answer = api.get(f"tasks/{task}/changes")
    assert answer.status_code == 200, answer.json()
    return answer.json()["results"]


def test_the_log_says_who_changed_what_and_when(db):
    anna, ben = make_api("write", name="anna"), make_api("operate", name="ben")
    task = anna.post("tasks", BASE).json()["id"]
    anna.patch(f"tasks/{task}", {"cron_expr": "0 30 * * * *", "priority": "HIGH", "jitter": "5s"})
    ben.post(f"tasks/{task}/disable", {"reason": "too loud"})
    ben.post(f"tasks/{task}/disable", {"reason": "at night, too"})
    ben.post(f"tasks/{task}/enable", {"reason": "quiet now"})
    told = [(c["who"], c["verb"], c["version"], c["reason"], c["changes"]) for c in log(anna, task)]
    assert told == [
        (
            "key ben", "ENABLE", 5, "quiet now",
            {
                "status": {"old": "DISABLED", "new": "ENABLED"},
                "disabled_reason": {"old": "at night, too", "new": ""},
            },
        ),
        (
            "key ben", "DISABLE", 4, "at night, too",
            {"disabled_reason": {"old": "too loud", "new": "at night, too"}},
        ),
        (
            "key ben", "DISABLE", 3, "too loud",
            {
                "status": {"old": "ENABLED", "new": "DISABLED"},
                "disabled_reason": {"old": "", "new": "too loud"},
            },
        ),
        (
            "key anna", "EDIT", 2, "",
            {
                "cron_expr": {"old": "0 0 * * * *", "new": "0 30 * * * *"},
                "jitter": {"old": None, "new": "5s"},
                "priority": {"old": "NORMAL", "new": "HIGH"},
            },
        ),
        (
            "key anna", "CREATE", 1, "",
            {
                "name": {"old": None, "new": "t"},
                "schedule_kind": {"old": None, "new": "CRON"},
                "cron_expr": {"old": None, "new": "0 0 * * * *"},
                "target_url": {"old": None, "new": "http://svc/"},
            },
        ),
    ]  # fmt: skip


def test_what_changes_nothing_is_not_in_the_log(api, made):
    api.patch(f"tasks/{made}", {"description": ""})
    api.post(f"tasks/{made}/enable")
    assert [change["verb"] for change in log(api, made)] == ["CREATE"]


def test_a_change_of_the_console_names_its_user(console):
    task = make_task()
    console.post("/admin/tasks/task/", {"action": "disable", "_selected_action": [task.pk]})
    assert Change.objects.get(task=task).who == "user admin"


def test_the_scheduler_says_that_it_gave_a_task_up(db):
    task = make_task(cron_expr="nonsense", next_run_at=NOON)
    materialise.materialise(NOON)
    change = Change.objects.get(task=task)
    assert (change.who, change.verb, change.version) == ("scheduler", "DISABLE", 2)


@pytest.mark.parametrize("spoilt", [{"retry_policy": "never"}, {"headers": [1]}, {"priority": 2}])
def test_a_task_that_somebody_spoilt_can_be_disabled_and_explained(api, made, spoilt):
    Task.objects.filter(pk=made).update(**spoilt)
    standing.disable(Task.objects.get(pk=made), reason="spoilt", now=clock.now())
    newest = log(api, made)[0]
    assert (newest["verb"], newest["reason"]) == ("DISABLE", "spoilt")
    assert api.get(f"tasks/{made}/explain?at=2999-01-01T00:00:00Z").status_code == 200


def test_secrets_are_never_in_the_log(api, made):
    values = {
        "headers": {"Authorization": "Bearer hush", "X-Mine": "hush", "Accept": "*/*"},
        "secret_headers": ["X-Mine"],
        "target_url": "http://svc/?token=hush",
        "body_template": '{"user": {"password": "hush"}}',
        "secret_paths": ["user.password"],
    }
    assert api.patch(f"tasks/{made}", values).status_code == 200
    answer = api.get(f"tasks/{made}/changes")
    assert "hush" not in answer.text
    new = answer.json()["results"][0]["changes"]["headers"]["new"]
    assert new == {"Authorization": "********", "X-Mine": "********", "Accept": "*/*"}
    assert not any("hush" in str(vars(change)) for change in Change.objects.all())


def test_a_new_secret_is_a_change_although_it_looks_the_same(api, made):
    api.patch(f"tasks/{made}", {"headers": {"X-Key": "one"}})
    api.patch(f"tasks/{made}", {"headers": {"X-Key": "two"}})
    assert [change["verb"] for change in log(api, made)] == ["EDIT", "EDIT", "CREATE"]


def test_a_deleted_task_has_no_log_to_read_but_it_is_kept(api, made):
    api.delete(f"tasks/{made}")
    assert api.get(f"tasks/{made}/changes").status_code == 404
    assert Change.objects.filter(task=made).latest("id").verb == "DELETE"


def test_the_log_comes_in_pages_at_a_constant_cost(reader, api, made):
    def cost():
        with CaptureQueriesContext(connection) as seen:
            log(reader, made)
        return [query["sql"] for query in seen.captured_queries]

    cost()
    few = cost()
    for number in range(10):
        api.patch(f"tasks/{made}", {"description": str(number)})
    many = cost()
    assert len(many) == len(few)
    assert not any('"task_changes"."values"' in sql for sql in many)
    answer = reader.get(f"tasks/{made}/changes?page_size=3").json()
    assert (answer["count"], len(answer["results"])) == (11, 3)
    assert "page=2" in answer["next"]


# --- an earlier version again -------------------------------------------------------------------


def test_an_earlier_version_can_be_restored(api, made):
    api.patch(f"tasks/{made}", {"every": "5m", "tags": ["x"], "retry_policy": {"max_retries": 7}})
    api.post(f"tasks/{made}/disable")
    answer = api.post(f"tasks/{made}/restore", {"version": 1})
    assert answer.status_code == 200, answer.json()
    told = answer.json()
    assert (told["cron_expr"], told["every"], told["tags"]) == ("0 0 * * * *", None, [])
    assert told["retry_policy"]["max_retries"] == 0
    assert (told["version"], told["status"]) == (4, "DISABLED")  # which is a verb of its own
    assert log(api, made)[0]["reason"] == "back to version 1"
    again = api.post(f"tasks/{made}/restore", {"version": 2}).json()
    assert (again["every"], again["retry_policy"]["max_retries"]) == ("5m", 7)


def test_a_restore_leaves_present_secrets_untouched(api, made):
    old = {
        "headers": {"X-Key": "old", "Accept": "a"}, "target_url": "http://svc/a?token=old",
        "body_template": '{"p": "old", "n": 1}', "secret_paths": ["p"],
    }  # fmt: skip
    new = {
        "headers": {"X-Key": "new", "Accept": "b"}, "target_url": "http://svc/b?token=new",
        "body_template": '{"p": "new", "n": 2}',
    }  # fmt: skip
    api.patch(f"tasks/{made}", old)
    api.patch(f"tasks/{made}", new)
    assert api.post(f"tasks/{made}/restore", {"version": 2}).status_code == 200
    task = Task.objects.get(pk=made)
    assert task.headers == {"X-Key": "new", "Accept": "a"}
    assert task.target_url == "http://svc/a?token=new"
    assert task.body_template == '{"p": "new", "n": 1}'


def test_a_secret_that_is_gone_cannot_be_restored(api, made):
    api.patch(f"tasks/{made}", {"headers": {"X-Key": "old"}})
    api.patch(f"tasks/{made}", {"headers": {}})
    answer = api.post(f"tasks/{made}/restore", {"version": 2})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["headers"])
    assert Task.objects.get(pk=made).headers == {}


def test_a_time_that_has_passed_cannot_be_restored(api, made, monkeypatch):
    api.patch(f"tasks/{made}", {"run_at": "2999-01-01T00:00:00Z"})
    change = Change.objects.get(task=made, version=2)
    change.values["run_at"] = "2020-01-01T00:00:00Z"
    change.save()
    api.patch(f"tasks/{made}", {"every": "5m"})
    answer = api.post(f"tasks/{made}/restore", {"version": 2})
    assert list(answer.json()["fields"]) == ["run_at"]


@pytest.mark.parametrize(
    ("body", "code"),
    [({"version": 9}, "NOT_FOUND"), ({"version": 0}, "INVALID_ARGUMENT"), ({}, "INVALID_ARGUMENT")],
)
def test_a_version_that_never_was_cannot_be_restored(api, made, body, code):
    assert api.post(f"tasks/{made}/restore", body).json()["code"] == code


def test_a_restore_minds_the_version_it_is_based_on(api, made):
    answer = api.post(f"tasks/{made}/restore", {"version": 1}, if_match='"7"')
    assert answer.json()["code"] == "VERSION_CONFLICT"


def test_what_is_shown_of_a_secret_is_not_one(api, made):
    answer = api.patch(f"tasks/{made}", {"headers": {"X-Key": "********"}})
    assert list(answer.json()["fields"]) == ["headers"]
