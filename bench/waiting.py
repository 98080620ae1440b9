"""What it costs to wait for much that is not due yet: everybody looks for it, again and again."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from bench import ground
from bench.contenders import Contender
from bench.ground import by_turns, middle, pause
from bench.results import Found, spread

TOMORROW = 86_400
SETTLING = 12.0  # until everybody has started, and read what it keeps


@dataclass
class Waiting:
    worker: float  # seconds of CPU in a second
    server: float
    memory: float  # MiB, of the workers


def waiting_of(contender: Contender, jobs: int, seconds: float) -> Waiting:
    with ground.sink() as sink, contender.ready() as field:
        field.plant(jobs, int((time.time() + TOMORROW) * 1e6), 0, sink.url)
        field.start()
        pause(SETTLING)
        before = field.group.seconds(), ground.named(field.server)
        pause(seconds)
        used = field.group.seconds() - before[0], ground.named(field.server) - before[1]
        assert not sink.count(), "nothing was due"
        return Waiting(used[0] / seconds, used[1] / seconds, field.group.memory())


def waiting(field: Iterable[Contender], *, jobs: int, seconds: float, rounds: int) -> Found:
    result = Found(
        title=f"At rest beside {jobs:,} jobs that are due tomorrow",
        said=f"Milliseconds of CPU in a second, while nothing is due for {seconds:g} s, of the "
        "workers and of the database or broker; ours polls each second, and hears of what is due "
        f"earlier. Medians of {rounds} rounds, from the least to the most.",
        head=("who", "worker, ms a second", "server, ms a second", "memory, MiB"),
        unit="ms of CPU in a second, workers and server",
    )
    each = {one.name: partial(waiting_of, one, jobs, seconds) for one in field}
    for name, all_of in by_turns(rounds, each).items():
        result.bar(name, ((w.worker + w.server) * 1000 for w in all_of))
        result.rows.append((
            name, spread((w.worker * 1000 for w in all_of), ".1f"),
            spread((w.server * 1000 for w in all_of), ".1f"),
            f"{middle(w.memory for w in all_of):.0f}",
        ))  # fmt: skip
    return result
