"""Why a task ran or did not run at some time, from what was recorded then."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from runs import held
from runs.models import Pause, TaskRun
from runs.states import FINAL, Status, Trigger
from tasks import daylight
from tasks.changes import Change, Verb, as_of
from tasks.models import Task, TaskStatus
from tasks.preview import notes
from tasks.schedule import INSTANT, Schedule

VERDICTS = (
    "RAN", "UNDER_WAY", "WAITING", "SKIPPED", "MISSED", "CANCELED", "COMING", "DUE", "NO_MOMENT",
    "DISABLED", "PAUSED", "NOT_YET_MADE", "UNKNOWN",
)  # fmt: skip
LATE = 1000  # milliseconds from which lateness is worth a reason
BESIDE = 50  # so many runs around one are looked at for those that were in its way
NEEDED = (
    "id", "task_id", "trigger", "status", "reason", "attempt", "max_attempts", "lost", "moment",
    "scheduled_time", "due_at", "ready_at", "next_retry_time", "start_time", "end_time",
    "lateness_ms", "missed_from", "missed_to", "missed_count", "callback_deadline", "error_kind",
    "error_message", "response_code", "created_at",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Explanation:
    at: datetime
    verdict: str = "UNKNOWN"
    summary: str = ""
    run: TaskRun | None = None
    blocked_by: list[int] = field(default_factory=list)
    since: datetime | None = None  # the span of an outage, or of being disabled
    until: datetime | None = None
    by: str = ""
    previous: datetime | None = None
    next: datetime | None = None
    notes: list[str] = field(default_factory=list)

    def say(self, verdict: str, summary: str, **more: Any) -> "Explanation":
        self.verdict, self.summary = verdict, summary
        for name, value in more.items():
            setattr(self, name, value)
        return self


def explain(task: Task, at: datetime, *, now: datetime) -> Explanation:
    told = Explanation(at=at)
    then = in_force(task, at)
    schedule = (as_of(task, then.values) if then else task).schedule()
    look_around(told, schedule)
    if run := recorded(task, at):
        return of_run(told, run)
    if at > now:
        return of_coming(told, task, task.schedule())
    if (entry := covering(task, at)) and planned(schedule, at):
        return of_entry(told, entry)
    if at < task.created_at:
        return told.say("NOT_YET_MADE", f"The task was made at {said(task.created_at)}.")
    if not planned(schedule, at):
        return told.say("NO_MOMENT", no_moment(told, schedule))
    if off := disabled_at(task, at):
        return of_disabled(told, off)
    if task.next_moment is not None and task.next_moment <= at:
        return of_due(told, task)
    return told.say("UNKNOWN", "Nothing is recorded: its run is older than what is kept of runs.")


def local(task: Task, wall: datetime) -> tuple[datetime, str]:
    """The instant at which the task's clock shows this time, and a word if it never does."""
    zone = task.schedule().zone
    at = daylight.first_shown(zone, wall)
    now_shows = daylight.wall_at(zone, at)
    if now_shows == wall:
        return at, ""
    return at, f"{wall:%H:%M} does not exist on {wall:%Y-%m-%d}: clocks go to {now_shows:%H:%M}"


# --- what is known ------------------------------------------------------------------------------


def recorded(task: Task, at: datetime) -> TaskRun | None:
    """What became of this very moment; else a run that somebody asked for then."""
    runs = TaskRun.objects.filter(task=task).only(*NEEDED)
    by_moment = runs.filter(moment=at, missed_count=None).first()
    return by_moment or runs.filter(scheduled_time=at, moment=None).order_by("-id").first()


def covering(task: Task, at: datetime) -> TaskRun | None:
    """The entry that stands for several moments, this one among them."""
    later = TaskRun.objects.filter(task=task, moment__gte=at).only(*NEEDED).order_by("moment")
    entry = later.first()
    holds = entry is not None and entry.missed_from is not None and entry.missed_from <= at
    return entry if holds else None


def in_force(task: Task, at: datetime) -> Change | None:
    """The version of the task at that time, if its log reaches back so far."""
    known = Change.objects.filter(task=task, at__lte=at).exclude(values={})
    return known.order_by("-id").first()


def planned(schedule: Schedule, at: datetime) -> bool:
    return schedule.next_after(at - INSTANT) == at


def look_around(told: Explanation, schedule: Schedule) -> None:
    told.next = schedule.next_after(told.at)
    told.previous = schedule.last_before(told.at - INSTANT, after=told.at - timedelta(days=366))
    if told.next and told.next - told.at <= timedelta(days=2):
        told.notes += notes(schedule, told.previous or told.at, told.next)


# --- in words -----------------------------------------------------------------------------------


def of_run(told: Explanation, run: TaskRun) -> Explanation:
    told.run = run
    match run.status:
        case Status.SKIPPED:
            told.blocked_by = in_the_way(run, run.end_time)
            runs = f" by runs {listed(told.blocked_by)}" if told.blocked_by else ""
            return told.say("SKIPPED", f"Skipped: {run.reason}{runs}.")
        case Status.MISSED:
            late = f"it waited from {said(run.due_at)} until {said(run.end_time)}"
            return told.say("MISSED", f"Missed: {run.reason}; {late}.")
        case Status.CANCELED:
            return told.say("CANCELED", f"Run {run.pk} was canceled: {run.reason or 'no reason'}.")
        case Status.SCHEDULED:
            return of_waiting(told, run)
        case status if status not in FINAL:
            return told.say("UNDER_WAY", f"Run {run.pk} is {status}, attempt {run.attempt}.")
    ended = f"{run.status} after {run.attempt} of {run.max_attempts} attempts"
    if run.status not in (Status.SUCCESS, Status.CALLBACK_SUCCESS):
        ended += f" ({run.error_message or run.error_kind or run.reason})"
    return told.say("RAN", f"Ran as run {run.pk}: {ended}{why_late(told, run)}.")


def why_late(told: Explanation, run: TaskRun) -> str:
    if run.lateness_ms is None or run.lateness_ms < LATE:
        return ""
    late = f"; {run.lateness_ms / 1000:.1f} s late"
    if run.trigger == Trigger.CATCH_UP:
        return f"{late}, because it was caught up with after an outage"
    told.blocked_by = in_the_way(run, run.due_at)
    if told.blocked_by:
        return f"{late}, because it waited for a slot behind runs {listed(told.blocked_by)}"
    return f"{late}, because no scheduler had a slot free, or none was running"


def of_waiting(told: Explanation, run: TaskRun) -> Explanation:
    paused = held.tags()
    if held.held_run(paused, run):
        return told.say("WAITING", f"Run {run.pk} waits for a pause to end.")
    told.blocked_by = in_the_way(run, run.due_at)
    behind = f" behind runs {listed(told.blocked_by)}" if told.blocked_by else ""
    what = "a slot of its task" if run.ready_at is None else "a scheduler"
    return told.say("WAITING", f"Run {run.pk} waits for {what}{behind}.")


def in_the_way(run: TaskRun, at: datetime | None) -> list[int]:
    """Runs of the same task that were under way at that time."""
    if at is None:
        return []
    others = TaskRun.objects.filter(task=run.task_id, pk__lt=run.pk).order_by("-id")
    times = others.values_list("pk", "start_time", "end_time")[:BESIDE]
    return sorted(
        pk for pk, start, end in times if start and start <= at and (end is None or end >= at)
    )


WHY_MISSED = {
    "misfire": "no scheduler recorded it in time, and the task's policy gives up what is too late",
    "backlog full": "too many runs of the task were waiting already",
    "paused": "firing was paused",
    "edited": "its schedule was edited before anybody recorded it",
    "disabled": "the task was disabled before anybody recorded it",
    "deleted": "the task was deleted before anybody recorded it",
}


def of_entry(told: Explanation, entry: TaskRun) -> Explanation:
    told.run, told.since, told.until = entry, entry.missed_from, entry.created_at
    why = WHY_MISSED.get(entry.reason, entry.reason)
    span = f"in the outage from {said(told.since)} to {said(told.until)}"
    span = span if entry.reason == "misfire" else f"from {said(told.since)} to {said(told.until)}"
    count = f"; one of {entry.missed_count} moments" if (entry.missed_count or 0) > 1 else ""
    verdict = str(entry.status)
    return told.say(verdict, f"{verdict.capitalize()} {span}: {why}{count}.")


def of_coming(told: Explanation, task: Task, schedule: Schedule) -> Explanation:
    if not planned(schedule, told.at):
        return told.say("NO_MOMENT", no_moment(told, schedule))
    if task.status == TaskStatus.DISABLED:
        return of_disabled(told, disabled_at(task, told.at))
    if held.holds(held.tags(), task):
        return told.say("PAUSED", "It will not run unless the pause ends before.")
    return told.say("COMING", f"It will run at {said(schedule.fires_at(told.at))}.")


def no_moment(told: Explanation, schedule: Schedule) -> str:
    if schedule.start_at and told.at < schedule.start_at:
        return f"The schedule begins at {said(schedule.start_at)}."
    if schedule.end_at and told.at > schedule.end_at:
        return f"The schedule ended at {said(schedule.end_at)}."
    before = f"the one before was {said(told.previous)}" if told.previous else "none before"
    after = f"the next is {said(told.next)}" if told.next else "none after"
    odd = f" ({'; '.join(told.notes)})" if told.notes else ""
    return f"The schedule has no such moment; {before}, {after}{odd}."


def disabled_at(task: Task, at: datetime) -> tuple[Change | None, Change | None] | None:
    """The change that disabled it before that time, and the one that ended it."""
    switches = Change.objects.filter(task=task, verb__in=(Verb.ENABLE, Verb.DISABLE))
    last = switches.filter(at__lte=at).order_by("-id").first()
    if last is not None and last.verb == Verb.DISABLE:
        return last, switches.filter(pk__gt=last.pk, verb=Verb.ENABLE).order_by("id").first()
    following = switches.filter(at__gt=at).order_by("id").first()
    if last is None and following is not None and following.verb == Verb.ENABLE:
        return None, following  # it was made disabled
    if last is None and following is None and task.status == TaskStatus.DISABLED:
        return None, None
    return None


def of_disabled(told: Explanation, off: tuple[Change | None, Change | None] | None) -> Explanation:
    first, last = off or (None, None)
    told.since, told.until = first.at if first else None, last.at if last else None
    told.by = first.who if first else ""
    since = f" from {said(told.since)}" if told.since else ""
    until = f" to {said(told.until)}" if told.until else ""
    by = f" by {told.by}" if told.by else ""
    why = f": {first.reason}" if first and first.reason else ""
    return told.say("DISABLED", f"The task was disabled{since}{until}{by}{why}.")


def of_due(told: Explanation, task: Task) -> Explanation:
    if held.holds(held.tags(), task):
        holding = Pause.objects.filter(tag__in=["", *task.tags]).exclude(reason="")
        why = holding.values_list("reason", flat=True).first() or ""
        return told.say("PAUSED", f"Firing is paused{f': {why}' if why else ''}.")
    return told.say("DUE", "It is due, and no scheduler has come by yet. Is one running?")


def listed(runs: list[int]) -> str:
    return ", ".join(map(str, runs))


def said(at: datetime | None) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}" if at else "?"
