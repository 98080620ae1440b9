"""Making and editing a task in the console, as a browser does."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from cronjob.lib import clock
from runs import standing
from tasks.models import Task, default_retry_policy
from tests import marks
from tests.console.house import WHOLE, make_tasks_of_every_kind
from tests.console.pages import Page, errors, opened
from tests.factories import NOON, make_task

pytestmark = marks.both

ADD = "/admin/tasks/task/add/"
LEAST = {"name": "sync stats", "target_url": "http://svc/sync", "schedule_kind": "MANUAL"}
SOON = {"run_at_0": "2130-01-01", "run_at_1": "12:00:00"}


def add(browser, **typed):
    """Open the form, type what is given over the least that makes a task, save."""
    return browser.post(ADD, opened(browser, ADD, "task_form") | LEAST | typed)


def added(browser, **typed):
    answer = add(browser, **typed)
    assert answer.status_code == 302, errors(answer)
    return Task.objects.order_by("-id").first()


def page_of(task):
    return f"/admin/tasks/task/{task.pk}/change/"


def edit(browser, task, **typed):
    return browser.post(page_of(task), opened(browser, page_of(task), "task_form") | typed)


def edited(browser, task, **typed):
    answer = edit(browser, task, **typed)
    assert answer.status_code == 302, errors(answer)
    task.refresh_from_db()
    return task


# --- a new task -----------------------------------------------------------------------------


def test_the_form_opens_with_what_a_new_task_holds_by_default(editor):
    task = added(editor)
    blank = Task(name=LEAST["name"], target_url=LEAST["target_url"], schedule_kind="MANUAL")
    stored = ("id", "uuid", "created_at", "updated_at", "live_name")
    for field in [f for f in Task._meta.concrete_fields if f.name not in stored]:
        assert getattr(task, field.name) == getattr(blank, field.name), field.name
    assert task.retry_policy == default_retry_policy()


def test_new_tasks_start_from_the_settings(editor, settings):
    settings.CRONJOB_TIME_ZONE = "Asia/Shanghai"
    settings.CRONJOB_REQUEST_TIMEOUT_SECONDS = 42
    settings.CRONJOB_CONNECT_TIMEOUT_SECONDS = 2.5
    settings.CRONJOB_DEFAULT_MAX_RETRIES = 4
    task = added(editor)
    assert (task.timezone, task.timeout_seconds, task.connect_timeout_seconds) == (
        "Asia/Shanghai", 42, 2.5,
    )  # fmt: skip
    assert task.retry_policy["max_retries"] == 4


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (
            {"schedule_kind": "CRON", "cron_expr": "*/5 * * * *"},
            {"schedule_kind": "CRON", "cron_expr": "0 */5 * * * *"},
        ),
        (
            {"schedule_kind": "CRON", "cron_expr": "@daily", "timezone": "Asia/Shanghai"},
            {"cron_expr": "0 0 0 * * *", "timezone": "Asia/Shanghai"},
        ),
        ({"schedule_kind": "EVERY", "every_seconds": "1h30m"}, {"every_seconds": 5400}),
        ({"schedule_kind": "EVERY", "every_seconds": "90"}, {"every_seconds": 90}),
        (
            {"schedule_kind": "ONCE", **SOON},
            {"schedule_kind": "ONCE", "run_at": datetime(2130, 1, 1, 12, tzinfo=UTC)},
        ),
        (
            {"schedule_kind": "MANUAL"},
            {"cron_expr": None, "every_seconds": None, "run_at": None, "next_run_at": None},
        ),
    ],
)
def test_a_task_is_made_with_every_kind_of_schedule(editor, typed, kept):
    task = added(editor, **typed)
    assert {name: getattr(task, name) for name in kept} == kept
    assert task.schedule_kind == typed["schedule_kind"]
    assert (task.version, task.status, task.ended) == (1, "ENABLED", False)
    assert clock.now() >= task.created_at == task.updated_at


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ({"tags": "nightly, stats,,  nightly"}, {"tags": ["nightly", "stats"]}),
        (
            {"headers": "Accept: text/html\r\n\r\n  X-Run :  {{ run_id }}: yes \r\nX-Empty:"},
            {"headers": {"Accept": "text/html", "X-Run": "{{ run_id }}: yes", "X-Empty": ""}},
        ),
        ({"jitter_seconds": "2m"}, {"jitter_seconds": 120}),
        ({"jitter_seconds": ""}, {"jitter_seconds": None}),
        ({"secret_headers": "X-Password, X-Pin"}, {"secret_headers": ["X-Password", "X-Pin"]}),
        ({"secret_paths": "user.pin,items.*.key"}, {"secret_paths": ["user.pin", "items.*.key"]}),
        ({"timeout_seconds": "0.5"}, {"timeout_seconds": 0.5}),
        ({"start_deadline_seconds": "90"}, {"start_deadline_seconds": 90}),
        ({"priority": "0"}, {"priority": 0}),
        ({"follow_redirects": "on"}, {"follow_redirects": True}),
        ({"name": "  夜间统计 "}, {"name": "夜间统计"}),
        (
            {"exec_type": "JOB", "work": '{"queue": "q", "job_type": "t"}', "target_url": ""},
            {"work": {"queue": "q", "job_type": "t"}, "target_url": ""},
        ),
        (
            {"start_at_0": "2130-01-01", "start_at_1": "00:00", "end_at_0": "2130-01-02",
             "end_at_1": "00:00"},
            {"start_at": datetime(2130, 1, 1, tzinfo=UTC),
             "end_at": datetime(2130, 1, 2, tzinfo=UTC)},
        ),
    ],
)  # fmt: skip
def test_what_is_typed_becomes_what_the_task_holds(editor, typed, kept):
    task = added(editor, **typed)
    assert {name: getattr(task, name) for name in kept} == kept


def test_the_parts_of_the_retry_policy_make_one_value(editor):
    typed = {
        "retry_policy_max_retries": "3", "retry_policy_strategy": "fixed",
        "retry_policy_initial_delay": "1.5", "retry_policy_max_delay": "30",
        "retry_policy_jitter": "on", "retry_policy_retry_on_callback_failure": "on",
    }  # fmt: skip
    assert added(editor, **typed).retry_policy == WHOLE["retry_policy"]


def test_each_part_of_the_retry_policy_is_an_input_of_its_own(editor):
    page = Page(editor.get(ADD))
    bound = [c["x-model.fill"] for c in page.forms["task_form"] if c.get("x-model.fill")]
    assert sorted(bound) == sorted(set(bound))  # what shares a variable shares its value


# --- editing --------------------------------------------------------------------------------


def test_the_form_shows_a_task_the_way_it_is_typed(editor):
    shown = opened(editor, page_of(make_task(**WHOLE)), "task_form")
    expected = {
        "name": WHOLE["name"], "tags": "nightly, 夜", "cron_expr": WHOLE["cron_expr"],
        "jitter_seconds": "30s", "secret_headers": "X-Password",
        "secret_paths": "user.password, items.*.key", "target_url": WHOLE["target_url"],
        "retry_policy_max_retries": "3", "retry_policy_strategy": "fixed",
        "retry_policy_initial_delay": "1.5", "retry_policy_max_delay": "30",
        "retry_policy_jitter": "on", "retry_policy_retry_on_callback_failure": "on",
        "priority": "0", "on_lost": "FAIL", "follow_redirects": "on", "timezone": "Europe/Berlin",
        "start_at_0": "2035-12-30", "start_at_1": "12:00:00", "opened_version": "1",
    }  # fmt: skip
    assert {name: shown.get(name) for name in expected} == expected
    headers = ["Authorization: hush2", "X-Password: hush3", "X-Run: {{ run_id }}: yes"]
    assert sorted(shown["headers"].splitlines()) == headers
    every = opened(editor, page_of(make_task(every_seconds=5400)), "task_form")
    assert (every["every_seconds"], every["cron_expr"]) == ("1h30m", "")


def test_saving_a_task_of_any_kind_unchanged_changes_nothing(editor):
    make_tasks_of_every_kind()
    before = list(Task.objects.order_by("pk").values())
    for task in Task.objects.all():
        edited(editor, task)
    assert list(Task.objects.order_by("pk").values()) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"body_template": '{\n  "run_id": {{ run_id }}\n}'},
        {"body_template": "  one\ttwo \n\n"},
        {"body_template": "\n\none"},  # a browser drops the newline after <textarea>
        {"run_at": datetime(2130, 1, 1, 12, 0, 0, 250000, tzinfo=UTC)},
        {"start_at": datetime(2130, 1, 1, 12, 0, 0, 250000, tzinfo=UTC)},
        {"jitter_seconds": 0},
        {"headers": {"X-One": "a\tb", "x-two": ""}},
        {"headers": {"X": "a\x85b\x0bc"}},
        {"secret_paths": ["user.first,last"]},
        {"timeout_seconds": 0.1, "connect_timeout_seconds": 86400},
        {"timezone": "America/Argentina/ComodRivadavia"},
    ],
)
def test_what_a_client_may_write_survives_being_saved_unchanged(editor, fields):
    task = make_task(**fields)
    try:
        task.clean()
    except ValidationError:
        return  # no client can bring it here
    edited(editor, task)
    assert {name: getattr(task, name) for name in fields} == fields
    assert task.version == 1


def test_an_edit_is_the_next_version_and_touches_only_what_was_changed(editor):
    task = make_task(**WHOLE)
    edited(editor, task, description="new", priority="3", tags="")
    assert (task.description, task.priority, task.tags) == ("new", 3, [])
    assert (task.version, task.updated_at > NOON) == (2, True)
    kept = {name: value for name, value in WHOLE.items() if name not in ("description", "tags")}
    assert {name: getattr(task, name) for name in kept} == kept | {"priority": 3}


def test_editing_a_disabled_task_leaves_it_disabled(editor):
    task = make_task(status="DISABLED", disabled_reason="for now")
    edited(editor, task, description="new")
    assert (task.status, task.disabled_reason, task.version) == ("DISABLED", "for now", 2)


def test_another_schedule_replaces_the_one_there_was(editor):
    task = make_task(every_seconds=60)
    edited(editor, task, schedule_kind="CRON", cron_expr="@hourly", every_seconds="")
    assert (task.schedule_kind, task.cron_expr, task.every_seconds) == (
        "CRON", "0 0 * * * *", None,
    )  # fmt: skip


def test_a_task_that_ran_once_can_be_described_later_but_not_moved_into_the_past(editor):
    task = make_task(run_at=NOON, ended=True)
    edited(editor, task, description="it ran")
    assert (task.description, task.ended) == ("it ran", True)
    answer = edit(editor, task, run_at_0="2026-01-02")
    assert "in the future" in errors(answer)["run_at"]
    edited(editor, task, **SOON)
    assert task.ended is False


def test_the_page_tells_who_changed_what_and_when(editor):
    task = added(editor)
    edited(editor, task, description="new")
    history = Page(editor.get(f"/admin/tasks/task/{task.pk}/history/")).text
    assert history.count("an editor") + history.count("a editor") >= 2
    assert "Changed Description" in history


# --- two people -----------------------------------------------------------------------------


def test_the_second_of_two_people_who_edit_at_once_is_told_and_undoes_nothing(editor, console):
    task = make_task(description="old")
    first, second = (opened(b, page_of(task), "task_form") for b in (editor, console))
    assert editor.post(page_of(task), first | {"description": "first"}).status_code == 302
    answer = console.post(page_of(task), second | {"description": "second"})
    problem = "Somebody else has changed this task meanwhile"
    assert problem in errors(answer)["__all__"]
    # Saving the page that says so once more does not get past it.
    again = console.post(page_of(task), Page(answer).values("task_form"))
    assert problem in errors(again)["__all__"]
    task.refresh_from_db()
    assert (task.description, task.version) == ("first", 2)


def test_a_task_disabled_meanwhile_is_not_saved_over(editor):
    task = make_task()
    form = opened(editor, page_of(task), "task_form")
    standing.disable(task, reason="", now=clock.now())
    assert "Somebody else" in errors(editor.post(page_of(task), form))["__all__"]
    assert Task.objects.get(pk=task.pk).status == "DISABLED"


def test_a_task_deleted_meanwhile_is_not_brought_back(editor):
    task = make_task()
    form = opened(editor, page_of(task), "task_form")
    standing.delete(task, now=clock.now())
    answer = editor.post(page_of(task), form, follow=True)
    assert "Perhaps it was deleted?" in Page(answer).text
    assert Task.objects.get(pk=task.pk).deleted is True
    assert User.objects.filter(logentry__action_flag=2).count() == 0
