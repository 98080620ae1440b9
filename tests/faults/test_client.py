"""The client and the documents' own commands, against the product as a user starts it."""

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest
import requests

from cronjob import client as clients
from cronjob.api.bulk import BulkDoneSerializer, DoneSerializer
from cronjob.client import Client, CronjobError, StillRunning
from runs.serializers import PausedSerializer, RunRowSerializer, RunSerializer
from runs.states import FINAL
from tasks.serializers import ChangeSerializer, TaskSerializer
from tests.processes import origin, up
from tests.target import Answer, Target

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with up(tmp_path_factory.mktemp("client"), "--no-demo") as process:
        yield process


@pytest.fixture(scope="module")
def target():
    with Target() as one:
        yield one


@pytest.fixture
def client(server):
    key = server.until(r"API key +(cj_\S+)\n")[1]
    with Client(origin(server), key) as one:
        yield one


def test_the_types_are_those_of_the_api():
    assert set(clients.FINAL) == set(FINAL)
    for typed, told in (
        (clients.Task, TaskSerializer),
        (clients.RunRow, RunRowSerializer),
        (clients.Run, RunSerializer),
        (clients.Change, ChangeSerializer),
        (clients.Done, DoneSerializer),
        (clients.BulkDone, BulkDoneSerializer),
        (clients.Paused, PausedSerializer),
    ):
        assert set(typed.__annotations__) == set(told().get_fields()), typed


def test_a_task_is_made_triggered_and_waited_for(client, target):
    task = client.create_task(
        name="report", schedule_kind="MANUAL", target_url=target.url("/status/200")
    )
    run = client.trigger_and_wait(task["id"], override_body="x")
    assert (run["status"], run["response_code"], run["task_name"]) == ("SUCCESS", 200, "report")
    assert client.task(task["id"])["last_run"]["id"] == run["id"]
    again = client.wait(client.replay(run["id"]))
    assert (again["trigger"], again["scheduled_time"]) == ("REPLAY", run["scheduled_time"])
    assert [row["id"] for row in client.runs(task=task["id"])] == [again["id"], run["id"]]
    assert client.trigger(task["id"], key="k") == client.trigger(task["id"], key="k")


def test_waiting_has_an_end_and_a_run_can_be_canceled(client, target):
    task = client.create_task(
        name="slow", schedule_kind="MANUAL", target_url=target.url("/slow?seconds=30")
    )
    with pytest.raises(StillRunning) as still:
        client.trigger_and_wait(task["id"], seconds=0.5)
    run = still.value.run["id"]
    client.cancel(run, reason="enough")
    assert client.wait(run)["reason"] == "enough"
    with pytest.raises(CronjobError) as refused:
        client.cancel(run)
    assert (refused.value.status, refused.value.code) == (409, "INVALID_STATE")


def test_lists_go_on_to_their_end(client):
    names = {f"page {number}" for number in range(5)}
    for name in names:
        client.create_task(name=name, schedule_kind="MANUAL", target_url="http://127.0.0.1:9/")
    listed = list(client.tasks(name="page", page_size=2))
    assert {task["name"] for task in listed} == names
    client.update_task(listed[0]["id"], description="new")
    client.disable(listed[0]["id"], reason="why not")
    task = client.task(listed[0]["id"])
    assert (task["description"], task["status"]) == ("new", "DISABLED")
    client.enable(task["id"])
    client.delete_task(task["id"])
    with pytest.raises(CronjobError):
        client.task(task["id"])
    assert client.next(listed[1]["id"]) == []
    assert len(client.preview(every="5m", count=3)) == 3
    assert client.explain(listed[1]["id"], "2020-01-01T00:00:00Z")["verdict"] == "NOT_YET_MADE"


def test_many_are_changed_at_once_and_the_log_tells_of_each(client):
    made = [
        client.create_task(name=f"many {n}", every="1h", target_url="http://127.0.0.1:9/")["id"]
        for n in range(3)
    ]
    (asked,) = client.bulk_tasks("disable", {"name": "many"}, dry_run=True)
    assert (asked["changed"], asked["total"]) == (3, 3)
    (done,) = client.bulk_tasks("disable", {"name": "many"}, reason="deploy")
    assert [row["id"] for row in done["results"]] == made
    newest, *_ = client.changes(made[0])
    assert (newest["verb"], newest["reason"]) == ("DISABLE", "deploy")
    client.update_task(made[0], description="new")
    assert client.restore(made[0], 1)["description"] == ""
    runs = [client.trigger(task) for task in made]
    assert [client.wait(run)["status"] for run in runs] == ["FAILED"] * 3
    (done,) = client.bulk_runs("replay", {"ids": runs})
    assert done["changed"] == 3


def test_runs_are_listed_from_a_time_on(client, target):
    task = client.create_task(
        name="listed", schedule_kind="MANUAL", target_url=target.url("/status/200")
    )
    run = client.trigger_and_wait(task["id"])
    assert [row["id"] for row in client.runs(task=task["id"], from_="2020-01-01T00:00:00Z")] == [
        run["id"]
    ]
    assert list(client.runs(task=task["id"], from_="2999-01-01T00:00:00Z")) == []


def test_firing_is_paused_and_resumed(client):
    assert client.pause(tag="nightly", reason="deploy")["tag"] == "nightly"
    assert [pause["reason"] for pause in client.pauses()] == ["deploy"]
    assert (client.resume(tag="nightly"), client.resume()) == (True, False)


def test_what_can_do_no_harm_is_asked_again_when_no_answer_comes():
    with Target() as deaf, Client(deaf.url(""), "k", timeout=0.2) as client:
        deaf.answers("/api/v1/tasks/1", second_time(b'{"id": 1}'))
        assert client.task(1) == {"id": 1}
        asked = "/api/v1/tasks/1/trigger"
        deaf.answers(asked, second_time(b'{"run_id": 7}'))
        assert client.trigger(1) == 7
        keys = [r.headers["Idempotency-Key"] for r in deaf.requests if r.path == asked]
        assert (len(keys), len(set(keys))) == (2, 1)
        deaf.answers("/api/v1/tasks/2", second_time(b"{}"))
        with pytest.raises(requests.ReadTimeout):
            client.delete_task(2)


def second_time(body):
    """The first request is not answered before there is another."""
    seen, again = [], threading.Event()

    def handler(request):
        seen.append(request)
        again.wait(2) if len(seen) == 1 else again.set()
        return Answer(body=body)

    return handler


def test_the_quick_check_by_curl_gives_what_it_says(tmp_path, target):
    """As it is written; the target takes its time, so that there is something to cancel."""
    script = Path(__file__).with_name("quick_check.sh")
    with up(tmp_path, "--no-demo") as server:
        key = server.until(r"API key +(cj_\S+)\n")[1]
        places = {"SERVER": origin(server), "TARGET": target.url("/slow?seconds=20"), "KEY": key}
        done = subprocess.run(
            ["bash", "-e", script], env=os.environ | places, capture_output=True, text=True,
            timeout=60, check=True,
        )  # fmt: skip
    lines = done.stdout.splitlines()
    told = [(int(code), json.loads(text)) for text, code in zip(*[iter(lines)] * 2, strict=True)]
    assert [code for code, _ in told] == [201, 200, 202, 200, 200, 200, 200, 200, 200, 200]
    made, tasks, asked, runs, run, canceled, off, on, edited, deleted = (body for _, body in told)
    assert (made["id"], made["name"], made["cron_expr"]) == (1, "t1", "*/20 * * * * *")
    assert [task["name"] for task in tasks["results"]] == ["t1"]
    assert asked["run_id"] in [run["id"] for run in runs["results"]]
    assert (run["id"], run["task_id"]) == (1, 1)
    assert canceled == {"run_id": 1, "status": "CANCELED"}
    assert (off, on) == ({"status": "DISABLED"}, {"status": "ENABLED"})
    assert (edited["cron_expr"], deleted) == ("*/10 * * * * *", {"deleted": True})


def test_a_server_that_is_gone_is_said_to_be_gone():
    with (
        Client("http://127.0.0.1:9", "k", timeout=1) as nobody,
        pytest.raises(requests.ConnectionError),
    ):
        nobody.task(1)
