import pytest

from tasks.models import Task
from tests import marks
from tests.factories import make_task

pytestmark = marks.both

LEAST = {"name": "sync_stats", "target_url": "http://svc.internal/sync", "every": "5m"}

WHOLE = {
    "name": "sync_stats", "description": "统计同步", "tags": ["stats", "nightly"],
    "cron_expr": "0 */5 * * * *", "start_at": "2030-01-01T00:00:00Z",
    "end_at": "2031-01-01T00:00:00Z", "jitter": "30s", "timezone": "Europe/Berlin",
    "exec_type": "ASYNC", "http_method": "POST",
    "target_url": "https://svc.internal:8443/api/{{ task_id }}?run={{run_id}}",
    "headers": {"Content-Type": "application/json", "X-Run": "{{ run_id }}"},
    "body_template": '{"run_id": {{ run_id }}}',
    "connect_timeout_seconds": 2.5, "timeout_seconds": 30, "follow_redirects": True,
    "secret_headers": ["X-Password"], "secret_paths": ["user.password", "items.*.key"],
    "retry_policy": {"max_retries": 3, "initial_delay": 1.5, "strategy": "fixed", "max_delay": 30,
                     "jitter": True, "retry_on_callback_failure": True},
    "max_concurrency": 4, "concurrency_policy": "SKIP", "misfire_policy": "CATCH_UP_LIMITED",
    "misfire_grace_seconds": 5, "catchup_limit": 7, "start_deadline_seconds": 90,
    "on_lost": "FAIL", "priority": "URGENT", "callback_method": "PUT",
    "callback_timeout_sec": 60, "status": "DISABLED",
}  # fmt: skip


def with_(**changes):
    """The least that makes a task, with these changes; None leaves a field out."""
    return {name: value for name, value in (LEAST | changes).items() if value is not None}


def test_the_least_makes_a_task_with_the_documented_defaults(api):
    answer = api.post("tasks", LEAST)
    assert answer.status_code == 201
    told = answer.json()
    assert answer["Location"] == f"/api/v1/tasks/{told['id']}"
    assert answer["ETag"] == '"1"'
    for name in ("id", "uuid", "created_at", "updated_at", "next_run_at"):
        assert told.pop(name)
    assert told == {
        "name": "sync_stats", "description": "", "tags": [], "schedule_kind": "EVERY",
        "cron_expr": None, "every": "5m", "run_at": None, "start_at": None, "end_at": None,
        "jitter": None, "timezone": "UTC", "exec_type": "SYNC", "http_method": "GET",
        "target_url": "http://svc.internal/sync", "headers": {}, "body_template": "",
        "connect_timeout_seconds": 5, "timeout_seconds": 15, "follow_redirects": False,
        "secret_headers": [], "secret_paths": [],
        "retry_policy": {"max_retries": 0, "initial_delay": 5, "strategy": "exponential",
                         "max_delay": 60, "jitter": False, "retry_on_callback_failure": False},
        "max_concurrency": 1, "concurrency_policy": "QUEUE", "misfire_policy": "FIRE_NOW",
        "misfire_grace_seconds": 60, "catchup_limit": 5, "start_deadline_seconds": None,
        "on_lost": "RETRY", "priority": "NORMAL", "callback_method": "POST",
        "callback_timeout_sec": 300, "work": None, "status": "ENABLED", "version": 1,
        "ended": False, "last_run": None, "disabled_reason": "",
    }  # fmt: skip


def test_every_field_that_is_given_is_kept_and_told(api):
    told = api.post("tasks", WHOLE).json()
    assert {name: told[name] for name in WHOLE} == WHOLE
    assert told == api.get(f"tasks/{told['id']}").json()


def test_times_are_told_in_utc_with_a_z(api):
    told = api.post("tasks", with_(every=None, run_at="2030-06-01T12:00:00+02:00")).json()
    assert told["run_at"] == "2030-06-01T10:00:00Z"
    assert told["created_at"].endswith("Z")


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"cron_expr": "*/5 * * * *"}, "CRON"),
        ({"every": 90}, "EVERY"),
        ({"run_at": "2030-01-01T00:00:00Z"}, "ONCE"),
        ({"schedule_kind": "MANUAL"}, "MANUAL"),
        ({"schedule_kind": "CRON", "cron_expr": "@daily", "every": None, "run_at": None}, "CRON"),
    ],
)
def test_one_way_of_saying_when_sets_the_kind(api, given, kind):
    body = {"name": "t", "target_url": "http://svc/"} | given
    answer = api.post("tasks", body)
    assert (answer.status_code, answer.json()["schedule_kind"]) == (201, kind)


def test_five_fields_get_their_second_and_spaces_are_made_one(api):
    told = api.post("tasks", with_(every=None, cron_expr="  */5  * * *   1-5 ")).json()
    assert told["cron_expr"] == "0 */5 * * * 1-5"


@pytest.mark.parametrize(
    ("given", "told"), [("90s", "1m30s"), ("1h30m", "1h30m"), (3600, "1h"), ("86400", "24h")]
)
def test_durations_may_be_text_or_seconds_and_are_told_as_text(api, given, told):
    assert api.post("tasks", with_(every=given)).json()["every"] == told


def test_left_out_parts_of_the_retry_policy_take_their_defaults(api, settings):
    settings.CRONJOB_DEFAULT_MAX_RETRIES = 2
    told = api.post("tasks", with_(retry_policy={"strategy": "fixed"})).json()["retry_policy"]
    assert (told["strategy"], told["max_retries"], told["initial_delay"]) == ("fixed", 2, 5)


def test_a_job_says_its_work_and_needs_no_url(api):
    work = {"queue": "visuals", "job_type": "load30", "cost_units": 30, "payload": [1, {"a": 2}]}
    told = api.post("tasks", with_(exec_type="JOB", target_url=None, work=work)).json()
    assert (told["work"], told["target_url"]) == (work, "")
    node = with_(name="n", exec_type="NODE", target_url=None, work={"model": "asr"})
    assert api.post("tasks", node).json()["work"] == {"model": "asr"}


def test_read_only_fields_sent_back_are_ignored(api):
    told = api.post("tasks", LEAST | {"id": 99, "uuid": "x", "ended": True, "last_run": 7}).json()
    assert (told["id"] != 99, told["ended"], told["last_run"]) == (True, False, None)


BAD = [
    ("name", {"name": None}),
    ("name", {"name": ""}),
    ("name", {"name": "   "}),
    ("name", {"name": "n" * 129}),
    ("name", {"name": "two\nlines"}),
    ("name", {"name": 7}),
    ("description", {"description": "d" * 513}),
    ("nmae", {"nmae": "typo"}),
    ("target_url", {"target_url": None}),
    ("target_url", {"target_url": "svc/path"}),
    ("target_url", {"target_url": "ftp://svc/"}),
    ("target_url", {"target_url": "http://"}),
    ("target_url", {"target_url": "http://user:pass@svc/"}),
    ("target_url", {"target_url": "http://svc:99999/"}),
    ("target_url", {"target_url": "http://svc/a b"}),
    ("target_url", {"target_url": "http://svc/{{ nope }}"}),
    ("target_url", {"target_url": "{{ task_name }}://svc/"}),
    ("target_url", {"target_url": "http://svc/" + "u" * 2048}),
    ("schedule_kind", {"every": None}),
    ("schedule_kind", {"schedule_kind": "SOMETIMES"}),
    ("cron_expr", {"cron_expr": "* * * * *"}),
    ("every", {"run_at": "2030-01-01T00:00:00Z"}),
    ("every", {"schedule_kind": "MANUAL"}),
    ("cron_expr", {"every": None, "schedule_kind": "CRON"}),
    ("cron_expr", {"every": None, "cron_expr": "61 * * * *"}),
    ("cron_expr", {"every": None, "cron_expr": "* * * * * * *"}),
    ("cron_expr", {"every": None, "cron_expr": "R * * * *"}),
    ("cron_expr", {"every": None, "cron_expr": "H * * * *"}),
    ("cron_expr", {"every": None, "cron_expr": "50-10 * * * *"}),
    ("cron_expr", {"every": None, "cron_expr": "10-10 * * * *"}),
    ("cron_expr", {"every": None, "cron_expr": "0 0 30 2 *"}),
    ("cron_expr", {"every": None, "cron_expr": "*/90 * * * * *"}),
    ("cron_expr", {"every": None, "cron_expr": "0 */25 * * *"}),
    ("cron_expr", {"every": None, "cron_expr": "٥ * * * *"}),
    ("cron_expr", {"every": None, "cron_expr": "0," * 200 + "0 * * * *"}),
    ("cron_expr", {"every": None, "cron_expr": ""}),
    ("every", {"every": "0s"}),
    ("every", {"every": "soon"}),
    ("every", {"every": 1.5}),
    ("every", {"every": True}),
    ("run_at", {"every": None, "run_at": "2020-01-01T00:00:00Z"}),
    ("run_at", {"every": None, "run_at": "2030-01-01T00:00:00"}),
    ("run_at", {"every": None, "run_at": "9999-12-31T23:59:59-12:00"}),
    ("end_at", {"start_at": "2030-01-01T00:00:00Z", "end_at": "2030-01-01T00:00:00Z"}),
    ("jitter", {"jitter": "-5s"}),
    ("timezone", {"timezone": "Mars/Olympus"}),
    ("timezone", {"timezone": "../../etc/passwd"}),
    ("exec_type", {"exec_type": "LATER"}),
    ("http_method", {"http_method": "BREW"}),
    ("headers", {"headers": {"Host": "evil"}}),
    ("headers", {"headers": {"X-Cronjob-Run-Id": "1"}}),
    ("headers", {"headers": {"X-A": "1", "x-a": "2"}}),
    ("headers", {"headers": {"X-A": "line\r\nbreak"}}),
    ("headers", {"headers": {"bad name": "x"}}),
    ("headers", {"headers": {"X-A": "{{ nope }}"}}),
    ("headers", {"headers": {"X-A": "中"}}),
    ("headers", {"headers": {"X-A": 1}}),
    ("headers", {"headers": []}),
    ("body_template", {"body_template": "{{ run_id"}),
    ("body_template", {"body_template": "{{ secrets }}"}),
    ("body_template", {"body_template": {"a": 1}}),
    ("timeout_seconds", {"timeout_seconds": 0.05}),
    ("timeout_seconds", {"timeout_seconds": 86401}),
    ("timeout_seconds", {"timeout_seconds": "15"}),
    ("connect_timeout_seconds", {"connect_timeout_seconds": 0}),
    ("follow_redirects", {"follow_redirects": "yes"}),
    ("secret_headers", {"secret_headers": ["not a name"]}),
    ("secret_paths", {"secret_paths": ["a..b"]}),
    ("tags", {"tags": ["two words"]}),
    ("tags", {"tags": "one"}),
    ("retry_policy", {"retry_policy": {"max_retries": 101}}),
    ("retry_policy", {"retry_policy": {"max_retries": 1.5}}),
    ("retry_policy", {"retry_policy": {"strategy": "random"}}),
    ("retry_policy", {"retry_policy": {"initial_delay": -1}}),
    ("retry_policy", {"retry_policy": {"jitter": 1}}),
    ("retry_policy", {"retry_policy": {"retries": 1}}),
    ("retry_policy", {"retry_policy": 3}),
    ("max_concurrency", {"max_concurrency": -1}),
    ("max_concurrency", {"max_concurrency": 1001}),
    ("max_concurrency", {"max_concurrency": 1.5}),
    ("concurrency_policy", {"concurrency_policy": "HOPE"}),
    ("misfire_policy", {"misfire_policy": "HOPE"}),
    ("misfire_grace_seconds", {"misfire_grace_seconds": -1}),
    ("catchup_limit", {"catchup_limit": -1}),
    ("start_deadline_seconds", {"start_deadline_seconds": 0}),
    ("on_lost", {"on_lost": "SHRUG"}),
    ("priority", {"priority": 2}),
    ("priority", {"priority": "normal"}),
    ("callback_method", {"callback_method": "GET"}),
    ("callback_timeout_sec", {"callback_timeout_sec": 0}),
    ("work", {"work": {"queue": "q", "job_type": "t"}}),
    ("work", {"exec_type": "JOB"}),
    ("work", {"exec_type": "JOB", "work": {"queue": "q"}}),
    ("work", {"exec_type": "JOB", "work": {"queue": "q", "job_type": "t", "cost_units": 0}}),
    ("work", {"exec_type": "NODE", "work": {"model": "m", "queue": "q"}}),
    ("status", {"status": "PAUSED"}),
]  # fmt: skip


@pytest.mark.parametrize(("field", "changes"), BAD)
def test_what_is_not_valid_is_refused_under_the_name_of_its_field(api, field, changes):
    answer = api.post("tasks", with_(**changes))
    told = answer.json()
    assert (answer.status_code, told["code"]) == (400, "INVALID_ARGUMENT"), told
    assert field in told["fields"]
    assert all(text for text in told["fields"][field])
    assert Task.objects.count() == 0


def test_all_that_is_wrong_is_told_at_once(api):
    told = api.post("tasks", {"target_url": "ftp://x", "timeout_seconds": 0}).json()
    assert set(told["fields"]) == {"name", "timeout_seconds"}
    told = api.post("tasks", with_(target_url="ftp://x", tags=["a b"])).json()
    assert set(told["fields"]) == {"target_url", "tags"}


def test_an_asynchronous_task_needs_a_base_url(api, settings):
    settings.CRONJOB_BASE_URL = ""
    told = api.post("tasks", with_(exec_type="ASYNC")).json()
    assert "CRONJOB_BASE_URL" in told["fields"]["exec_type"][0]


def test_two_live_tasks_cannot_have_the_same_name(api):
    make_task(name="sync_stats")
    answer = api.post("tasks", LEAST)
    assert (answer.status_code, answer.json()["code"]) == (409, "NAME_TAKEN")


def test_text_in_any_script_survives(api):
    names = {"name": "每小时 🕐", "description": "مرحبا"}
    told = api.post("tasks", with_(**names, body_template="ünïcode {{ run_id }}\n")).json()
    assert (told["name"], told["body_template"]) == ("每小时 🕐", "ünïcode {{ run_id }}\n")
