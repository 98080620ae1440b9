"""Ksana's file and crontabs, both ways."""

import json
from pathlib import Path

import pytest

from runs.models import TaskRun
from tasks.models import Task
from tasks.rules import RETRY_DEFAULTS
from tests import marks
from tests.factories import NOON, make_run, make_task
from tests.tasks.exchanging import emptied, export, load

pytestmark = marks.both


@pytest.fixture
def file(tmp_path):
    def write(text, name):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    return write


# --- Ksana's jobs.json --------------------------------------------------------------------------

JOB = {
    "id": "0190d3f0-0000-4000-8000-000000000001", "name": "ping service", "enabled": True,
    "type": "http",
    "http": {"method": "GET", "url": "http://x/ping", "headers": {"X-A": "b"}, "body": "{{x}}"},
    "schedule": {"kind": "every", "every": "5m", "start_at": "", "jitter": "5s"},
    "timeout": "10s", "max_retries": 3, "retry_backoff": "5s", "last_run_at": "",
    "next_run_at": "2025-09-19T11:05:00Z", "last_status": "", "last_error": "",
}  # fmt: skip
JOBS = {"version": 1, "updated_at": "2025-09-19T11:00:00Z", "jobs": [JOB]}


def test_ksanas_file_is_taken_and_given_back(file):
    said, wrong = load(file(JOBS, "jobs.json"))
    assert (wrong, "1 created" in said) == ("", True)
    task = Task.objects.get()
    assert (str(task.uuid), task.misfire_policy, task.jitter_seconds) == (JOB["id"], "SKIP", 5)
    back = json.loads(export("--format", "ksana", "--with-secrets"))
    assert (back["version"], set(back)) == (1, {"version", "updated_at", "jobs"})
    (job,) = back["jobs"]
    assert job == JOB | {"next_run_at": job["next_run_at"]}
    assert "1 unchanged" in load(file(JOBS, "jobs.json"))[0]


def test_an_id_of_ksanas_that_is_no_uuid_gets_a_new_one(file):
    said, wrong = load(file({"jobs": [JOB | {"id": "uuid-1"}]}, "jobs.json"))
    assert (wrong, Task.objects.count()) == ("", 1)
    assert "jobs[0] “ping service”: “uuid-1” is no UUID: a new id is given." in said
    emptied()
    assert "UUID" not in load(file({"jobs": [JOB | {"id": ""}]}, "jobs.json"))[0]


@pytest.mark.parametrize(
    ("told", "entries"),
    [
        ({"last_status": "success", "last_run_at": "2025-01-01T00:00:01Z"}, []),
        ({"last_status": "failed"}, []),
        ({"last_run_at": "2025-01-01T00:00:01Z"}, []),
        ({"last_status": "missed"}, ["MISSED"]),
        ({"last_status": "", "last_run_at": ""}, ["MISSED"]),
    ],
)
def test_a_once_of_ksanas_that_has_run_was_not_missed(file, told, entries):
    once = {"kind": "once", "run_at": "2025-01-01T00:00:00Z"}
    load(file({"jobs": [JOB | {"schedule": once} | told]}, "jobs.json"))
    assert Task.objects.get().ended
    assert list(TaskRun.objects.values_list("status", flat=True)) == entries


def test_an_id_that_is_there_twice_is_an_error(file):
    jobs = {"jobs": [JOB, JOB | {"name": "other"}]}
    assert "jobs[1] “other”: the id is there twice." in load(file(jobs, "jobs.json"))[1]
    assert not Task.objects.exists()


def test_a_task_goes_through_ksanas_file_and_back_unchanged(file):
    make_task(retry_policy=RETRY_DEFAULTS | {"max_retries": 3})
    make_task(run_at=NOON.replace(year=2999), jitter_seconds=5, end_at=NOON.replace(year=3000))
    text = export("--format", "ksana", "--with-secrets")
    assert "0 changed, 2 adopted" in load(file(text, "jobs.json"))[0]


def test_importing_ksanas_file_leaves_alone_what_it_has_no_words_for(file):
    load(file(JOBS, "jobs.json"))
    Task.objects.update(tags=["kept"], priority=0)
    load(file({"jobs": [JOB | {"timeout": "3s"}]}, "jobs.json"))
    task = Task.objects.get()
    assert (task.timeout_seconds, task.tags, task.priority) == (3, ["kept"], 0)


def test_a_corrupt_file_of_ksanas_is_reported_and_left_alone(file):
    path = file('{"version": 1, "jobs": [', "jobs.json")
    before = path.read_bytes()
    assert "It is not JSON" in load(path)[1]
    assert path.read_bytes() == before
    assert [other.name for other in path.parent.iterdir()] == ["jobs.json"]
    assert not Task.objects.exists()


def test_what_ksana_has_no_words_for_is_left_out_and_told():
    make_task(name="manual", schedule_kind="MANUAL")
    make_run(task=make_task(name="kept"), status="SUCCESS", start_time=NOON)
    text, told = export("--format", "ksana")
    assert [job["name"] for job in json.loads(text)["jobs"]] == ["kept"]
    assert json.loads(text)["jobs"][0]["last_status"] == "success"
    assert "left out: manual" in told


# --- crontab ------------------------------------------------------------------------------------


def test_a_real_crontab_is_taken_line_by_line():
    path = Path(__file__).with_name("crontab.txt")
    lines = path.read_text().splitlines()
    assert len(lines) >= 200
    said, wrong = load(path, "--format", "crontab")
    assert wrong == ""
    made = Task.objects.count()
    assert made >= 20
    assert f"{made} created" in said
    assert "not an HTTP call" in said
    assert f"{made} unchanged" in load(path, "--format", "crontab")[0]


def test_lines_that_call_nothing_by_http_can_be_wrapped(file):
    path = file("*/5 * * * * /usr/bin/backup --all\n", "crontab")
    assert "0 created" in load(path)[0]
    said, _ = load(path, "--url-template", "http://runner.internal/run?cmd={command}")
    assert "1 created" in said
    task = Task.objects.get()
    assert task.target_url == "http://runner.internal/run?cmd=%2Fusr%2Fbin%2Fbackup%20--all"
    assert "url" in load(path, "--url-template", "http://runner.internal/")[1].lower()


def test_an_export_to_a_crontab_can_be_imported_again(file):
    make_task(
        name="nightly", cron_expr="0 30 3 * * MON-FRI", timezone="Europe/Berlin",
        http_method="POST", target_url="http://x/?a=%20b", headers={"X-A": "it's"},
        body_template="{}",
    )  # fmt: skip
    make_task(name="often", every_seconds=5)
    text = export("--format", "crontab")
    assert "# not expressible: often" in text
    emptied()
    load(file(text, "crontab"))
    task = Task.objects.get()
    assert (task.name, task.timezone, task.headers["X-A"]) == ("nightly", "Europe/Berlin", "it's")
    assert task.target_url == "http://x/?a=%20b"
