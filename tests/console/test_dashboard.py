"""The first page: how things stand, and what to do next, as far as one may see it."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cronjob.lib import clock
from runs.models import Process, TaskRun
from runs.states import FINAL, TRANSITIONS, Status
from tasks.models import Task
from tests import marks
from tests.console.pages import Page, place
from tests.factories import make_run, make_task, make_user

pytestmark = marks.both

HOUR = timedelta(hours=1)
ADD = f"{place(Task)}add/"


def figures(page):
    """Each figure by its label, with the note below it."""
    parts = [page.texts(f"console-{part}") for part in ("label", "number", "note")]
    assert len({len(texts) for texts in parts}) == 1
    return {label: (int(number), note) for label, number, note in zip(*parts, strict=True)}


def look(browser):
    answer = browser.get("/admin/")
    assert answer.status_code == 200
    return Page(answer)


def card(page, title):
    """The cells of the table below a title."""
    (found,) = page.texts("console-columns")
    start = found.index(title) + len(title)
    others = [found.find(other, start) for other in ("Coming up", "Failed in 24 hours")]
    return found[start : min([at for at in others if at > 0], default=len(found))]


@pytest.fixture
def person(db):
    """Somebody with these permissions alone."""

    def make(*codenames):
        user = make_user("somebody", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        browser = Client()
        browser.force_login(user)
        return browser

    return make


# --- figures --------------------------------------------------------------------------------


def test_the_figures_are_those_of_the_database(viewer):
    now = clock.now()
    task = make_task()
    make_task()
    make_task(status="DISABLED")
    make_task(deleted=True)
    good = [Status.SUCCESS, Status.CALLBACK_SUCCESS]
    bad = [Status.FAILED, Status.TIMEOUT, Status.FAILED_TIMEOUT]
    passed_over = [Status.CANCELED, Status.SKIPPED, Status.MISSED]
    for status in FINAL:
        make_run(task=task, status=status, end_time=now - HOUR)
        make_run(task=task, status=status, end_time=now - 25 * HOUR)  # too long ago
    for status in TRANSITIONS:
        make_run(task=task, status=status)
    assert figures(look(viewer)) == {
        "Tasks": (3, "2 enabled 1 disabled"),
        "Runs in 24 hours": (
            len(FINAL),
            f"{len(good)} good {len(bad)} failed {len(passed_over)} passed over",
        ),
        "Not over yet": (len(TRANSITIONS), ""),
        "Schedulers": (0, "none is running: nothing fires"),
    }
    assert sorted([*good, *bad, *passed_over]) == sorted(FINAL)


def test_a_scheduler_counts_while_its_lease_lasts(viewer):
    now = clock.now()
    for name, until in (("a", HOUR), ("b", HOUR), ("c", -HOUR)):
        Process.objects.create(
            name=name, host="h", pid=1, started_at=now, last_seen=now, lease_until=now + until
        )
    assert figures(look(viewer))["Schedulers"] == (2, "")


def test_each_figure_leads_to_its_list(viewer):
    make_task()
    links = look(viewer).links
    assert place(Task) in links
    assert place(TaskRun) in links


# --- what comes and what failed -------------------------------------------------------------


def test_the_next_five_tasks_are_listed_the_soonest_first(viewer):
    now = clock.now()
    for number in (3, 1, 2, 5, 4, 6):
        make_task(name=f"soon-{number}", next_run_at=now + number * HOUR)
    make_task(name="soon-off", next_run_at=now, status="DISABLED")
    make_task(name="soon-gone", next_run_at=now, deleted=True)
    make_task(name="soon-never", schedule_kind="MANUAL")
    page = look(viewer)
    listed = [word for word in card(page, "Coming up").split() if word.startswith("soon-")]
    assert listed == [f"soon-{number}" for number in (1, 2, 3, 4, 5)]
    first = Task.objects.get(name="soon-1")
    assert f"{first.next_run_at:%Y-%m-%d %H:%M:%S} UTC" in card(page, "Coming up")
    assert f"{place(Task)}{first.pk}/change/" in page.links


def test_the_newest_five_failures_of_a_day_are_listed(viewer):
    now = clock.now()
    for number in (6, 2, 3, 1, 4, 5):
        task = make_task(name=f"bad-{number}")
        status = [Status.FAILED, Status.TIMEOUT, Status.FAILED_TIMEOUT][number % 3]
        make_run(task=task, status=status, end_time=now - number * HOUR)
    page = look(viewer)
    listed = [word for word in card(page, "Failed").split() if word.startswith("bad-")]
    assert listed == [f"bad-{number}" for number in (1, 2, 3, 4, 5)]
    run = TaskRun.objects.get(task__name="bad-1")
    assert f"{place(TaskRun)}{run.pk}/change/" in page.links
    assert f"{run.end_time:%H:%M:%S} UTC" in card(page, "Failed")
    assert run.get_status_display() in card(page, "Failed")


def test_what_failed_long_ago_or_did_not_fail_is_not_listed(viewer):
    now = clock.now()
    make_run(status=Status.FAILED, end_time=now - 25 * HOUR)
    for status in (Status.SUCCESS, Status.MISSED, Status.CANCELED, Status.RETRYING):
        make_run(status=status, **({"end_time": now} if status in FINAL else {}))
    assert "Nothing failed." in card(look(viewer), "Failed in 24 hours")


def test_a_failure_of_a_deleted_task_is_still_listed(viewer):
    task = make_task(name="bad-gone", deleted=True)
    make_run(task=task, status=Status.FAILED, end_time=clock.now())
    assert "bad-gone" in card(look(viewer), "Failed")


def test_a_quiet_day_is_said_to_be_one(viewer):
    make_task()
    page = look(viewer)
    assert "Nothing is planned." in card(page, "Coming up")
    assert "Nothing failed." in card(page, "Failed in 24 hours")


# --- the first task -------------------------------------------------------------------------


def test_an_editor_without_tasks_is_led_to_the_first(editor):
    page = look(editor)
    assert "Your first task" in page.text
    assert ADD in page.links
    assert "Ask an editor" not in page.text
    assert editor.get(ADD).status_code == 200


def test_the_command_that_makes_the_first_task_makes_it(editor, api):
    (command,) = look(editor).texts("console-code")
    assert "http://testserver/api/v1/tasks" in command
    body = command[command.index("{") : command.rindex("}") + 1]
    assert api.post("tasks", body).status_code == 201


@pytest.mark.parametrize("person", ["viewer", "operator"])
def test_who_may_not_add_a_task_is_told_whom_to_ask(login, person):
    page = look(login(person))
    assert "Ask an editor to add one." in page.text
    assert ADD not in page.links


def test_the_first_task_ends_the_introduction_and_deleting_it_brings_it_back(editor):
    task = make_task()
    assert "Your first task" not in look(editor).text
    Task.objects.filter(pk=task.pk).update(deleted=True)
    assert "Your first task" in look(editor).text


# --- who sees what --------------------------------------------------------------------------


def fill():
    task = make_task(name="secret task", next_run_at=clock.now() + HOUR)
    make_run(task=task, status=Status.FAILED, end_time=clock.now())


def test_who_may_see_nothing_sees_no_figures_and_no_names(person):
    browser = person()
    assert "Your first task" not in look(browser).text
    fill()
    page = look(browser)
    assert set(figures(page)) == {"Schedulers"}
    assert "secret task" not in page.text
    assert not {place(Task), place(TaskRun)} & set(page.links)


def test_who_may_see_tasks_alone_sees_no_runs(person):
    fill()
    page = look(person("view_task"))
    assert set(figures(page)) == {"Tasks", "Schedulers"}
    assert "secret task" in card(page, "Coming up")
    assert "Failed in 24 hours" not in page.text
    assert place(TaskRun) not in page.links


def test_who_may_see_runs_alone_sees_no_plans(person):
    fill()
    page = look(person("view_taskrun"))
    assert set(figures(page)) == {"Runs in 24 hours", "Not over yet", "Schedulers"}
    assert "Coming up" not in page.text
    assert place(Task) not in page.links


def test_the_first_page_costs_the_same_number_of_queries_however_much_there_is(viewer):
    def cost():
        with CaptureQueriesContext(connection) as queries:
            look(viewer)
        return len(queries)

    for _ in range(3):
        fill_one()
    few = cost()
    for _ in range(27):
        fill_one()
    assert cost() == few


def fill_one():
    now = clock.now()
    task = make_task(next_run_at=now + HOUR)
    make_run(task=task, status=Status.FAILED, end_time=now)
    make_run(task=task)
