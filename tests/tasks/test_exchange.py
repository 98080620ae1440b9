import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from runs import standing
from runs.models import TaskRun
from tasks.changes import Change
from tasks.models import Task
from tasks.rules import RETRY_DEFAULTS
from tests import marks
from tests.factories import NOON, make_run, make_task

pytestmark = marks.both


def export(*args):
    out, err = io.StringIO(), io.StringIO()
    call_command("tasks", "export", *args, stdout=out, stderr=err)
    return out.getvalue() if not err.getvalue() else (out.getvalue(), err.getvalue())


def load(*args):
    """What an import said, and what it found wrong."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("tasks", "import", *map(str, args), stdout=out, stderr=err)
    except CommandError as error:
        return out.getvalue(), f"{err.getvalue()}{error}"
    return out.getvalue(), err.getvalue()


@pytest.fixture
def file(tmp_path):
    def write(text, name="web.yaml"):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    return write


BUNDLE = """
version: 1
bundle: web
tasks:
  - name: sync stats
    cron_expr: "0 */5 * * * *"
    target_url: http://stats.internal/sync
    http_method: POST
    headers: {X-Token: hush}
    tags: [nightly]
  - name: ping
    every: 5m
    target_url: http://ping.internal/
"""


def names():
    return sorted(Task.objects.live().values_list("name", flat=True))


def test_a_bundle_makes_its_tasks_and_says_so(file):
    said, wrong = load(file(BUNDLE))
    assert wrong == ""
    assert (
        said
        == "create    sync stats\ncreate    ping\n2 created, 0 changed, 0 unchanged, 0 pruned.\n"
    )
    task = Task.objects.get(name="sync stats")
    assert (task.cron_expr, task.http_method, task.tags) == ("0 */5 * * * *", "POST", ["nightly"])
    assert (task.bundle, task.next_run_at is not None) == ("web", True)
    assert set(Change.objects.values_list("who", flat=True)) == {"import of web.yaml"}


def test_applied_twice_there_is_nothing_to_do(file):
    load(file(BUNDLE))
    versions = dict(Task.objects.values_list("name", "version"))
    said, _ = load(file(BUNDLE))
    assert said.endswith("0 created, 0 changed, 2 unchanged, 0 pruned.\n")
    assert dict(Task.objects.values_list("name", "version")) == versions


def test_a_change_names_the_fields_and_what_is_left_out_takes_its_default(file):
    load(file(BUNDLE))
    Task.objects.filter(name="ping").update(description="by hand")
    said, _ = load(file(BUNDLE.replace("every: 5m", "every: 10m").replace("nightly", "daily")))
    assert "change    ping: description, every_seconds" in said
    assert "change    sync stats: tags" in said
    assert Task.objects.get(name="ping").description == ""


def test_a_dry_run_changes_nothing(file):
    said, _ = load(file(BUNDLE), "--dry-run")
    assert said.endswith("Would be: 2 created, 0 changed, 0 unchanged, 0 pruned.\n")
    assert not Task.objects.exists()


def test_what_an_operator_disabled_stays_disabled(file):
    load(file(BUNDLE))
    standing.disable(Task.objects.get(name="ping"), reason="too loud", now=NOON)
    load(file(BUNDLE.replace("every: 5m", "every: 10m")))
    task = Task.objects.get(name="ping")
    assert (task.status, task.every_seconds, task.next_run_at) == ("DISABLED", 600, None)


def test_a_bundle_may_make_a_task_that_does_not_fire(file):
    load(file(BUNDLE + "    status: DISABLED\n"))
    assert Task.objects.get(name="ping").status == "DISABLED"


def test_prune_deletes_only_what_the_bundle_owns(file):
    make_task(name="by hand")
    load(file(BUNDLE.replace("bundle: web", "bundle: other").replace("ping", "pong")))
    load(file(BUNDLE.replace("sync stats", "web sync")))
    less = BUNDLE[: BUNDLE.index("  - name: ping")].replace("sync stats", "web sync")
    said, _ = load(file(less))
    assert "0 pruned" in said
    said, _ = load(file(less), "--prune")
    assert "prune     ping\n" in said
    assert names() == ["by hand", "pong", "sync stats", "web sync"]


def test_a_task_that_was_made_by_hand_is_taken_over_by_its_name(file):
    make_task(name="ping", every_seconds=300)
    load(file(BUNDLE))
    assert Task.objects.get(name="ping").bundle == "web"


def test_what_another_bundle_owns_is_left_alone(file):
    load(file(BUNDLE.replace("bundle: web", "bundle: other")))
    _, wrong = load(file(BUNDLE))
    assert "tasks[0] “sync stats”: name: The bundle “other” owns this task." in wrong
    assert set(Task.objects.values_list("bundle", flat=True)) == {"other"}


def test_one_bad_entry_and_nothing_is_changed_and_all_errors_are_listed(file):
    bad = BUNDLE + (
        "  - {name: bad cron, cron_expr: nonsense, target_url: 'http://x/'}\n"
        "  - {name: no url, every: 5m}\n"
        "  - {name: typo, every: 5m, target_url: 'http://x/', colour: red}\n"
        "  - {name: ping, every: 5m, target_url: 'http://x/'}\n"
        "  - just text\n"
    )
    _, wrong = load(file(bad))
    assert not Task.objects.exists()
    for part in (
        "tasks[2] “bad cron”: cron_expr:", "tasks[3] “no url”: target_url:",
        "tasks[4] “typo”: colour: There is no such field.",
        "tasks[5] “ping”: the name is taken by tasks[1] “ping”.", "tasks[6]: must be an object.",
        "5 errors. Nothing was changed.",
    ):  # fmt: skip
        assert part in wrong


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks: [", "It is not YAML"),
        ("- a", "It is not a bundle"),
        ("tasks: {}", "It is not a bundle"),
        ("tasks: []\nversion: 2", "It is of version 2"),
        ("tasks: []\nextra: 1", "It holds what no bundle has: extra"),
        ("tasks: []\nbundle: 7", "`bundle` must be a name"),
        ("tasks: []\ntasks: []", "“tasks” is there twice, line 2"),
        ("a: &a [x]\ntasks: [*a]", "aliases are not taken, line 2"),
        ("tasks: !!python/object/apply:os.system [x]", "It is not YAML"),
        ("tasks: [\x00]", "It is not YAML"),
        ("1: 2\ntasks: []", "a name must be text"),
        ("tasks: " + "[" * 2000 + "]" * 2000, "It is"),
    ],
)
def test_a_file_that_is_no_bundle_is_refused(file, text, said):
    assert said in load(file(text))[1]


def test_a_name_and_a_time_in_yaml_are_the_text_that_they_are(file):
    load(file(BUNDLE.replace("every: 5m", "run_at: 2999-01-01T00:00:00Z")))
    assert Task.objects.get(name="ping").run_at.year == 2999
    _, wrong = load(file(BUNDLE.replace("name: ping", "name: 7")))
    assert "name: Not a valid string" in wrong


def test_a_file_that_cannot_be_read_says_why(tmp_path, monkeypatch):
    assert "cannot be read: No such file" in load(tmp_path / "none.yaml")[1]
    path = tmp_path / "latin.yaml"
    path.write_bytes("name: ü".encode("latin-1"))
    assert "is not UTF-8 text" in load(path)[1]
    monkeypatch.setattr("tasks.exchange.BYTES_MAX", 3)
    assert "is larger than" in load(path)[1]
    (tmp_path / "x.toml").write_text("")
    monkeypatch.undo()
    assert "Say which --format" in load(tmp_path / "x.toml")[1]


# --- there and back -----------------------------------------------------------------------------


def everything():
    """Tasks of every sort, with secrets."""
    make_task(name="plain")
    make_task(
        name="full", description="Lines\nof text: #1", tags=["a", "b"], cron_expr="0 0 3 * * MON",
        timezone="Europe/Berlin", http_method="POST", target_url="http://svc/?token=hush&a=1",
        headers={"Authorization": "Bearer hush", "X-Mine": "hush"}, secret_headers=["X-Mine"],
        body_template='{"p": "hush",\n "n": "{{ run_id }}"}\n', secret_paths=["p"],
        retry_policy=RETRY_DEFAULTS | {"max_retries": 3, "initial_delay": 0.5},
        priority=0, jitter_seconds=90, start_deadline_seconds=30, misfire_policy="SKIP",
        concurrency_policy="PARALLEL", max_concurrency=7, on_lost="FAIL", follow_redirects=True,
        timeout_seconds=1.5, status="DISABLED",
    )  # fmt: skip
    make_task(name="once", run_at=NOON)
    make_task(name="manual", schedule_kind="MANUAL")
    make_task(
        name="job", schedule_kind="MANUAL", exec_type="JOB", target_url="",
        work={"queue": "q", "job_type": "t", "payload": {"x": [1, None, True]}},
    )  # fmt: skip
    make_task(name="window", every_seconds=5400, start_at=NOON, end_at=NOON.replace(year=2999))
    make_task(name="中文 名", body_template="yes", http_method="PUT")
    make_task(name="gone", deleted=True)


def emptied():
    TaskRun.objects.all().delete()
    Change.objects.all().delete()
    Task.objects.all().delete()


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_is_exported_makes_the_same_again_in_an_empty_instance(file, form):
    everything()
    text = export("--with-secrets", "--format", form)
    assert text.count("hush") >= 4
    emptied()
    said, wrong = load(file(text, f"all.{form}"))
    assert (wrong, "7 created" in said) == ("", True)
    assert export("--with-secrets", "--format", form) == text
    said, _ = load(file(text, f"all.{form}"))
    assert "0 created, 0 changed, 7 unchanged" in said


def test_a_once_whose_time_has_passed_is_recorded_as_missed(file):
    make_task(name="once", run_at=NOON)
    text = export()
    emptied()
    said, _ = load(file(text))
    assert "create    once (its time has passed: recorded as missed)" in said
    assert [run.status for run in TaskRun.objects.all()] == ["MISSED"]


def test_an_export_masks_secrets_and_an_import_keeps_them(file):
    everything()
    text = export()
    assert "hush" not in text
    assert "********" in text
    said, wrong = load(file(text))
    assert (wrong, "0 changed, 7 unchanged" in said) == ("", True)
    assert Task.objects.get(name="full").headers["X-Mine"] == "hush"


def test_a_masked_secret_of_a_new_task_is_refused(file):
    everything()
    text = export()
    emptied()
    _, wrong = load(file(text))
    for field in ("headers", "target_url", "body_template"):
        assert f"“full”: {field}: ******** is what is shown of a secret" in wrong
    assert not Task.objects.exists()


def test_an_export_changes_only_where_a_task_does():
    everything()
    before = export().splitlines()
    Task.objects.filter(name="plain").update(description="new")
    after = export().splitlines()
    assert [line for line in after if line not in before] == ["    description: new"]
    assert len(after) == len(before) + 1


def test_only_what_a_bundle_owns_can_be_exported(file):
    make_task(name="by hand")
    load(file(BUNDLE))
    text = export("--bundle", "web")
    assert "by hand" not in text
    assert text.startswith("version: 1\nbundle: web\ntasks:\n  - name: ping\n")


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
    _, wrong = load(file({"jobs": [JOB | {"id": "uuid-1"}]}, "jobs.json"))
    assert (wrong, Task.objects.count()) == ("", 1)


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
    assert 180 <= len(lines) <= 260
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
