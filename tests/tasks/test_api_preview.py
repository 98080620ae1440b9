"""The coming moments over REST: of a task, and of a schedule that nobody has saved."""

from datetime import datetime

import pytest

from cronjob.lib import clock
from tasks.models import Task
from tests import marks
from tests.factories import MINUTE, SECOND, Api, make_api, make_task

pytestmark = marks.sqlite

SPRING = "2026-03-28T12:00:00Z"  # the day before clocks go forward in Berlin
JANUARY = "2030-01-01T00:00:00Z"


def refused(answer, field, problem=""):
    assert answer.status_code == 400, answer.content
    told = answer.json()
    assert told["code"] == "INVALID_ARGUMENT"
    assert problem in " ".join(told["fields"][field])


def ats(answer):
    assert answer.status_code == 200, answer.content
    return [moment["at"] for moment in answer.json()["moments"]]


# --- preview --------------------------------------------------------------------------------------


def test_a_preview_tells_moments_by_utc_and_by_the_zone_and_describes_them(reader):
    given = {"cron_expr": "30 2 * * *", "timezone": "Europe/Berlin", "from": SPRING, "count": 2}
    assert reader.post("tasks/preview", given).json() == {
        "moments": [
            {
                "at": "2026-03-29T01:00:00Z",
                "local": "2026-03-29T03:00:00+02:00",
                "fires_at": "2026-03-29T01:00:00Z",
                "note": "02:30 moved to 03:00: clocks go forward 02:00 → 03:00",
            },
            {
                "at": "2026-03-30T00:30:00Z",
                "local": "2026-03-30T02:30:00+02:00",
                "fires_at": "2026-03-30T00:30:00Z",
                "note": None,
            },
        ],
        "description": "At 02:30 (Europe/Berlin)",
    }


def test_a_preview_saves_nothing(reader):
    assert reader.post("tasks/preview", {"every": "5m"}).status_code == 200
    assert not Task.objects.exists()


def test_ten_moments_are_shown_unless_asked_otherwise(reader):
    assert len(ats(reader.post("tasks/preview", {"every": "5m"}))) == 10


def test_from_is_exclusive(reader):
    given = {"cron_expr": "0 0 * * *", "from": "2026-01-01T00:00:00Z", "count": 1}
    assert ats(reader.post("tasks/preview", given)) == ["2026-01-02T00:00:00Z"]


def test_an_interval_begins_at_start_at_and_ends_with_end_at(reader):
    window = {"start_at": "2026-01-01T00:00:01Z", "end_at": "2026-01-01T00:10:01Z"}
    given = {"every": "5m", "from": "2025-12-01T00:00:00Z", **window}
    assert ats(reader.post("tasks/preview", given)) == [
        "2026-01-01T00:00:01Z", "2026-01-01T00:05:01Z", "2026-01-01T00:10:01Z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "moments", "description"),
    [
        ({"run_at": JANUARY}, [JANUARY], "Once, at 2030-01-01 00:00:00 UTC"),
        ({"schedule_kind": "MANUAL"}, [], "Only when triggered"),
        ({"every": 90, "end_at": "2026-01-01T00:00:00Z"}, [], "Every 1m30s"),
    ],
)
def test_the_other_kinds_have_previews_too(reader, given, moments, description):
    answer = reader.post("tasks/preview", given)
    assert ats(answer) == moments
    assert answer.json()["description"] == description


def test_jitter_shows_when_it_would_start(reader):
    given = {"every": "1h", "jitter": "10m", "count": 50}
    moments = reader.post("tasks/preview", given).json()["moments"]
    told = [[datetime.fromisoformat(m[which]) for which in ("at", "fires_at")] for m in moments]
    assert all(at <= fires_at for at, fires_at in told)
    assert len({m["fires_at"][14:] for m in moments}) > 25


@pytest.mark.parametrize(
    ("given", "field", "problem"),
    [
        ({}, "schedule_kind", "Give one of"),
        ({"cron_expr": "0 24 * * *"}, "cron_expr", "hour: 24 is out of range"),
        ({"cron_expr": "0 0 30 2 *"}, "cron_expr", "never fires"),
        ({"cron_expr": "* * * * *", "every": "5m"}, "every", "One schedule only"),
        ({"cron_expr": "* * * * *", "timezone": "../../etc/passwd"}, "timezone", "IANA"),
        ({"cron_expr": "* * * * *", "timezone": "localtime"}, "timezone", "IANA"),
        ({"every": "soon"}, "every", "Cannot read"),
        ({"every": 0}, "every", "more than zero"),
        ({"run_at": "2020-01-01T00:00:00Z"}, "run_at", "in the future"),
        ({"run_at": "2016-12-31T23:59:60Z"}, "run_at", ""),
        ({"run_at": "9999-12-31T23:59:59-14:00"}, "run_at", ""),
        ({"run_at": "9999-12-31T23:59:59Z"}, "run_at", "Must not be after 9998-12-31"),
        ({"run_at": JANUARY, "start_at": "2030-01-02T00:00:00Z"}, "run_at", "start_at"),
        ({"run_at": "2030-01-02T00:00:00Z", "end_at": JANUARY}, "run_at", "end_at"),
        ({"every": "1m", "count": 0}, "count", ""),
        ({"every": "1m", "count": 501}, "count", ""),
        ({"every": "1m", "count": "10"}, "count", ""),
        ({"every": "1m", "from": "yesterday"}, "from", ""),
        ({"every": "1m", "name": "x"}, "name", "no such field"),
    ],
)
def test_what_could_not_be_saved_is_refused_with_its_reason(reader, given, field, problem):
    refused(reader.post("tasks/preview", given), field, problem)


def test_a_preview_needs_a_key_and_no_more_than_reading(api):
    assert Api().post("tasks/preview", {"every": "5m"}).status_code == 401
    assert make_api("worker").post("tasks/preview", {"every": "5m"}).status_code == 200


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1969-07-20T20:17:40Z"]
)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Anchorage"])
def test_the_ends_of_time_do_no_harm(reader, at, zone):
    for schedule in ({"cron_expr": "*/7 1-3 * * *"}, {"cron_expr": "0 0 29 2 *"}, {"every": "10d"}):
        ats(reader.post("tasks/preview", {"from": at, "timezone": zone, **schedule}))


# --- next -----------------------------------------------------------------------------------------


def test_the_next_moments_of_a_task_begin_with_its_next_run(api):
    made = api.post(
        "tasks", {"name": "a", "target_url": "http://x/", "every": "1h", "jitter": "30m"}
    ).json()
    moments = api.get(f"tasks/{made['id']}/next?count=3").json()["moments"]
    assert len(moments) == 3
    assert moments[0]["fires_at"] == made["next_run_at"]
    assert api.get(f"tasks/{made['id']}/next").json()["moments"][:3] == moments


def test_a_disabled_task_tells_what_its_schedule_says(api):
    task = make_task(cron_expr="0 0 0 1 1 *", status="DISABLED")
    assert len(ats(api.get(f"tasks/{task.pk}/next"))) == 10


@pytest.mark.parametrize("count", ["0", "-1", "501", "ten", "1.5"])
def test_a_count_that_is_none_is_refused(api, count):
    task = make_task()
    refused(api.get(f"tasks/{task.pk}/next?count={count}"), "count", "whole number from 1 to 500")


def test_next_refuses_what_it_does_not_know(api):
    task = make_task()
    refused(api.get(f"tasks/{task.pk}/next?page=2"), "page", "no such parameter")
    assert api.get(f"tasks/{task.pk + 1}/next").status_code == 404
    assert api.post(f"tasks/{task.pk}/next").status_code == 405


def test_a_moment_that_waits_for_its_share_of_the_jitter_is_still_coming(api):
    task = make_task(jitter_seconds=59, every_seconds=3600)
    now = clock.now()
    moment = now - SECOND
    Task.objects.update(anchor=moment, next_moment=moment, next_run_at=now + MINUTE)
    assert ats(api.get(f"tasks/{task.pk}/next?count=1")) == [clock.text(moment)]


@pytest.mark.parametrize("micros", [0, 1, 500_000, 999_999])
@pytest.mark.parametrize(
    ("expression", "zone", "start"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00"),
        ("0 3 28 3 *", "Europe/Berlin", "2026-11-18T17:00:00"),
        ("0 * * * *", "America/New_York", "2026-11-01T05:30:00"),
    ],
)
def test_a_preview_may_begin_within_a_second(reader, expression, zone, start, micros):
    given = {"cron_expr": expression, "timezone": zone, "from": f"{start}.{micros:06}Z", "count": 3}
    assert len(ats(reader.post("tasks/preview", given))) == 3


def test_a_flood_of_unknown_fields_is_answered_shortly(reader):
    answer = reader.post("tasks/preview", {f"field {n}": n for n in range(50_000)})
    assert len(answer.content) < 10_000
