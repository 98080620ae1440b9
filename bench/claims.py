"""Each claim that is made about speed, measured: one function, one table."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import inf

from bench import contenders as who
from bench import ground
from bench.api import api as measured_api
from bench.contenders import Contender
from bench.cron import claim as measured_cron
from bench.ground import by_turns, middle, pause, share
from bench.memory import claim as measured_memory
from bench.results import Found, spread
from bench.waiting import waiting
from bench.web import web as measured_web

LIMIT_SECONDS = 45.0
AHEAD = 9.0  # by then everybody has started
OURS = ("Cronjob", "Cronjob on SQLite")
SLOTS = 256  # of a process: what is claimed together costs the database less
ROOM = 512  # of a process: for all that is due at the same instant


@dataclass(frozen=True)
class Scale:
    quick: bool
    rounds: int

    def of(self, long: int, short: int) -> int:
        return short if self.quick else long


def chosen(contenders: Iterable[Contender], only: str) -> list[Contender]:
    return [one for one in contenders if only.lower() in one.name.lower()]


# --- burst ----------------------------------------------------------------------------------------


@dataclass
class Burst:
    rate: float
    worst: float
    worker: float
    server: float
    missing: int
    twice: int
    memory: float  # MiB, of the workers


def burst_of(contender: Contender, count: int, *, slow: float = 0.0) -> Burst:
    """Everything is due at one instant: how long until the last has been called?"""
    with ground.sink(slow) as sink, contender.ready() as field:
        # Some need minutes to take the jobs, others start slowly: first plant, then start.
        ahead = AHEAD + count * contender.planting
        due = int((time.time() + ahead) * 1e6)
        field.plant(count, due, 0, sink.url)
        field.start()
        assert time.time() < due / 1e6 - 3, f"{contender.name} was planted too late"
        pause(due / 1e6 - 0.5 - time.time())
        before = field.group.seconds(), ground.named(field.server)
        until = due / 1e6 + LIMIT_SECONDS
        while sink.count() < count and time.time() < until:
            pause(0.1)
        pause(1.0)  # what came of them is written, too
        used = field.group.seconds() - before[0], ground.named(field.server) - before[1]
        seen, memory = sink.report(), field.group.memory()
    late = sorted(at - int(when) / 1e6 for when, at, _ in seen)
    jobs = {job for _, _, job in seen}
    return Burst(
        rate=len(jobs) / late[-1], worst=late[-1], worker=used[0] / count * 1e6,
        server=used[1] / count * 1e6, missing=count - len(jobs), twice=len(seen) - len(jobs),
        memory=memory,
    )  # fmt: skip


def burst(scale: Scale, *, only: str) -> Found:
    peers = [
        who.GRAPHILE, who.PGBOSS, who.BULLMQ,
        who.PROCRASTINATE, who.CELERY, who.HUEY, who.APSCHEDULER, who.DJANGO_Q,
    ]  # fmt: skip
    limits = [who.LIMIT] if scale.quick else [who.LIMIT, who.LIMIT_URLLIB3, who.LIMIT_OURS]
    field = [who.ours(slots=SLOTS), *([] if scale.quick else peers), *limits]
    return compare(field, scale, only=only, title="Very many tasks due at one instant")


def flood(scale: Scale, *, only: str) -> Found:
    """Four times as many: what was just started is warm by then."""
    field = [who.ours(slots=SLOTS), who.LIMIT_URLLIB3, *([] if scale.quick else [who.GRAPHILE])]
    many = scale.of(20_000, 8000)
    return compare(field, scale, only=only, title="Four times as many", count=many)


def processes(scale: Scale, *, only: str) -> Found:
    one = who.ours("Cronjob, one process", processes=1, slots=2 * SLOTS)
    return compare([who.ours(slots=SLOTS), one], scale, only=only, title="A second process")


def compare(
    field: Iterable[Contender], scale: Scale, *, only: str, title: str, count: int = 0
) -> Found:
    count = count or scale.of(5000, 2000)
    each = {one.name: partial(burst_of, one, count) for one in chosen(field, only)}
    measured = by_turns(scale.rounds, each)
    ours = [b.rate for name, all_of in measured.items() if name in OURS for b in all_of]
    result = Found(
        title=title,
        said=f"{count} jobs are due at one instant, one GET each; the workers are idle and wait. "
        "PostgreSQL with its default durability, Redis as it comes. Runs a second until the last "
        "call; CPU of the workers and of the database or broker for each. Medians of "
        f"{scale.rounds} rounds, from the least to the most.",
        head=(
            "who",
            "runs a second",
            "ours is",
            "worker, µs",
            "server, µs",
            "memory, MiB",
            "not called, twice",
        ),
        unit="runs a second",
    )
    for name in sorted(measured, key=lambda name: -middle(b.rate for b in measured[name])):
        all_of = measured[name]
        rates = [b.rate for b in all_of]
        result.bar(name, rates)
        result.rows.append((
            name, spread(rates), f"{middle(ours) / middle(rates):.2f} ×" if ours else "",
            f"{middle(b.worker for b in all_of):.0f}", f"{middle(b.server for b in all_of):.0f}",
            f"{middle(b.memory for b in all_of):.0f}",
            f"{max(b.missing for b in all_of)}, {max(b.twice for b in all_of)}",
        ))  # fmt: skip
    return result


# --- one at a time --------------------------------------------------------------------------------


@dataclass
class Late:
    """How late the calls of one round arrived, in milliseconds."""

    median: float
    most: float  # 99 % are no later
    latest: float
    missing: int

    @classmethod
    def of(cls, late: Iterable[float], count: int) -> "Late":
        told = sorted(late)
        parts = [share(told, part) if told else inf for part in (0.5, 0.99, 1)]
        return cls(*parts, missing=count - len(told))


def idle_of(contender: Contender, count: int) -> Late:
    """One job at a time, a third of a second apart."""
    with ground.sink() as sink, contender.ready() as field:
        due = int((time.time() + AHEAD) * 1e6) + 37_000
        field.plant(count, due, 331_000, sink.url)
        field.start()
        pause(due / 1e6 + count * 0.331 + 3 - time.time())
        return Late.of(((at - int(when) / 1e6) * 1000 for when, at, _ in sink.report()), count)


def idle(scale: Scale, *, only: str) -> Found:
    count = scale.of(100, 20)
    peers = [
        who.CELERY, who.APSCHEDULER, who.PROCRASTINATE, who.HUEY,
        who.GRAPHILE_AT_REST, who.PGBOSS, who.BULLMQ,
    ]  # fmt: skip
    on_sqlite = who.ours("Cronjob on SQLite", needs="", processes=1)
    field = [who.ours(processes=1), *([] if scale.quick else [on_sqlite, *peers])]
    result = Found(
        title="One at a time, at rest",
        said=f"{count} jobs, a third of a second apart, each due at a moment of its own: how much "
        f"later its call arrives. Milliseconds; medians of {scale.rounds} rounds, from the least "
        "to the most.",
        head=("who", "median", "99 %", "latest", "not called"),
        unit="milliseconds late: 99 % are no later",
        scale="log",
    )
    each = {one.name: partial(idle_of, one, count) for one in chosen(field, only)}
    for name, all_of in by_turns(scale.rounds, each).items():
        told = (
            [late.median for late in all_of],
            [late.most for late in all_of],
            [late.latest for late in all_of],
        )
        cells = [spread(numbers, ".1f") for numbers in told]
        result.rows.append((name, *cells, str(max(late.missing for late in all_of))))
        result.bar(name, told[1])
    return result


# --- each second ----------------------------------------------------------------------------------


def steady(scale: Scale, *, only: str) -> Found:
    """Every task each second: is every moment called once, and how late?"""
    tasks, seconds = scale.of(1000, 200), scale.of(60, 5)
    result = Found(
        title=f"{tasks} tasks each second for {seconds} s",
        said="Each task is due every second, one GET each: at an instant of its own, or all "
        f"at the same one. PostgreSQL, its default durability, two processes with {ROOM} slots "
        f"each; the target runs on the same cores. Medians of {scale.rounds} rounds, from the "
        "least to the most.",
        head=("due", "moments", "called once", "late: median, ms", "99 %", "latest", "worker, µs",
              "PostgreSQL, µs"),
        unit="milliseconds late",
    )  # fmt: skip
    ways = {"evenly over the second": 1_000_000 // tasks, "at one instant": 0}
    each = {
        name: partial(ticks_of, who.ours(slots=ROOM), tasks, seconds, apart=apart)
        for name, apart in ways.items()
    }
    for name, all_of in by_turns(scale.rounds, each).items():
        told = {
            "median": [t.late.median for t in all_of],
            "99 %": [t.late.most for t in all_of],
            "latest": [t.late.latest for t in all_of],
        }
        cost = [t.worker for t in all_of], [t.server for t in all_of]
        cells = [spread(numbers) for numbers in (*told.values(), *cost)]
        once = spread([t.once for t in all_of], "d")
        result.rows.append((name, str(tasks * seconds), once, *cells))
        for part, numbers in told.items():
            result.bar(f"Cronjob, {name}: {part}", numbers)
    return result


def periodic(scale: Scale, *, only: str) -> Found:
    """The same for everybody who knows tasks that are due each second."""
    tasks, seconds = scale.of(1000, 200), scale.of(20, 5)
    result = Found(
        title=f"{tasks} tasks each second, ours and the others",
        said=f"For {seconds} s, after some seconds to settle in. Those that do not tell their jobs "
        f"when they were due are counted by their calls alone. Medians of {scale.rounds} rounds, "
        "from the least to the most.",
        head=("who", "of the moments, called: %", "twice", "late: median, ms", "99 %"),
        unit="% of the moments, called",
    )
    field = [who.ours(slots=ROOM), who.BULLMQ, who.PROCRASTINATE, who.CELERY, who.APSCHEDULER]
    each = {one.name: partial(ticks_of, one, tasks, seconds) for one in chosen(field, only)}
    for name, all_of in by_turns(scale.rounds, each).items():
        told = all(t.once for t in all_of)  # their jobs know when they were due
        called = [(t.once if told else t.calls) / (tasks * seconds) * 100 for t in all_of]
        late = [[t.late.median for t in all_of], [t.late.most for t in all_of]]
        known = (spread([t.twice for t in all_of], "d"), *map(spread, late))
        result.rows.append((name, spread(called, ".1f"), *(known if told else ("", "", ""))))
        result.bar(name, called)
    return result


@dataclass
class Ticks:
    calls: int  # in these seconds
    once: int  # different moments, of those that were due in them; 0 if they do not tell
    twice: int
    late: Late
    worker: float  # µs of CPU for a call
    server: float


def ticks_of(contender: Contender, tasks: int, seconds: int, *, apart: int = 0) -> Ticks:
    with ground.sink() as sink, contender.ready() as field:
        first = (int(time.time()) + int(AHEAD)) * 1_000_000
        field.tick(tasks, first, sink.url, apart=apart)
        pause(first / 1e6 - 0.5 - time.time())
        sink.report()
        before = field.group.seconds(), ground.named(field.server)
        pause(seconds + 0.4)
        used = field.group.seconds() - before[0], ground.named(field.server) - before[1]
        pause(5)
        seen = sink.report()
    moments = [(when, at, job) for when, at, job in seen if within(when, first, seconds)]
    once = len({(when, job) for when, _, job in moments})
    calls = sum(first <= at * 1e6 < first + seconds * 1e6 for _, at, _ in seen)
    late = ((at - microseconds(when) / 1e6) * 1000 for when, at, _ in moments)
    return Ticks(
        calls=calls, once=once, twice=len(moments) - once, late=Late.of(late, tasks * seconds),
        worker=used[0] / max(calls, 1) * 1e6, server=used[1] / max(calls, 1) * 1e6,
    )  # fmt: skip


def microseconds(when: str) -> int:
    return int(when) if when.isdigit() else int(datetime.fromisoformat(when).timestamp() * 1e6)


def within(when: str, first: int, seconds: int) -> bool:
    return first <= microseconds(when) < first + seconds * 1_000_000


# --- targets that take their time -----------------------------------------------------------------


def slow(scale: Scale, *, only: str) -> Found:
    """Slots are the limit and not the CPU."""
    slots = 256
    result = Found(
        title="Targets that take their time",
        said=f"All due at one instant, {slots} slots in two processes: what could be reached is "
        f"slots ÷ latency. Medians of {scale.rounds} rounds, from the least to the most.",
        head=("target answers after", "who", "runs a second", "of what could be"),
        unit="part of slots ÷ latency",
    )
    limits = [] if scale.quick else [who.limit("urllib3", at_once=slots // 2)]
    for latency, count in ((0.05, scale.of(20_000, 3000)), (1.0, scale.of(2560, 1024))):
        each = {
            one.name: partial(burst_of, one, count, slow=latency)
            for one in chosen([who.ours(slots=slots // 2), *limits], only)
        }
        for name, all_of in by_turns(scale.rounds, each).items():
            rates = [b.rate for b in all_of]
            reached = [rate * latency / slots for rate in rates]
            result.rows.append((f"{latency:g} s", name, spread(rates), spread(reached, ".2f")))
            result.bar(f"{name}, {latency:g} s", reached)
    return result


# --- SQLite ---------------------------------------------------------------------------------------


def sqlite(scale: Scale, *, only: str) -> Found:
    field = [who.ours("Cronjob on SQLite", needs="", processes=1, slots=SLOTS), who.HUEY_SQLITE]
    return compare(field, scale, only=only, title="The same on SQLite, one process")


# --- and those with a script of their own ------------------------------------------------------


def due(scale: Scale, *, only: str) -> Found:
    peers = [who.CELERY, who.HUEY, who.PROCRASTINATE, who.APSCHEDULER]
    on_sqlite = who.ours("Cronjob on SQLite", needs="", processes=1)
    field = [who.ours(), *([] if scale.quick else [on_sqlite, *peers])]
    return waiting(
        chosen(field, only), jobs=scale.of(10_000, 2000), seconds=scale.of(15, 5),
        rounds=scale.rounds,
    )  # fmt: skip


def api(scale: Scale, *, only: str) -> Found:
    return measured_api(quick=scale.quick, rounds=scale.rounds)


def web(scale: Scale, *, only: str) -> Found:
    return measured_web(quick=scale.quick, rounds=scale.rounds)


def cron(scale: Scale, *, only: str) -> Found:
    return measured_cron(quick=scale.quick)


def memory(scale: Scale, *, only: str) -> Found:
    return measured_memory(quick=scale.quick, rounds=scale.rounds)


ALL: dict[str, Callable[..., Found]] = {
    "burst": burst, "flood": flood, "processes": processes, "idle": idle, "steady": steady,
    "periodic": periodic, "slow": slow, "sqlite": sqlite, "due": due, "cron": cron,
    "memory": memory, "api": api, "web": web,
}  # fmt: skip
