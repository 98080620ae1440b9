"""Every example of docs/callbacks.md, read from the page and run against the real thing."""

import json
import os
import re
import subprocess

import pytest
import requests

from tests.processes import ROOT, free_port, origin, running, up
from tests.target import Target

pytestmark = pytest.mark.faults

PAGE = (ROOT / "docs" / "callbacks.md").read_text()
PROJECT = """import sys
from django.conf import settings
from django.core.management import execute_from_command_line
settings.configure(ROOT_URLCONF="receiver", DEBUG=True, SECRET_KEY="k")
execute_from_command_line(sys.argv)
"""
COMMANDS = {
    "Flask": ("-m", "flask", "--app", "receiver", "run", "--port"),
    "FastAPI": ("-m", "uvicorn", "receiver:app", "--port"),
    "Django": ("manage.py", "runserver", "--noreload"),
}


@pytest.fixture(scope="module")
def cronjob(tmp_path_factory):
    with up(tmp_path_factory.mktemp("callbacks"), "--no-demo") as process:
        yield process


@pytest.fixture
def port():
    return free_port()


def key(process):
    return process.until(r"API key +(cj_\S+)\n")[1]


def example(heading, language="python"):
    return re.search(rf"^### {heading}\n\n```{language}\n(.*?)```", PAGE, re.M | re.S)[1]


def ask(process, path, **body):
    headers = {"Authorization": f"Bearer {key(process)}"}
    answer = requests.post(
        f"{origin(process)}/api/v1/{path}", json=body, headers=headers, timeout=30
    )
    assert answer.ok, answer.text
    return answer.json()


@pytest.mark.parametrize("framework", COMMANDS)
def test_a_receiver_of_fifteen_lines_ends_the_run(cronjob, framework, port, tmp_path):
    code = example(framework)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    (tmp_path / "receiver.py").write_text(code)
    (tmp_path / "reporting.py").write_text(re.search(r"```python\n(.*?)```", PAGE, re.S)[1])
    (tmp_path / "manage.py").write_text(PROJECT)
    command = (*COMMANDS[framework], str(port))
    with running(*command, data_dir=tmp_path, directory=tmp_path):
        task = ask(
            cronjob, "tasks", name=framework, schedule_kind="MANUAL", exec_type="ASYNC",
            http_method="POST", target_url=f"http://127.0.0.1:{port}/import",
            retry_policy={"max_retries": 50, "initial_delay": 1, "strategy": "fixed"},
        )  # fmt: skip  # it is called again until the receiver has started
        ask(cronjob, f"tasks/{task['id']}/trigger")
        cronjob.until(rf"run \d+ of {framework}: CALLBACK_SUCCESS")


def test_the_commands_of_the_page_do_what_it_says(cronjob, tmp_path):
    create, report = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
    with Target() as target:
        told = {"BASE": origin(cronjob), "KEY": key(cronjob), "TARGET": target.url("/status/202")}
        task = json.loads(shell(create, **told))
        assert (task["name"], task["exec_type"]) == ("nightly import", "ASYNC")
        run = ask(cronjob, f"tasks/{task['id']}/trigger")["run_id"]
        (call,) = target.wait_for(1)
        url = call.headers["X-Cronjob-Callback-Url"]
        assert (
            url == f"{origin(cronjob)}/api/v1/callbacks/{call.headers['X-Cronjob-Callback-Token']}"
        )
        assert json.loads(call.body)["callback_url"] == url
        more, last = shell(report, CALLBACK_URL=url).split("}{")
        progress = json.loads(more + "}")
        progress.pop("callback_deadline")  # null, if we have not seen the 2xx yet
        assert progress == {"run_id": run, "final_status": None}
        assert json.loads("{" + last) == {"run_id": run, "final_status": "SUCCESS"}


def shell(script, **variables):
    done = subprocess.run(
        ["bash", "-euc", script], env={"PATH": os.environ["PATH"]} | variables,
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def test_the_tables_of_the_page_name_every_field_and_every_error():
    from callbacks.api import TokenView
    from callbacks.serializers import ReportSerializer

    fields = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
    assert fields == [*dict.fromkeys(["status", *sorted(fields[1:], key=fields.index)])]
    assert set(fields) == set(ReportSerializer().fields)
    assert set(re.findall(r"^\| (4\d\d) \|", PAGE, re.M)) == set(TokenView.answers)
