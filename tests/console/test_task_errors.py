"""What the form says when a task cannot be saved: at the field, and with nothing saved."""

import pytest

from tasks.models import Task
from tests import marks
from tests.console.pages import Page, errors, opened
from tests.console.test_task_form import ADD, LEAST, edit, edited
from tests.factories import make_task

pytestmark = marks.both
blank = {}  # the form as it opens, which is the same for every test here


def add(browser, **typed):
    if not blank:
        blank.update(opened(browser, ADD, "task_form"))
    return browser.post(ADD, blank | LEAST | typed)


@pytest.mark.on("sqlite")  # the form finds these by itself
@pytest.mark.parametrize(
    ("typed", "field", "problem"),
    [
        ({"name": ""}, "name", "required"),
        ({"name": "x" * 129}, "name", "128"),
        ({"name": "taken"}, "name", "Another task has this name."),
        ({"name": " taken "}, "name", "Another task has this name."),
        ({"schedule_kind": ""}, "schedule_kind", "required"),
        ({"schedule_kind": "CRON"}, "cron_expr", "CRON needs it"),
        ({"schedule_kind": "CRON", "cron_expr": "every day"}, "cron_expr", "Five fields"),
        ({"schedule_kind": "CRON", "cron_expr": "61 * * * *"}, "cron_expr", "out of range"),
        ({"schedule_kind": "CRON", "cron_expr": "0 0 30 2 *"}, "cron_expr", "never"),
        ({"schedule_kind": "CRON", "cron_expr": "H * * * *"}, "cron_expr", "H are not supported"),
        (
            {"schedule_kind": "CRON", "cron_expr": ",".join("0" * 124) + " * * * *"},
            "cron_expr",
            "256",
        ),
        ({"schedule_kind": "EVERY"}, "every_seconds", "EVERY needs it"),
        ({"schedule_kind": "EVERY", "every_seconds": "5 minutes"}, "every_seconds", "90s"),
        ({"schedule_kind": "EVERY", "every_seconds": "0"}, "every_seconds", "more than zero"),
        ({"schedule_kind": "EVERY", "every_seconds": "11y"}, "every_seconds", "90s"),
        ({"schedule_kind": "ONCE"}, "run_at", "ONCE needs it"),
        (
            {"schedule_kind": "ONCE", "run_at_0": "2001-01-01", "run_at_1": "00:00"},
            "run_at",
            "Must be in the future.",
        ),
        (
            {"schedule_kind": "ONCE", "run_at_0": "soon", "run_at_1": "00:00"},
            "run_at",
            "valid date",
        ),
        ({"timezone": "Mars/Phobos"}, "timezone", "IANA"),
        ({"timezone": "../../etc/passwd"}, "timezone", "IANA"),
        ({"jitter_seconds": "a bit"}, "jitter_seconds", "90s"),
        ({"target_url": ""}, "target_url", "SYNC and ASYNC tasks need it."),
        ({"target_url": "ftp://svc/x"}, "target_url", "http://"),
        ({"target_url": "http://user@svc/"}, "target_url", "Authorization"),
        ({"target_url": "http://svc/{{ who }}"}, "target_url", "unknown name"),
        ({"target_url": "http://" + "x" * 2048}, "target_url", "2048"),
        ({"headers": "Accept text/html"}, "headers", "“Accept text/html” is not of the form"),
        ({"headers": ": x"}, "headers", "is not of the form Name: value."),
        ({"headers": "A: 1\nA: 2"}, "headers", "A is given twice."),
        ({"headers": "A: 1\na: 2"}, "headers", "a is given twice."),
        ({"headers": "Host: x"}, "headers", "Host is set by the caller itself"),
        ({"headers": "X: 中"}, "headers", "Latin-1"),
        ({"headers": "X: {{ run }}"}, "headers", "unknown name"),
        ({"body_template": "{{ run_id"}, "body_template", "{{ without its }}"),
        ({"tags": "two words"}, "tags", "without spaces"),
        ({"secret_headers": "two words"}, "secret_headers", "not a header name"),
        ({"secret_paths": "a..b"}, "secret_paths", "not a path"),
        ({"timeout_seconds": "0"}, "timeout_seconds", "0.1"),
        ({"timeout_seconds": "nan"}, "timeout_seconds", "number"),
        ({"connect_timeout_seconds": "86401"}, "connect_timeout_seconds", "86400"),
        ({"max_concurrency": "1001"}, "max_concurrency", "1000"),
        ({"max_concurrency": "-1"}, "max_concurrency", "0"),
        ({"catchup_limit": "1001"}, "catchup_limit", "1000"),
        ({"start_deadline_seconds": "0"}, "start_deadline_seconds", "1"),
        ({"callback_timeout_sec": "0"}, "callback_timeout_sec", "1"),
        ({"misfire_grace_seconds": str(2**31)}, "misfire_grace_seconds", str(2**31 - 1)),
        ({"callback_timeout_sec": "9" * 30}, "callback_timeout_sec", str(2**31 - 1)),
        ({"retry_policy_max_retries": "101"}, "retry_policy", "100"),
        ({"retry_policy_initial_delay": "-1"}, "retry_policy", "0"),
        ({"retry_policy_max_delay": "soon"}, "retry_policy", "number"),
        ({"retry_policy_strategy": "random"}, "retry_policy", "random"),
        ({"exec_type": "JOB", "target_url": ""}, "work", "JOB needs an object"),
        ({"exec_type": "JOB", "work": "{"}, "work", "JSON"),
        ({"exec_type": "JOB", "work": '{"queue": "q"}'}, "work", "job_type is required"),
        ({"work": '{"queue": "q"}'}, "work", "Only JOB and NODE"),
        ({"exec_type": "LATER"}, "exec_type", "LATER"),
        ({"priority": "9"}, "priority", "9"),
    ],
)
def test_a_problem_is_told_at_its_field_and_nothing_is_saved(editor, typed, field, problem):
    make_task(name="taken")
    told = errors(add(editor, **typed))
    assert problem in told[field]
    assert set(told) == {field}
    assert Task.objects.count() == 1


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("CRON", {"cron_expr": "0 0 0 * * *", "every_seconds": None}),
        ("EVERY", {"cron_expr": None, "every_seconds": 300}),
        ("MANUAL", {"cron_expr": None, "every_seconds": None}),
    ],
)
def test_what_was_typed_for_another_kind_of_schedule_does_not_count(editor, kind, kept):
    add(editor, schedule_kind=kind, cron_expr="@daily", every_seconds="5m")
    task = Task.objects.get()
    assert {name: getattr(task, name) for name in kept} == kept


# What no database keeps, whatever field it is typed into.
@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("name", "a\0"),
        ("description", "a\0"),
        ("tags", "a\0"),
        ("headers", "X: a\0"),
        ("body_template", "a\0"),
        ("cron_expr", "a\0"),
        ("every_seconds", "5m\0"),
        ("timezone", "UTC\0"),
        ("target_url", "http://svc/\0"),
        ("secret_headers", "a\0"),
        ("secret_paths", "a\0"),
        ("work", '{"queue": "q", "job_type": "t", "payload": "\\u0000"}'),
        ("work", '{"queue": "q", "job_type": "t", "payload": "\\ud800"}'),
        ("work", '{"queue": "q", "job_type": "t", "payload": NaN}'),
        ("work", '{"queue": "q", "job_type": "t", "payload": 1e999}'),
        ("work", "[" * 100_000),
    ],
)
def test_what_cannot_be_kept_is_an_error_of_its_field(editor, field, text):
    kinds = {"cron_expr": "CRON", "every_seconds": "EVERY"}
    kind = {"schedule_kind": kinds.get(field, "MANUAL")}
    typed = {"exec_type": "JOB", "target_url": ""} if field == "work" else {}
    answer = add(editor, **kind, **typed, **{field: text})
    assert field in errors(answer)
    assert Task.objects.count() == 0


def test_a_base_url_is_asked_for_before_a_task_can_wait_for_callbacks(editor, settings):
    settings.CRONJOB_BASE_URL = ""
    answer = add(editor, exec_type="ASYNC")
    assert "CRONJOB_BASE_URL" in errors(answer)["exec_type"]
    settings.CRONJOB_BASE_URL = "http://cronjob.internal"
    assert add(editor, exec_type="ASYNC").status_code == 302


def test_what_was_typed_is_still_there_beside_the_error(editor):
    typed = {
        "name": "", "tags": "a,b", "headers": "Accept: x", "every_seconds": "1h",
        "schedule_kind": "EVERY", "retry_policy_max_retries": "7", "follow_redirects": "on",
    }  # fmt: skip
    again = Page(add(editor, **typed)).values("task_form")
    assert {name: again[name] for name in typed} == typed


def test_the_page_that_tells_an_error_can_be_corrected_and_saved(editor):
    answer = add(editor, schedule_kind="CRON", cron_expr="61 * * * *")
    corrected = Page(answer).values("task_form") | {"cron_expr": "1 * * * *"}
    assert editor.post(ADD, corrected).status_code == 302
    assert Task.objects.get().cron_expr == "0 1 * * * *"


def test_a_name_is_free_for_its_own_task_and_taken_for_others(editor):
    task = make_task(name="mine")
    make_task(name="taken")
    edited(editor, task, description="new")
    assert errors(edit(editor, task, name="taken")) == {"name": "Another task has this name."}
    task.refresh_from_db()
    assert (task.name, task.version) == ("mine", 2)


def test_a_form_that_says_nothing_is_told_what_it_lacks(editor):
    told = errors(editor.post(ADD, {"name": ""}))
    assert {"name", "schedule_kind"} <= set(told)
    assert Task.objects.count() == 0


def test_fields_nobody_was_asked_for_are_not_taken(editor):
    given = {"version": "9", "status": "DISABLED", "deleted": "1", "ended": "1", "uuid": "x"}
    assert editor.post(ADD, opened(editor, ADD, "task_form") | LEAST | given).status_code == 302
    task = Task.objects.get()
    assert (task.version, task.status, task.deleted, task.ended) == (1, "ENABLED", False, False)
