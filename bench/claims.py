"""Each claim that is made about speed, measured: one function, one table."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench import contenders as who
from bench import ground
from bench.contenders import Contender
from bench.ground import middle, pause, say, share
from bench.results import Found

LIMIT_SECONDS = 90.0
AHEAD = 9.0  # by then everybody has started


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
        seen = sink.report()
    late = sorted(at - int(when) / 1e6 for when, at, _ in seen)
    jobs = {job for _, _, job in seen}
    return Burst(
        rate=len(jobs) / late[-1], worst=late[-1], worker=used[0] / count * 1e6,
        server=used[1] / count * 1e6, missing=count - len(jobs), twice=len(seen) - len(jobs),
    )  # fmt: skip


def burst(scale: Scale, *, only: str) -> Found:
    count = scale.of(5000, 2000)
    peers = [
        who.PROCRASTINATE, who.CELERY, who.HUEY, who.APSCHEDULER, who.DJANGO_Q,
    ]  # fmt: skip
    field = [who.ours(), *([] if scale.quick else peers), who.LIMIT, who.LIMIT_URLLIB3]
    measured: dict[str, list[Burst]] = {}
    for number in range(scale.rounds):
        for one in chosen(field, only):
            found = burst_of(one, count)
            measured.setdefault(one.name, []).append(found)
            say(f"  round {number + 1}: {one.name}: {found}")
    ordered = sorted(measured, key=lambda name: -middle(b.rate for b in measured[name]))
    mine = middle(b.rate for b in measured.get("Cronjob", [])) if "Cronjob" in measured else 0
    result = Found(
        title=f"{count} tasks due at one instant",
        said="One GET each; the workers are idle and wait. PostgreSQL with its default durability, "
        "Redis as it comes. Runs a second until the last call; CPU of the workers and of the "
        "database or broker for each. The medians of the rounds; from the least to the most.",
        head=("who", "runs a second", "ours is", "worker, µs", "server, µs", "not called, twice"),
        unit="runs a second",
    )
    for name in ordered:
        all_of = measured[name]
        rates = [b.rate for b in all_of]
        rate = middle(rates)
        result.bars.append((name, rate, min(rates), max(rates)))
        result.rows.append((
            name, f"{rate:,.0f} ({min(rates):,.0f}–{max(rates):,.0f})", f"{mine / rate:.2f} ×",
            f"{middle(b.worker for b in all_of):.0f}", f"{middle(b.server for b in all_of):.0f}",
            f"{max(b.missing for b in all_of)}, {max(b.twice for b in all_of)}",
        ))  # fmt: skip
    return result


ALL: dict[str, Callable[..., Found]] = {"burst": burst}
_ = share
