import json

import pytest

from runs import standing
from runs.models import TaskRun
from tasks.changes import Change
from tasks.models import Task
from tasks.rules import RETRY_DEFAULTS
from tests import marks
from tests.factories import NOON, make_task
from tests.tasks.exchanging import emptied, export, load

pytestmark = marks.both


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
    assert said.splitlines() == [
        "create    sync stats",
        "create    ping",
        "2 created, 0 changed, 0 adopted, 0 pruned, 0 unchanged.",
    ]
    task = Task.objects.get(name="sync stats")
    assert (task.cron_expr, task.http_method, task.tags) == ("0 */5 * * * *", "POST", ["nightly"])
    assert (task.bundle, task.next_run_at is not None) == ("web", True)
    assert set(Change.objects.values_list("who", flat=True)) == {"import of web.yaml"}


def test_applied_twice_there_is_nothing_to_do(file):
    load(file(BUNDLE))
    versions = dict(Task.objects.values_list("name", "version"))
    said, _ = load(file(BUNDLE))
    assert said.endswith("0 created, 0 changed, 0 adopted, 0 pruned, 2 unchanged.\n")
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
    assert said.endswith("Would be: 2 created, 0 changed, 0 adopted, 0 pruned, 0 unchanged.\n")
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
    make_task(name="once", run_at=NOON, ended=True)
    make_task(name="manual", schedule_kind="MANUAL")
    make_task(name="async", exec_type="ASYNC", callback_method="PUT", callback_timeout_sec=60)
    make_task(
        name="job", schedule_kind="MANUAL", exec_type="JOB", target_url="",
        work={"queue": "q", "job_type": "t", "payload": {"x": [1, None, True]}},
    )  # fmt: skip
    make_task(name="window", every_seconds=5400, start_at=NOON, end_at=NOON.replace(year=2999))
    make_task(name="中文 名", body_template="yes", http_method="PUT")
    make_task(name="gone", deleted=True)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_is_exported_makes_the_same_again_in_an_empty_instance(file, form):
    everything()
    text = export("--with-secrets", "--format", form)
    assert text.count("hush") >= 4
    emptied()
    said, wrong = load(file(text, f"all.{form}"))
    assert (wrong, "8 created" in said) == ("", True)
    assert export("--with-secrets", "--format", form) == text
    said, _ = load(file(text, f"all.{form}"))
    assert "0 created, 0 changed, 0 adopted, 0 pruned, 8 unchanged" in said
    assert not TaskRun.objects.exists()


@pytest.mark.parametrize("base_url", ["", "http://cronjob.internal"])
def test_an_import_need_not_know_where_callbacks_come_to(file, settings, base_url):
    everything()
    text = export("--with-secrets")
    settings.CRONJOB_BASE_URL = base_url
    said, wrong = load(file(text), "--dry-run")
    assert (wrong, "8 adopted" in said, "CRONJOB_BASE_URL" in said) == ("", True, False)
    emptied()
    said, wrong = load(file(text))
    assert (wrong, "8 created" in said) == ("", True)
    assert ("Its callbacks need CRONJOB_BASE_URL" in said) == (base_url == "")


def test_a_once_that_has_run_is_imported_without_an_entry(file):
    make_task(name="once", run_at=NOON, ended=True)
    text = export()
    assert "    ended: true\n" in text
    emptied()
    said, wrong = load(file(text))
    assert (wrong, "recorded as missed" in said) == ("", False)
    assert Task.objects.get().ended
    assert not TaskRun.objects.exists()
    assert export() == text


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
    assert (wrong, "0 changed, 8 adopted" in said) == ("", True)
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


# --- who owns what ------------------------------------------------------------------------------


def test_taking_a_task_over_is_told_and_written_down(file):
    make_task(name="ping", target_url="http://ping.internal/", every_seconds=300, anchor=NOON)
    said, _ = load(file(BUNDLE))
    assert "adopt     ping" in said
    assert Task.objects.get(name="ping").bundle == "web"
    assert Change.objects.get(task__name="ping").reason == "owned by bundle web"
    assert "0 adopted" in load(file(BUNDLE))[0]


def test_an_export_of_everything_can_be_applied_where_it_came_from(file):
    load(file(BUNDLE))
    make_task(name="by hand")
    text = export("--with-secrets")
    assert "bundle: web\n" in text
    said, wrong = load(file(text, "all.yaml"))
    assert (wrong, "1 adopted, 0 pruned, 2 unchanged" in said) == ("", True)
    assert Task.objects.get(name="ping").bundle == "web"
    assert export("--with-secrets") == text


def test_pruning_by_standard_input_must_say_whose_tasks(monkeypatch, tmp_path):
    path = tmp_path / "in"
    path.write_text("*/5 * * * * curl http://x/\n")
    monkeypatch.setattr("tasks.management.importing.text_of", lambda file: path.read_text())
    _, wrong = load("-", "--format", "crontab", "--prune")
    assert "Say whose tasks to prune: --bundle NAME." in wrong
    assert "1 created" in load("-", "--format", "crontab", "--prune", "--bundle", "bob")[0]


@pytest.mark.parametrize("value", [".nan", "-.inf", "1" + "0" * 2000])
def test_a_number_that_cannot_be_kept_is_refused(file, value):
    work = f"    work: {{queue: q, job_type: t, payload: {{x: {value}}}}}\n"
    text = BUNDLE.replace("    every: 5m\n    target_url: http://ping.internal/\n", work)
    _, wrong = load(file(text.replace("name: ping\n", "name: ping\n    exec_type: JOB\n")))
    assert wrong
    assert not Task.objects.exists()


def test_what_looks_like_a_number_of_yesterday_is_text(file):
    _, wrong = load(file(BUNDLE.replace("every: 5m", "every: 1:30")))
    assert "every: Cannot read" in wrong
    load(file(BUNDLE.replace("every: 5m", "every: 90")))
    assert Task.objects.get(name="ping").every_seconds == 90


def test_a_name_for_a_bundle_is_not_too_long(file):
    assert "at most 64 characters" in load(file(BUNDLE), "--bundle", "x" * 65)[1]


@pytest.mark.parametrize(
    "text", ["a\x85b", "a\u2028b\n", "tab\there\n  x", " lead\n", "yes", "1:30"]
)
def test_texts_survive_a_bundle_as_they_are(file, text):
    make_task(name="odd", body_template=text)
    said = export()
    emptied()
    load(file(said))
    assert Task.objects.get().body_template == text
