"""What changes a task and its waiting runs together."""

import threading
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, transaction

from runs import standing
from runs.models import TaskRun
from runs.standing import NameTaken
from runs.states import WAITING, Status
from tasks.models import Task
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task

pytestmark = marks.both

LATER = NOON + MINUTE
DAY = timedelta(days=1)


def new(**fields):
    values = {
        "name": "mine",
        "schedule_kind": "EVERY",
        "every_seconds": 60,
        "target_url": "http://x/",
    }
    return Task(**(values | fields))


def stored(task):
    return Task.objects.get(pk=task.pk)


# --- creating -------------------------------------------------------------------------------


def test_a_new_task_is_the_first_version_of_now():
    task = new()
    standing.create(task, now=NOON)
    kept = stored(task)
    assert (kept.version, kept.status, kept.ended) == (1, "ENABLED", False)
    assert kept.created_at == kept.updated_at == NOON


def test_the_grid_of_every_begins_in_the_second_of_creation():
    task = new()
    standing.create(task, now=NOON + timedelta(microseconds=999_999))
    assert stored(task).anchor == NOON


def test_the_grid_of_every_begins_at_start_at_if_there_is_one():
    task = new(start_at=NOON + DAY + timedelta(microseconds=5))
    standing.create(task, now=NOON)
    assert stored(task).anchor == NOON + DAY + timedelta(microseconds=5)


@pytest.mark.parametrize(
    "schedule",
    [
        {"schedule_kind": "CRON", "cron_expr": "0 0 0 * * *"},
        {"schedule_kind": "ONCE", "run_at": NOON},
        {"schedule_kind": "MANUAL"},
    ],
)
def test_other_schedules_have_no_grid(schedule):
    task = new(every_seconds=None, start_at=NOON, **schedule)
    standing.create(task, now=NOON)
    assert stored(task).anchor is None


def test_a_name_that_is_taken_is_told_and_nothing_is_made():
    make_task(name="mine")
    with pytest.raises(NameTaken, match="Another task is called “mine”"):
        standing.create(new(), now=NOON)
    assert Task.objects.count() == 1  # and the transaction around it still works


def test_what_the_database_refuses_for_another_reason_is_not_called_a_taken_name():
    make_task(name="mine")
    with pytest.raises(DatabaseError, match="task_every_has_seconds"):
        standing.create(new(name="other", every_seconds=None), now=NOON)


# --- editing --------------------------------------------------------------------------------


def test_an_edit_is_the_next_version_and_tells_what_it_changed():
    task = make_task()
    task.description, task.priority = "new", 0
    assert standing.edit(task, now=LATER) == ["description", "priority"]
    kept = stored(task)
    assert (kept.description, kept.priority, kept.version) == ("new", 0, 2)
    assert (kept.updated_at, kept.created_at) == (LATER, NOON)


def test_an_edit_that_changes_nothing_is_none():
    task = make_task()
    assert standing.edit(task, now=LATER) == []
    assert (stored(task).version, stored(task).updated_at) == (1, NOON)


def test_a_name_may_be_kept_but_not_taken_from_another():
    make_task(name="taken")
    task = make_task(name="mine")
    task.description = "new"
    standing.edit(task, now=LATER)
    task.name = "taken"
    with pytest.raises(NameTaken):
        standing.edit(task, now=LATER)
    assert (stored(task).name, stored(task).version) == ("mine", 2)


@pytest.mark.parametrize("start_at", [None, NOON - DAY])
def test_editing_keeps_the_grid(start_at):
    task = new(start_at=start_at)
    standing.create(task, now=NOON)
    anchor = task.anchor
    for number, change in enumerate(({"description": "new"}, {"every_seconds": 90})):
        for name, value in change.items():
            setattr(task, name, value)
        standing.edit(task, now=LATER + number * SECOND)
        assert stored(task).anchor == anchor == (start_at or NOON)


def test_disabling_and_enabling_keep_the_grid():
    task = new()
    standing.create(task, now=NOON)
    standing.disable(task, reason="", now=LATER)
    standing.enable(task, now=LATER + DAY)
    assert stored(task).anchor == NOON


def test_another_start_moves_the_grid_and_taking_it_away_does_not():
    task = new(start_at=NOON)
    standing.create(task, now=NOON)
    task.start_at = NOON + DAY
    standing.edit(task, now=LATER)
    assert stored(task).anchor == NOON + DAY
    task.start_at = None
    standing.edit(task, now=LATER)
    assert stored(task).anchor == NOON + DAY


def test_a_task_that_becomes_every_counts_from_then():
    task = make_task(schedule_kind="MANUAL")
    task.schedule_kind, task.every_seconds = "EVERY", 60
    standing.edit(task, now=LATER + timedelta(microseconds=7))
    assert stored(task).anchor == LATER


@pytest.mark.parametrize(
    ("change", "next_at"),
    [
        ({"schedule_kind": "MANUAL", "run_at": None}, None),
        ({"schedule_kind": "CRON", "run_at": None, "cron_expr": "0 0 0 * * *"}, NOON + DAY / 2),
        ({"schedule_kind": "EVERY", "run_at": None, "every_seconds": 60}, LATER + MINUTE),
        ({"run_at": NOON + DAY}, NOON + DAY),
    ],
)
def test_a_change_of_schedule_that_has_a_moment_left_revives_a_task_that_has_ended(change, next_at):
    task = make_task(run_at=NOON, ended=True)
    for name, value in change.items():
        setattr(task, name, value)
    standing.edit(task, now=LATER)
    assert (stored(task).ended, stored(task).next_run_at) == (False, next_at)


@pytest.mark.parametrize(
    "change",
    [
        {"start_at": NOON - DAY},
        {"end_at": NOON + DAY},
        {"jitter_seconds": 5},
        {"timezone": "Asia/Shanghai"},
    ],
)
def test_a_change_of_schedule_without_a_moment_left_does_not(change):
    task = make_task(run_at=NOON, ended=True)
    for name, value in change.items():
        setattr(task, name, value)
    standing.edit(task, now=LATER)
    assert (stored(task).ended, stored(task).next_run_at) == (True, None)


def test_any_other_change_leaves_it_ended():
    task = make_task(run_at=NOON, ended=True)
    task.description, task.target_url, task.max_concurrency = "new", "http://y/", 3
    standing.edit(task, now=LATER)
    standing.disable(task, reason="", now=LATER)
    standing.enable(task, now=LATER)
    assert stored(task).ended is True


def test_editing_cancels_nothing():
    runs = [make_run(task=(task := make_task()))]
    runs += [make_run(task=task, status=status) for status in Status if status != "SCHEDULED"]
    before = list(TaskRun.objects.order_by("pk").values())
    task.every_seconds = 5
    standing.edit(task, now=LATER)
    assert list(TaskRun.objects.order_by("pk").values()) == before


# --- enabling, disabling, deleting ----------------------------------------------------------


def test_disabling_and_enabling_are_versions_with_a_reason():
    task = make_task()
    standing.disable(task, reason="too loud", now=LATER)
    kept = stored(task)
    assert (kept.status, kept.disabled_reason, kept.version) == ("DISABLED", "too loud", 2)
    assert kept.updated_at == LATER
    standing.enable(task, now=LATER + SECOND)
    kept = stored(task)
    assert (kept.status, kept.disabled_reason, kept.version) == ("ENABLED", "", 3)
    assert kept.updated_at == LATER + SECOND


def test_saying_the_same_twice_is_no_version():
    task = make_task()
    standing.enable(task, now=LATER)
    assert stored(task).version == 1
    standing.disable(task, reason="a", now=LATER)
    standing.disable(task, reason="a", now=LATER + SECOND)
    assert (stored(task).version, stored(task).updated_at) == (2, LATER)
    standing.disable(task, reason="b", now=LATER)
    assert (stored(task).version, stored(task).disabled_reason) == (3, "b")


def end(verb, task):
    if verb == "disabled":
        standing.disable(task, reason="too loud", now=LATER)
    else:
        standing.delete(task, now=LATER)


@pytest.mark.parametrize("verb", ["disabled", "deleted"])
def test_what_waits_is_canceled_with_its_reason_and_what_is_under_way_goes_on(verb):
    task = make_task()
    slot = {Status.RETRYING: {"slot": 1}, Status.RUNNING: {"slot": 2}}
    runs = {s: make_run(task=task, status=s, **slot.get(s, {})) for s in Status}
    other = make_run()
    before = {run["id"]: run for run in TaskRun.objects.values()}
    end(verb, task)
    for status, run in runs.items():
        if status not in WAITING:
            assert TaskRun.objects.values().get(pk=run.pk) == before[run.pk]
            continue
        run.refresh_from_db()
        assert (run.status, run.reason, run.slot) == (Status.CANCELED, verb, None)
        assert run.end_time == run.updated_at == LATER
    assert TaskRun.objects.values().get(pk=other.pk) == before[other.pk]


@pytest.mark.parametrize("verb", ["disabled", "deleted"])
def test_a_task_and_its_waiting_runs_change_together_or_not_at_all(verb):
    run = make_run(task=(task := make_task(next_run_at=NOON)))
    before = Task.objects.values().get(pk=task.pk)
    refuse_changes_of_runs()
    with pytest.raises(DatabaseError, match="not today"):
        end(verb, task)
    assert Task.objects.values().get(pk=task.pk) == before
    run.refresh_from_db()
    assert run.status == Status.SCHEDULED


def refuse_changes_of_runs():
    """A trigger, gone again with the transaction of the test."""
    on = "CREATE TRIGGER refuse BEFORE UPDATE ON task_runs"
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"{on} BEGIN SELECT RAISE(ABORT, 'not today'); END")
            return
        raising = "$$ BEGIN RAISE EXCEPTION 'not today'; END $$"
        cursor.execute(f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS {raising}")
        cursor.execute(f"{on} FOR EACH ROW EXECUTE FUNCTION refuse()")


def test_deleting_is_soft_final_and_no_version():
    task = make_task(name="mine", next_run_at=NOON)
    done = make_run(task=task, status=Status.SUCCESS)
    standing.delete(task, now=LATER)
    kept = stored(task)
    assert (kept.deleted, kept.next_run_at, kept.next_moment) == (True, None, None)
    assert (kept.version, kept.updated_at, kept.live_name) == (1, LATER, None)
    assert TaskRun.objects.get(pk=done.pk).task_id == task.pk
    standing.create(new(name="mine"), now=LATER)
    assert Task.objects.filter(name="mine").count() == 2


def test_enabling_brings_back_no_run_that_was_canceled():
    run = make_run(task=(task := make_task()))
    standing.disable(task, reason="", now=LATER)
    standing.enable(task, now=LATER)
    run.refresh_from_db()
    assert run.status == Status.CANCELED


# --- many at once ---------------------------------------------------------------------------


def racing(test):
    """With real commits, since several connections look on."""
    return pytest.mark.django_db(transaction=True)(pytest.mark.on("postgresql")(test))


def at_once(*calls):
    """Run the calls at the same time, each on a connection of its own; what each came to."""
    barrier, ends = threading.Barrier(len(calls)), [None] * len(calls)

    def run(place, call):
        try:
            connection.ensure_connection()
            barrier.wait(timeout=30)
            ends[place] = call()
        except Exception as error:
            ends[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def create(name):
    return lambda: standing.create(new(name=name), now=NOON)


def rename(task, name):
    def call():
        task.name = name
        standing.edit(task, now=NOON)

    return call


def won(ends):
    assert {type(end) for end in ends} <= {NameTaken, type(None)}, ends
    return ends.count(None)


@racing
@pytest.mark.parametrize("clients", [2, 8])
def test_of_those_who_take_a_name_at_once_exactly_one_wins(clients):
    for number in range(10):
        name = f"wanted {number}"
        assert won(at_once(*[create(name)] * clients)) == 1
        assert Task.objects.filter(name=name).count() == 1


@racing
def test_of_those_who_rename_to_one_name_at_once_exactly_one_wins():
    for number in range(10):
        name = f"wanted {number}"
        calls = [rename(make_task(), name), rename(make_task(), name), create(name)]
        assert won(at_once(*calls)) == 1
        assert Task.objects.filter(live_name=name).count() == 1


def somebody_waits_for_us():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), pg_sleep(0.01) FROM pg_locks "
            "WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        )
        return cursor.fetchone()[0] > 0


@racing
@pytest.mark.parametrize("commits", [True, False])
def test_a_name_is_taken_when_its_taker_commits_and_free_when_it_gives_up(commits):
    ends = []
    thread = threading.Thread(target=lambda: ends.extend(at_once(create("mine"))))
    with transaction.atomic():
        standing.create(new(), now=NOON)
        thread.start()
        while thread.is_alive() and not somebody_waits_for_us():
            pass
        transaction.set_rollback(not commits)
    thread.join()
    assert won(ends) == (0 if commits else 1)
    assert Task.objects.filter(name="mine").count() == 1
