"""Every example of docs/schedules.md, read from the page and run."""

import re
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command

from tasks import cron, misfire
from tasks.preview import upcoming
from tasks.schedule import Schedule

PAGE = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text()
BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = {"29 March 2026": datetime(2026, 3, 29), "25 October 2026": datetime(2026, 10, 25)}  # noqa: DTZ001
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
MINUTELY = Schedule(zone=ZoneInfo("UTC"), every=timedelta(minutes=1), anchor=NEW_YEAR)


def table(*header):
    """The rows of the tables that begin with these columns, without their backticks."""
    wanted = "| " + " | ".join(header) + " |\n"
    found = []
    for part in PAGE.split(wanted)[1:]:
        rows = re.match(r"(?:\|.*\n)+", part)[0].splitlines()[1:]
        found += [[cell.strip().strip("`") for cell in row.strip("|").split(" | ")] for row in rows]
    assert found, header
    return found


def of(expression, zone=BERLIN):
    return Schedule(zone=zone, cron=cron.parse(cron.normalise(expression)))


@pytest.mark.parametrize(
    ("written", "stored", "first"),
    table("written", "stored", "first moment after 2026-01-01T00:00:00Z, zone UTC"),
)
def test_the_grammar_is_as_written(written, stored, first):
    assert cron.normalise(written) == stored
    assert of(written, ZoneInfo("UTC")).next_after(NEW_YEAR) == datetime.fromisoformat(first)


@pytest.mark.parametrize(("written", "why"), table("written", "why"))
def test_what_is_refused_is_refused_for_that_reason(written, why):
    with pytest.raises(cron.BadCron) as caught:
        cron.normalise(written)
    assert str(caught.value) == why


@pytest.mark.parametrize("night", NIGHTS)
def test_the_odd_nights_are_as_written(night):
    part = PAGE.split(f"the night of {night}")[1]
    rows = re.findall(r"\| `(.*)` \| (.*) \|\n", part.split("\n\n")[1] + "\n")
    assert len(rows) > 4
    midnight = NIGHTS[night].replace(tzinfo=BERLIN).astimezone(UTC)
    end = NIGHTS[night].replace(hour=5, tzinfo=BERLIN).astimezone(UTC)
    for expression, told in rows:
        moments = of(expression).between(
            midnight - timedelta(seconds=1), end - timedelta(seconds=1)
        )
        local = [m.astimezone(BERLIN).isoformat() for m in moments]
        assert ", ".join(t[11:16] + t[19:] for t in local) == told.replace("none", ""), expression


@pytest.mark.parametrize(
    ("expression", "after", "moment", "note"), table("expression", "after", "moment", "note")
)
def test_the_notes_are_as_written(expression, after, moment, note):
    (first,) = islice(upcoming(of(expression), datetime.fromisoformat(after), 1), 1)
    assert (first.local.isoformat(), first.note) == (moment, note)


@pytest.mark.parametrize(
    ("policy", "back", "runs", "missed"), table("policy", "back at", "runs", "recorded as missed")
)
def test_misfires_are_as_written(policy, back, runs, missed):
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    now = datetime.fromisoformat(f"2026-01-01T{back}+00:00")
    plan = misfire.plan(
        MINUTELY, noon, now=now, policy=policy,
        grace=timedelta(seconds=60), catchup_limit=2, room=1000,
    )  # fmt: skip
    assert ", ".join(f"{moment:%H:%M}" for moment in plan.runs) == runs.replace("–", "")
    span = plan.missed
    told = f"{span.first:%H:%M} to {span.last:%H:%M}, {span.count}" if span else "–"
    assert told == missed
    assert plan.following == now.replace(second=0) + timedelta(minutes=1)


@pytest.mark.on("sqlite")
@pytest.mark.usefixtures("database", "db")
def test_the_command_of_the_page_shows_moments(capsys):
    (line,) = re.findall(r"\$ python manage.py tasks (.*)", PAGE)
    words = [a or b for a, b in re.findall(r'"([^"]*)"|(\S+)', line)]
    call_command("tasks", *words)
    assert len(capsys.readouterr().out.splitlines()) == 4
