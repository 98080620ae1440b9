"""What need not wait begins as it is made, and is what it would be if it had been claimed."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs import begin as beginning
from runs import calls, pauses, trigger
from runs import materialise as module
from runs.claim import claim
from runs.materialise import materialise
from runs.models import Process, TaskRun
from runs.states import Status, Trigger
from tasks.models import Task
from tests import marks, plans
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task
from tests.runs.engine import claimed, registered, settled

pytestmark = marks.both
MS = timedelta(milliseconds=1)


def made(now=NOON, *, room=10, owner="a", **options):
    registered(owner)
    return materialise(now, owner=owner, room=room, **options)


def begun(now=NOON, **options):
    return made(now, **options).begun


def test_a_due_task_begins_as_it_is_made_in_three_statements():
    registered("a")
    task = make_task(next_run_at=NOON)
    with CaptureQueriesContext(connection) as seen:
        found = materialise(NOON, owner="a", room=1)
    asked = [query["sql"].split()[0] for query in seen.captured_queries]
    asked = [word for word in asked if word not in ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT")]
    assert len(asked) == 3, asked
    (run,) = found.begun
    assert (found.due, found.waiting) == ({task.priority: 1}, {})
    kept = TaskRun.objects.get()
    assert (kept.pk, kept.status, kept.owner, kept.slot) == (run.pk, Status.RUNNING, "a", 1)
    assert Task.objects.get().next_run_at == NOON + MINUTE


@pytest.mark.parametrize("policy", ["QUEUE", "SKIP", "PARALLEL"])
@pytest.mark.parametrize("late", [-20 * MS, 0 * MS, 3 * SECOND])
@pytest.mark.parametrize("exec_type", ["SYNC", "ASYNC"])
def test_it_is_what_a_claim_would_have_made_of_it(policy, late, exec_type):
    fields = {
        "exec_type": exec_type, "secret_headers": ["X-A"], "secret_paths": ["a.b"],
        "concurrency_policy": policy, "priority": 1, "headers": {"X-A": "b"}, "timezone": "UTC",
        "body_template": "{}", "http_method": "POST", "timeout_seconds": 7,
        "retry_policy": {"max_retries": 3}, "jitter_seconds": 0,
    }  # fmt: skip
    make_task(next_run_at=NOON, **fields, target_url="http://127.0.0.1:9/x", name="one")
    now, ahead = NOON + late, 30 * MS
    (here,) = begun(now, ahead=ahead)
    (straight,) = TaskRun.objects.filter(pk=here.pk).values()
    told = {name: getattr(here, name) for name in straight}
    Task.objects.update(next_run_at=None, name="another")
    make_task(next_run_at=NOON, **fields, target_url="http://127.0.0.1:9/x", name="one")
    materialise(now, ahead=ahead)
    claim(now, owner="a", room=1, priorities=[1], ahead=ahead)
    (by_claim,) = TaskRun.objects.exclude(pk=here.pk).values()
    differing = {name for name in straight if straight[name] != by_claim[name]}
    assert differing == {"id", "uuid", "task_id", "trace_id"}
    assert straight == told  # whoever calls has what is kept
    assert here.task.name == "one"


def test_very_many_are_what_they_would_be_alone():
    tasks = [make_task(next_run_at=NOON, target_url=f"http://127.0.0.1:{n}/") for n in range(1, 40)]
    runs = {run.id: run for run in begun(room=100)}
    assert {run.task_id for run in runs.values()} == {task.id for task in tasks}
    for kept in TaskRun.objects.select_related("task").values(
        "id", "task_id", "slot", "owner", "template", "start_time", "task__target_url"
    ):
        run = runs[kept["id"]]
        assert kept["template"]["target_url"] == kept.pop("task__target_url")
        assert {name: getattr(run, name) for name in kept} == kept


def test_what_it_comes_to_is_settled_like_any_other():
    make_task(next_run_at=NOON)
    (run,) = begun()
    assert settled(run)
    assert TaskRun.objects.get().status == Status.SUCCESS


def beside(**fields):
    """A run of the only task."""
    return make_run(task=Task.objects.get(), moment=NOON - MINUTE, **fields)


AGAINST = {
    "a limit of none": (lambda: Task.objects.update(max_concurrency=0), None),
    "a call under way": (lambda: beside(status=Status.RUNNING, slot=1, owner="b"), None),
    "a run without a slot under way": (lambda: beside(status=Status.RUNNING, owner="b"), None),
    "a callback to come": (lambda: beside(status=Status.CALLBACK_PENDING, slot=1), None),
    "a retry to come": (lambda: beside(status=Status.RETRYING, slot=1, attempt=1), None),
    "one that waits": (beside, None),
    "a process that others gave up": (lambda: Process.objects.all().delete(), None),
    "no patience": (lambda: Task.objects.update(start_deadline_seconds=1), NOON + 2 * SECOND),
}  # fmt: skip


@pytest.mark.parametrize("what", AGAINST)
def test_what_a_claim_would_have_to_judge_is_left_to_it(what):
    registered("a")
    make_task(next_run_at=NOON, max_concurrency=3)
    change, now = AGAINST[what]
    change()
    found = materialise(now or NOON, owner="a", room=10)
    assert (found.begun, found.waiting.total()) == ([], 1)
    run = TaskRun.objects.get(moment=NOON)
    assert (run.status, run.ready_at, run.owner) == (Status.SCHEDULED, NOON, None)


def test_what_is_parallel_begins_beside_others():
    make_task(next_run_at=NOON, concurrency_policy="PARALLEL")
    beside(status=Status.RUNNING, owner="b")
    (run,) = begun()
    assert run.slot is None


def test_what_was_missed_and_is_caught_up_with_goes_one_after_another():
    make_task(next_run_at=NOON, next_moment=NOON, misfire_policy="FIRE_NOW")
    found = made(NOON + 90 * MINUTE)
    assert not found.begun
    caught_up = TaskRun.objects.get(trigger=Trigger.CATCH_UP)
    assert caught_up.status == Status.SCHEDULED


def test_while_something_is_paused_nothing_begins_that_was_read_before(monkeypatch):
    make_task(next_run_at=NOON, tags=["a"])
    at(
        "materialise.read",
        monkeypatch,
        lambda: pauses.pause(tag="a", reason="", until=None, now=NOON),
    )
    assert made().waiting.total() == 1
    assert claimed() == []  # and the pause holds it


def test_of_a_task_that_was_changed_meanwhile_nothing_is_made_nor_called(monkeypatch):
    make_task(next_run_at=NOON)
    at("materialise.read", monkeypatch, lambda: Task.objects.update(version=2))
    assert not begun()
    assert not TaskRun.objects.exists()


def test_whoever_asked_for_a_run_a_moment_before_goes_first(monkeypatch):
    task = make_task(next_run_at=NOON)
    at("materialise.read", monkeypatch, lambda: trigger.trigger(task.pk, now=NOON - SECOND))
    assert not begun()
    assert [run.trigger for run in claimed()] == [Trigger.MANUAL]


def test_a_moment_that_was_recorded_before_is_not_called_again():
    task = make_task(next_run_at=NOON, concurrency_policy="PARALLEL")
    make_run(task=task, moment=NOON, status=Status.SUCCESS)
    found = made()
    assert not found.begun
    assert TaskRun.objects.count() == 1


def at(name, monkeypatch, action):
    monkeypatch.setattr(module, "failpoint", lambda reached: reached == name and action())


def test_a_row_that_cannot_be_started_does_not_keep_the_others_waiting(monkeypatch):
    bad, good = (make_task(next_run_at=NOON) for _ in range(2))
    right = calls.freeze

    def freeze(task):
        assert task.pk != bad.pk
        return right(task)

    monkeypatch.setattr(calls, "freeze", freeze)
    assert [run.task_id for run in begun()] == [good.pk]
    assert TaskRun.objects.get(task=bad).status == Status.SCHEDULED


def test_where_not_all_can_begin_none_does_and_a_claim_chooses():
    make_task(next_run_at=NOON - SECOND, anchor=NOON - SECOND, priority=3)
    make_task(next_run_at=NOON, priority=0)
    found = made(room=1)
    assert (found.begun, found.waiting) == ([], {0: 1, 3: 1})
    assert [run.priority for run in claimed(room=1)] == [0]


def test_those_that_begin_together_are_called_as_a_claim_would_have_it():
    def planted():
        for number, priority in enumerate((3, 2, 0, 2)):
            at = NOON - number * MS
            make_task(next_run_at=at, anchor=at, priority=priority)

    planted()
    together = [(run.priority, run.due_at) for run in begun()]
    Task.objects.update(next_run_at=None)
    planted()
    materialise(NOON)
    assert together == [(run.priority, run.due_at) for run in claimed(room=4)]


def test_what_calls_need_is_read_only_of_those_that_may_begin():
    for _ in range(5):
        make_task(next_run_at=NOON)
    registered("a")
    with CaptureQueriesContext(connection) as seen:
        assert not materialise(NOON, owner="a", room=2).begun
    first, second = [q["sql"] for q in seen.captured_queries if " next_run_at >= " in q["sql"]]
    assert "body_template" in first
    assert "body_template" not in second


def test_beside_a_pause_nothing_is_tried_that_would_be_refused():
    pauses.pause(tag="another", reason="", until=None, now=NOON)
    make_task(next_run_at=NOON)
    registered("a")
    with CaptureQueriesContext(connection) as seen:
        assert not materialise(NOON, owner="a", room=2).begun
    inserts = [q["sql"] for q in seen.captured_queries if "INSERT INTO" in q["sql"]]
    assert len(inserts) == 1
    assert TaskRun.objects.get().status == Status.SCHEDULED


def test_what_the_database_refuses_of_one_does_not_keep_the_others_from_being_made(monkeypatch):
    bad, good = (make_task(next_run_at=NOON) for _ in range(2))
    right = beginning.start

    def start(run, **options):
        right(run, **options)
        run.lateness_ms = 2**70 if run.task_id == bad.id else 0

    monkeypatch.setattr(beginning, "start", start)
    assert not begun()
    assert {run.task for run in TaskRun.objects.filter(status=Status.SCHEDULED)} == {bad, good}


def test_whether_something_is_against_it_is_looked_up_for_each_task_by_an_index(settings):
    task = make_task(next_run_at=NOON, name="first")
    make_run(task=task, status=Status.SUCCESS, moment=NOON - MINUTE)
    for _ in range(30):
        make_run(status=Status.RUNNING)
        make_task(next_run_at=NOON)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    asked = []

    def told(execute, sql, given, many, context):
        if sql.startswith('INSERT INTO "task_runs"'):
            asked.append((sql, given))
        return execute(sql, given, many, context)

    with connection.execute_wrapper(told):
        assert len(begun(room=100)) == 31
    sql, given = asked[0]
    TaskRun.objects.filter(status=Status.RUNNING, moment=NOON).delete()
    assert "run_open_of_task" in plans.indexes(sql, given)
