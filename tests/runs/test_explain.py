from datetime import timedelta

import pytest

from cronjob.lib import clock
from runs import pauses, standing
from runs.explain import VERDICTS, explain
from runs.models import TaskRun
from runs.states import FINAL, Status, Trigger
from tasks.changes import Change
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task

pytestmark = marks.both

HOUR = 60 * MINUTE


@pytest.fixture
def task(db):
    """Every hour on the hour since early in the morning."""
    return made(cron_expr="0 0 * * * *")


def made(at=NOON - 12 * HOUR, **fields):
    task = make_task(**fields)
    task.delete()
    task.pk = None
    standing.create(task, now=at, by="key ci")
    return task


def why(task, at=NOON, *, now=NOON + 10 * MINUTE):
    told = explain(task, at, now=now)
    assert told.verdict in VERDICTS
    return told


def ran(task, at=NOON, **fields):
    values = {"status": Status.SUCCESS, "attempt": 1, "start_time": at, "end_time": at + SECOND}
    return make_run(task=task, moment=at, **(values | fields))


def test_it_ran(task):
    run = ran(task)
    told = why(task)
    assert (told.verdict, told.run) == ("RAN", run)
    assert told.summary == f"Ran as run {run.pk}: SUCCESS after 1 of 1 attempts."
    assert (told.previous, told.next) == (NOON - HOUR, NOON + HOUR)


def test_it_failed_and_says_with_what(task):
    ran(task, status=Status.FAILED, attempt=3, max_attempts=3, error_message="HTTP 503")
    assert "FAILED after 3 of 3 attempts (HTTP 503)" in why(task).summary


def test_it_ran_late_because_other_runs_were_in_its_way(task):
    first = ran(task, NOON - HOUR, end_time=NOON + MINUTE)
    ran(task, lateness_ms=60_000, start_time=NOON + MINUTE, end_time=NOON + 2 * MINUTE)
    told = why(task)
    assert told.blocked_by == [first.pk]
    assert f"60.0 s late, because it waited for a slot behind runs {first.pk}" in told.summary


def test_it_ran_late_because_it_was_caught_up_with(task):
    ran(task, lateness_ms=600_000, trigger=Trigger.CATCH_UP)
    assert "600.0 s late, because it was caught up with after an outage" in why(task).summary


def test_it_ran_late_because_nobody_had_time(task):
    ran(task, lateness_ms=2_500)
    assert "2.5 s late, because no scheduler had a slot free" in why(task).summary


def test_it_was_skipped_at_the_limit_by_these_runs(task):
    busy = [ran(task, NOON - n * HOUR, end_time=None, status=Status.RUNNING) for n in (2, 1)]
    make_run(task=task, moment=NOON, status=Status.SKIPPED, reason="limit of 2 reached")
    told = why(task)
    ids = [run.pk for run in busy]
    assert (told.verdict, told.blocked_by) == ("SKIPPED", ids)
    assert told.summary == f"Skipped: limit of 2 reached by runs {ids[0]}, {ids[1]}."


def test_it_was_missed_in_an_outage(task):
    entry = make_run(
        task=task, moment=NOON + HOUR, status=Status.MISSED, reason="misfire",
        missed_from=NOON - HOUR, missed_to=NOON + HOUR, missed_count=3,
        created_at=NOON + 90 * MINUTE,
    )  # fmt: skip
    told = why(task, now=NOON + 2 * HOUR)
    assert (told.verdict, told.run) == ("MISSED", entry)
    assert (told.since, told.until) == (NOON - HOUR, NOON + 90 * MINUTE)
    assert "in the outage from 2026-01-01T11:00:00Z to 2026-01-01T13:30:00Z" in told.summary
    assert "one of 3 moments" in told.summary
    assert why(task, NOON + MINUTE, now=NOON + 2 * HOUR).verdict == "NO_MOMENT"


@pytest.mark.parametrize(
    ("reason", "words"),
    [("paused", "firing was paused"), ("edited", "edited"), ("disabled", "was disabled")],
)
def test_it_was_missed_because_of_what_people_did(task, reason, words):
    span = {"missed_from": NOON, "missed_to": NOON, "missed_count": 1}
    make_run(task=task, moment=NOON, status=Status.MISSED, reason=reason, **span)
    assert words in why(task).summary


def test_it_was_not_started_in_time(task):
    make_run(
        task=task, moment=NOON, status=Status.MISSED, reason="not started in time",
        end_time=NOON + MINUTE,
    )  # fmt: skip
    assert why(task).summary == (
        "Missed: not started in time; it waited from 2026-01-01T12:00:00Z until "
        "2026-01-01T12:01:00Z."
    )


def test_there_is_no_such_moment(task):
    told = why(task, NOON + 30 * SECOND)
    assert told.verdict == "NO_MOMENT"
    assert "before was 2026-01-01T12:00:00Z, the next is 2026-01-01T13:00:00Z" in told.summary


def test_there_is_no_such_moment_because_of_daylight_saving(db):
    task = made(at=NOON, cron_expr="0 */15 2 * * *", timezone="Europe/Berlin")
    gap = clock.read(NOON.replace(month=3, day=29, hour=1, minute=0))
    told = why(task, gap, now=gap + HOUR)
    assert told.verdict == "NO_MOMENT"
    assert "no run on 2026-03-29: clocks go forward 02:00 → 03:00" in told.summary


def test_a_time_by_the_clock_of_the_task_may_not_exist(reader):
    task = made(at=NOON, cron_expr="0 30 2 * * *", timezone="Europe/Berlin")
    run = ran(task, clock.read(NOON.replace(month=3, day=29, hour=1)))
    told = reader.get(f"tasks/{task.pk}/explain?at=2026-03-29T02:30:00").json()
    assert (told["verdict"], told["run"]["id"]) == ("RAN", run.pk)
    assert told["local"] == "2026-03-29T03:00:00+02:00"
    assert "02:30 does not exist on 2026-03-29: clocks go to 03:00" in told["notes"]


def test_the_schedule_had_not_begun_or_was_over(db):
    task = made(cron_expr="0 0 * * * *", start_at=NOON - HOUR, end_at=NOON + HOUR)
    assert "begins at 2026-01-01T11:00:00Z" in why(task, NOON - 2 * HOUR).summary
    later = NOON + 2 * HOUR
    assert "ended at 2026-01-01T13:00:00Z" in why(task, later, now=later).summary


def test_it_was_disabled_from_then_to_then_by_somebody(task):
    standing.disable(task, reason="too loud", now=NOON - MINUTE, by="key ben")
    standing.enable(task, now=NOON + MINUTE)
    told = why(task)
    assert (told.verdict, told.by) == ("DISABLED", "key ben")
    assert (told.since, told.until) == (NOON - MINUTE, NOON + MINUTE)
    assert told.summary == (
        "The task was disabled from 2026-01-01T11:59:00Z to 2026-01-01T12:01:00Z by key ben: "
        "too loud."
    )


def test_it_is_still_disabled(task):
    standing.disable(task, reason="", now=NOON - MINUTE, by="key ben")
    assert why(task).until is None
    assert why(task, NOON + HOUR).verdict == "DISABLED"


def test_the_schedule_of_that_time_counts_not_that_of_today(task):
    standing.disable(task, reason="", now=NOON - 2 * MINUTE)
    task.cron_expr = "0 7 * * * *"
    standing.edit(task, now=NOON + MINUTE)
    assert why(task).verdict == "DISABLED"
    assert why(task, NOON - 5 * HOUR + 7 * MINUTE).verdict == "NO_MOMENT"


def test_the_task_was_not_there_yet(task):
    told = why(task, NOON - 24 * HOUR)
    assert (told.verdict, told.summary) == (
        "NOT_YET_MADE", "The task was made at 2026-01-01T00:00:00Z.",
    )  # fmt: skip


def test_it_is_still_to_come(task):
    told = why(task, NOON + HOUR)
    assert (told.verdict, told.summary) == ("COMING", "It will run at 2026-01-01T13:00:00Z.")
    assert why(task, NOON + HOUR + SECOND).verdict == "NO_MOMENT"


def test_a_pause_holds_it(task):
    pauses.pause(tag="", reason="deploy", until=None, now=NOON - MINUTE)
    task.rearm(now=NOON - MINUTE)
    assert why(task).summary == "Firing is paused: deploy."
    assert why(task, NOON + HOUR).verdict == "PAUSED"


def test_it_is_due_and_nobody_has_come(task):
    task.rearm(now=NOON - MINUTE)
    assert why(task).verdict == "DUE"


def test_it_waits_for_a_slot_behind_others(task):
    busy = ran(task, NOON - HOUR, status=Status.RUNNING, end_time=None)
    make_run(task=task, moment=NOON, ready_at=None)
    told = why(task)
    assert (told.verdict, told.blocked_by) == ("WAITING", [busy.pk])
    assert "waits for a slot of its task behind runs" in told.summary


@pytest.mark.parametrize("status", Status)
def test_every_state_of_a_run_has_its_words(task, status):
    run = make_run(task=task, moment=NOON, status=status, reason="so")
    told = why(task)
    assert told.run == run
    assert str(run.pk) in told.summary or "so" in told.summary
    assert (told.verdict in ("WAITING", "UNDER_WAY")) is (status not in FINAL)


def test_a_run_that_somebody_asked_for_is_found_by_its_time(task):
    run = make_run(task=task, scheduled_time=NOON + SECOND, trigger="MANUAL", status="SUCCESS")
    assert why(task, NOON + SECOND).run == run


def test_what_was_pruned_is_not_guessed_at(task):
    task.rearm(now=NOON + MINUTE)
    TaskRun.objects.all().delete()
    assert why(task).verdict == "UNKNOWN"
    Change.objects.all().delete()
    assert why(task).verdict == "UNKNOWN"


@pytest.mark.parametrize(
    "at",
    ["", "noon", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01",
     "2026-01-01T12:00:00"],
)  # fmt: skip
def test_the_time_asked_about_is_checked(reader, task, at):
    answer = reader.get(f"tasks/{task.pk}/explain?at={at}")
    readable = at[:1] == "2"
    assert answer.status_code == (200 if readable else 400)
    if not readable:
        assert list(answer.json()["fields"]) == ["at"]


@pytest.mark.parametrize("plus", ["+", "%2B"])
def test_an_offset_may_be_given_with_a_plus_that_is_not_escaped(reader, task, plus):
    answer = reader.get(f"tasks/{task.pk}/explain?at=2026-01-01T14:00:00{plus}02:00")
    assert (answer.status_code, answer.json()["at"]) == (200, "2026-01-01T12:00:00Z")


def test_a_manual_task_has_no_moments(db):
    task = made(schedule_kind="MANUAL")
    assert why(task).verdict == "NO_MOMENT"
    assert why(task, NOON + timedelta(days=1)).verdict == "NO_MOMENT"
