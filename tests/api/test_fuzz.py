"""What schemathesis makes of the OpenAPI description, sent to a server with something in it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from cronjob.client import Client
from tests.faults.world import LONG
from tests.processes import origin, up
from tests.target import Target

pytestmark = [pytest.mark.faults, pytest.mark.fuzz]
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
REPORT = {"status": "SUCCESS"}
JOB = {"http": {"url": "http://127.0.0.1:9/"}, "schedule": {"kind": "every", "every": "1h"}}
# What costs most, and what finds most of what only one database minds, goes to PostgreSQL alone;
# the long form sends everything to both.
PHASES = {"postgresql": "examples,coverage", "sqlite": "examples,fuzzing"}
COUNT = 40  # of everything: some are deleted, canceled and answered on the way


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_no_request_however_odd_is_answered_by_a_5xx(tmp_path, postgres, vendor):
    variables = {"DATABASE_URL": postgres} if vendor == "postgresql" else {}
    with Target() as target, up(tmp_path / "var", "--no-demo", **variables) as process:
        key = process.until(r"API key +(cj_\S+)\n")[1]
        url = origin(process)
        with Client(url, key) as client:
            there = seeded(client, target, f"{url}/jobs")
        (tmp_path / "there.json").write_text(json.dumps(there))
        command = [
            str(Path(sys.executable).parent / "schemathesis"),
            "run", f"{url}/api/schema/",
            "--header", f"Authorization: Bearer {key}",
            "--checks", ",".join(CHECKS),
            "--phases", "examples,coverage,fuzzing" if LONG else PHASES[vendor],
            "--max-examples", "5",
            "--warnings", "off",
            "--no-color",
        ]  # fmt: skip
        hooks = {
            "SCHEMATHESIS_HOOKS": str(Path(__file__).with_name("fuzzing.py")),
            "FUZZ_PLACE": str(tmp_path),
        }
        said = subprocess.run(
            command, cwd=tmp_path, env=os.environ | hooks, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        schema = requests.get(
            f"{url}/api/schema/", headers={"Authorization": f"Bearer {key}"}, timeout=30
        ).json()
    assert said.returncode == 0, said.stdout[-8000:]
    assert "No issues found" in said.stdout
    told = (tmp_path / "answers").read_text().splitlines()
    done = {label for label, _, status in (line.rpartition(" ") for line in told) if status < "300"}
    every = {f"{verb.upper()} {path}" for path, verbs in schema["paths"].items() for verb in verbs}
    if LONG or vendor == "postgresql":  # coverage is what gets everywhere
        assert every - done == set()


def seeded(client, target, jobs):
    """By the front door: tasks, jobs, and runs that are over, that wait, that await a callback."""
    manual = {"schedule_kind": "MANUAL", "concurrency_policy": "PARALLEL"}
    called = {"target_url": target.url("/status/200")} | manual
    over = client.create_task(name="over", **called)["id"]
    full = {"concurrency_policy": "QUEUE", "max_concurrency": 0}  # they wait for ever
    waits = client.create_task(name="waits", **called | full)["id"]
    awaits = client.create_task(name="awaits", exec_type="ASYNC", **called)["id"]
    spare = [client.create_task(name=f"spare {n}", **called)["id"] for n in range(COUNT)]
    made = [
        client.session.post(jobs, json=JOB | {"name": f"job {n}"}, timeout=30).json()
        for n in range(COUNT)
    ]
    for _ in range(COUNT):
        client.trigger(awaits)
    came = target.wait_for(COUNT, timeout=60)
    tokens = [request.headers["X-Cronjob-Callback-Token"] for request in came]
    ended = [client.trigger_and_wait(over)["id"] for _ in range(3)]
    pending = [[awaits, run["id"]] for run in client.runs(task=awaits)]
    client.call("POST", "callbacks", {"task_id": awaits, "run_id": pending[0][1], **REPORT})
    return {
        "tasks": spare, "jobs": [job["id"] for job in made], "tokens": tokens, "pending": pending,
        "cancel": [client.trigger(waits) for _ in range(COUNT)], "replay": ended, "runs": ended,
        "callbacks": [one["id"] for one in client.callbacks(pending[0][1])],
    }  # fmt: skip
