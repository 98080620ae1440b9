"""What people do to tasks from the list and the delete page, with real commits."""

import threading

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection, transaction

from runs.models import TaskRun
from runs.states import Status
from tasks.models import Task
from tests import marks
from tests.console.pages import Page, opened, place, snapshot
from tests.factories import NOON, make_run, make_task

pytestmark = marks.committing

LIST = place(Task)


def act(browser, action, *tasks, **more):
    chosen = {"action": action, "_selected_action": [task.pk for task in tasks], "index": "0"}
    return browser.post(LIST, chosen | more, follow=True)


def standing():
    return dict(Task.objects.values_list("name", "status"))


def test_an_operator_disables_the_chosen_tasks_and_nothing_else(operator):
    one, two, other = (make_task(name=name) for name in ("one", "two", "other"))
    waiting, other_waiting = make_run(task=one), make_run(task=other)
    answer = act(operator, "disable", one, two)
    assert answer.redirect_chain == [(LIST, 302)]
    assert "Disabled 2 tasks." in Page(answer).text
    assert standing() == {"one": "DISABLED", "two": "DISABLED", "other": "ENABLED"}
    for run in (waiting, other_waiting):
        run.refresh_from_db()
    assert (waiting.status, waiting.reason) == (Status.CANCELED, "disabled")
    assert other_waiting.status == Status.SCHEDULED


def test_an_operator_enables_what_is_disabled_and_is_told_how_many(operator):
    off = make_task(name="off", status="DISABLED", disabled_reason="for now")
    on = make_task(name="on")
    assert "Enabled 1 tasks." in Page(act(operator, "enable", off, on)).text
    assert standing() == {"off": "ENABLED", "on": "ENABLED"}
    off.refresh_from_db()
    on.refresh_from_db()
    assert (off.version, off.disabled_reason, on.version) == (2, "", 1)


def test_an_action_on_the_whole_list_reaches_every_task_that_matches(operator):
    for number in range(60):  # more than a page
        make_task(name=f"job {number}")
    make_task(name="other")
    chosen = {"action": "disable", "_selected_action": "0", "index": "0", "select_across": "1"}
    operator.post(f"{LIST}?q=job", chosen)
    assert Task.objects.filter(status="DISABLED").count() == 60
    assert standing()["other"] == "ENABLED"


def test_an_action_without_a_choice_changes_nothing_and_says_so(operator):
    make_task()
    before = snapshot(Task)
    assert "must be selected" in Page(act(operator, "disable")).text
    assert snapshot(Task) == before


def test_a_deleted_task_is_not_enabled_by_a_list_that_was_open(operator):
    task = make_task(status="DISABLED", deleted=True)
    before = snapshot(Task)
    act(operator, "enable", task)
    assert snapshot(Task) == before


# --- deleting -------------------------------------------------------------------------------


def test_deleting_keeps_the_runs_and_frees_the_name(editor):
    task = make_task(name="mine")
    done, waiting = make_run(task=task, status=Status.SUCCESS), make_run(task=task)
    url = f"{LIST}{task.pk}/delete/"
    assert "mine" in Page(editor.get(url)).text
    assert Task.objects.live().count() == 1
    answer = editor.post(url, {"post": "yes"}, follow=True)
    assert answer.redirect_chain == [(LIST, 302)]
    page = Page(answer)
    assert "No task yet" in page.text
    assert f"{LIST}{task.pk}/change/" not in page.links
    done.refresh_from_db()
    waiting.refresh_from_db()
    assert (done.status, waiting.status, waiting.reason) == ("SUCCESS", "CANCELED", "deleted")
    for run in (done, waiting):
        assert editor.get(f"{place(TaskRun)}{run.pk}/change/").status_code == 200
    new = opened(editor, f"{LIST}add/", "task_form") | {"name": "mine", "schedule_kind": "MANUAL"}
    assert editor.post(f"{LIST}add/", new | {"target_url": "http://svc/"}).status_code == 302
    assert list(Task.objects.order_by("id").values_list("name", "deleted")) == [
        ("mine", True),
        ("mine", False),
    ]


def test_a_deleted_task_has_no_page_any_more(editor):
    task = make_task(deleted=True)
    for verb in ("change", "delete", "history"):
        answer = editor.get(f"{LIST}{task.pk}/{verb}/")
        assert (answer.status_code, answer["Location"]) == (302, "/admin/"), verb
    before = snapshot(Task)
    editor.post(f"{LIST}{task.pk}/delete/", {"post": "yes"})
    assert snapshot(Task) == before


def test_the_delete_action_asks_first_and_then_deletes_softly(editor):
    one, two, other = (make_task(name=name) for name in ("one", "two", "other"))
    run = make_run(task=one)
    asked = act(editor, "delete_selected", one, two)
    text = Page(asked).text
    assert asked.status_code == 200
    assert "one" in text
    assert "two" in text
    assert Task.objects.live().count() == 3
    answer = act(editor, "delete_selected", one, two, post="yes")
    assert answer.redirect_chain == [(LIST, 302)]
    assert list(Task.objects.live()) == [other]
    assert Task.objects.count() == 3
    run.refresh_from_db()
    assert (run.status, run.reason, run.task_id) == (Status.CANCELED, "deleted", one.pk)
    assert LogEntry.objects.filter(action_flag=3).count() == 2


# --- at the same time as somebody else ------------------------------------------------------


def waits_for_us():
    """Whether some connection waits for a lock that this one holds."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), pg_sleep(0.01) FROM pg_locks "
            "WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        )
        return cursor.fetchone()[0] > 0


def in_a_thread(call):
    """Start it on a connection of its own; the answer is in the list when it has ended."""
    answers = []

    def run():
        try:
            answers.append(call())
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, answers


@pytest.mark.on("postgresql")
def test_a_name_taken_after_the_form_had_looked_is_told_and_not_an_error_page(editor):
    new = opened(editor, f"{LIST}add/", "task_form")
    new |= {"name": "mine", "target_url": "http://svc/", "schedule_kind": "MANUAL"}
    with transaction.atomic():
        make_task(name="mine")  # which nobody else can see yet
        thread, answers = in_a_thread(lambda: editor.post(f"{LIST}add/", new, follow=True))
        while thread.is_alive() and not waits_for_us():
            pass
    thread.join()
    assert answers[0].status_code == 200
    assert "Another task is called “mine”." in Page(answers[0]).text
    assert Task.objects.filter(name="mine").count() == 1


@pytest.mark.on("postgresql")
def test_a_save_waits_for_whoever_is_changing_the_task_and_then_refuses(editor):
    task = make_task(description="old")
    form = opened(editor, f"{LIST}{task.pk}/change/", "task_form") | {"description": "mine"}
    with transaction.atomic():
        Task.objects.filter(pk=task.pk).update(version=2, description="theirs", updated_at=NOON)
        thread, answers = in_a_thread(lambda: editor.post(f"{LIST}{task.pk}/change/", form))
        while thread.is_alive() and not waits_for_us():
            pass
    thread.join()
    assert "Somebody else has changed this task" in Page(answers[0]).text
    task.refresh_from_db()
    assert (task.description, task.version) == ("theirs", 2)
