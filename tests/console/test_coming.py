"""The coming moments in the form of a task, which it asks for with every key."""

import pytest
from django.test import Client

from tasks.models import Task
from tests import marks
from tests.factories import MINUTE, NOON, make_task, make_user

pytestmark = marks.sqlite

PATH = "/admin/tasks/task/preview/"
CRON = {"schedule_kind": "CRON", "cron_expr": "30 2 * * *", "timezone": "Europe/Berlin"}
SPRING = {"start_at_0": "2130-03-25", "start_at_1": "12:00:00"}


def shown(browser, **typed):
    answer = browser.post(PATH, typed)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_the_moments_of_what_is_typed_are_shown_by_the_clocks_of_task_and_viewer(editor):
    text = shown(editor, **CRON, **SPRING, viewer="Asia/Tokyo")
    assert "At 02:30 (Europe/Berlin)" in text
    assert "Sun 2130-03-26 03:00:00" in text
    assert "Your time, Asia/Tokyo" in text
    assert "Sun 2130-03-26 10:00:00" in text
    assert "02:30 moved to 03:00: clocks go forward 02:00 → 03:00" in text
    assert not Task.objects.exists()


@pytest.mark.parametrize("viewer", ["", "Europe/Berlin", "../../etc/passwd", "Mars/Olympus", "\0"])
def test_a_viewer_in_the_same_or_in_no_zone_gets_no_second_clock(editor, viewer):
    assert "Your time" not in shown(editor, **CRON, viewer=viewer)


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ({"cron_expr": ""}, "Such as */5 * * * *"),
        ({"cron_expr": "61 * * * *"}, "minute: 61 is out of range"),
        ({"cron_expr": "<b>x</b>"}, "Five fields"),
        ({"cron_expr": "*" * 10_000}, "256"),
        ({"timezone": "Nowhere"}, "IANA"),
        ({"schedule_kind": ""}, "required"),
        ({"schedule_kind": "EVERY", "every_seconds": "soon"}, "Cannot read"),
        ({"schedule_kind": "ONCE", "run_at_0": "2020-01-01", "run_at_1": "0:00"}, "in the future"),
        ({"start_at_0": "tomorrow", "start_at_1": ""}, "Enter a valid date"),
    ],
)
def test_the_reason_is_shown_when_it_could_not_be_saved(editor, typed, reason):
    text = shown(editor, **(CRON | typed))
    assert reason in text
    assert "<b>" not in text
    assert "<table" not in text


def test_what_is_typed_for_another_kind_of_schedule_does_not_matter(editor):
    text = shown(editor, **CRON, every_seconds="nonsense")
    assert "At 02:30" in text


def test_a_saved_interval_keeps_its_grid_and_its_jitter(editor):
    task = make_task(every_seconds=3600, anchor=NOON + 7 * MINUTE, jitter_seconds=60)
    typed = {"schedule_kind": "EVERY", "every_seconds": "1h", "timezone": "UTC", "task": task.pk}
    assert shown(editor, **typed).count(":07:00") == 10
    assert "Starts" not in shown(editor, **typed)
    assert "Starts" in shown(editor, **typed, jitter_seconds="60")


def test_who_may_only_look_sees_the_moments_of_the_task_as_it_is(viewer):
    task = make_task(cron_expr="0 0 0 1 1 *")
    assert "00:00" in shown(viewer, task=str(task.pk))


def test_schedules_without_moments_say_why(editor):
    assert "when somebody triggers it" in shown(editor, schedule_kind="MANUAL", timezone="UTC")
    past = {"end_at_0": "2020-01-01", "end_at_1": "0:00"}
    assert "this schedule has ended" in shown(editor, **CRON, **past)


def test_it_needs_a_right_to_tasks_and_a_token(editor, login):
    assert login("").post(PATH, CRON).status_code == 403
    assert Client().post(PATH, CRON).status_code == 302
    assert "Choose a schedule" in editor.get(PATH).content.decode()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(make_user("boss", is_superuser=True, is_staff=True))
    assert strict.post(PATH, CRON).status_code == 403


def test_the_list_says_which_tasks_have_ended(editor):
    make_task(name="over", run_at=NOON, ended=True)
    assert "ended" in editor.get("/admin/tasks/task/").content.decode()
