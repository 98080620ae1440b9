"""What the next moment of a cron expression costs: ours, croniter and cronsim side by side.

Needs cronsim besides the product. Exits with 1 if any row shows ours as the slower one.
"""

import argparse
import gc
import os
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import median
from time import process_time
from typing import NamedTuple
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.results import Found  # noqa: E402
from tasks.cron import normalise, parse  # noqa: E402
from tasks.daylight import next_after  # noqa: E402

EXPRESSIONS = (  # the three libraries spell every one of them alike
    "* * * * *", "*/5 * * * *", "0 * * * *", "30 2 * * *", "0 9 * * 1-5",
    "0 */2 * * *", "0 0 1 * *", "0 0 * * 0", "15,45 8-18 * * *", "0 0 1 1 *",
    "0 0 29 2 *", "0 0 31 * *", "0 0 13 * 5", "0 0 L * *", "0 0 * * 5#3",
)  # fmt: skip
BERLIN = ZoneInfo("Europe/Berlin")
ZONES: dict[str, tuple[ZoneInfo, tzinfo]] = {  # ours, and what the others are quickest with
    "Europe/Berlin": (BERLIN, BERLIN),
    "UTC": (ZoneInfo("UTC"), UTC),
}
BEGIN, YEAR = datetime(2026, 1, 1, 0, 0, 17, tzinfo=UTC), timedelta(days=365)
STEPS = 20  # of one walk: up to 80 years
ROUNDS = 9

Walked = tuple[list[datetime], float]  # the moments, and how many seconds they took
Way = Callable[[str, tzinfo, list[datetime]], Walked]

# --- iterate: read once, untimed, then from result to result; a walk from every start -------------


def ours_iterates(text: str, zone: ZoneInfo, starts: list[datetime]) -> Walked:
    found, seconds = [], 0.0
    for at in starts:
        cron = parse.__wrapped__(text)  # a new one, which knows no days yet
        begun = process_time()
        walk = [at := next_after(cron, zone, at) for _ in range(STEPS)]
        seconds += process_time() - begun
        found += walk
    return found, seconds


def croniter_iterates(text: str, zone: tzinfo, starts: list[datetime]) -> Walked:
    found, seconds = [], 0.0
    for at in starts:
        walker = croniter(text, at.astimezone(zone), ret_type=datetime)
        begun = process_time()
        walk = [walker.get_next() for _ in range(STEPS)]
        seconds += process_time() - begun
        found += walk
    return found, seconds


def cronsim_iterates(text: str, zone: tzinfo, starts: list[datetime]) -> Walked:
    found, seconds = [], 0.0
    for at in starts:
        walker = CronSim(text, at.astimezone(zone))
        begun = process_time()
        walk = [next(walker) for _ in range(STEPS)]
        seconds += process_time() - begun
        found += walk
    return found, seconds


# --- stored: from an instant of UTC and a text to one moment, as a scheduler does it --------------


def ours_stored(text: str, zone: ZoneInfo, starts: list[datetime]) -> Walked:
    begun = process_time()
    found = [next_after(parse(text), zone, at) for at in starts]
    return found, process_time() - begun


def croniter_stored(text: str, zone: tzinfo, starts: list[datetime]) -> Walked:
    begun = process_time()
    found = [croniter(text, at.astimezone(zone), ret_type=datetime).get_next() for at in starts]
    return found, process_time() - begun


def cronsim_stored(text: str, zone: tzinfo, starts: list[datetime]) -> Walked:
    begun = process_time()
    found = [next(CronSim(text, at.astimezone(zone))) for at in starts]
    return found, process_time() - begun


WAYS: dict[str, tuple[Way, Way, Way]] = {
    "iterate": (ours_iterates, croniter_iterates, cronsim_iterates),
    "stored": (ours_stored, croniter_stored, cronsim_stored),
}
LIBRARIES = ("ours", "croniter", "cronsim")
NAMES = {"ours": "Cronjob"}


class Row(NamedTuple):
    use: str
    zone: str
    expression: str
    costs: tuple[list[float], ...]  # µs per moment, a round each, in the order of LIBRARIES
    others: tuple[int, ...]  # how many moments differ from ours

    def ratios(self) -> list[float]:
        """How many times as long the others take: the median of the rounds."""
        ours, *rest = self.costs
        return [median(b / a for a, b in zip(ours, other, strict=True)) for other in rest]

    def __str__(self) -> str:
        costs = [f"{median(c):.2f} ({min(c):.2f}–{max(c):.2f})" for c in self.costs]
        cells = [f"`{self.expression}`", *costs, *(f"{ratio:.3g}" for ratio in self.ratios())]
        return f"| {self.use} | {self.zone} | " + " | ".join(cells) + " |"


def measure(use: str, name: str, expression: str, walks: int) -> Row:
    """Every round asks all three, each time another one first."""
    count = walks * STEPS if use == "stored" else walks
    starts = [BEGIN + YEAR * i / count for i in range(count)]
    own, zone = ZONES[name]
    texts = (normalise(expression), expression, expression)
    calls = list(zip(WAYS[use], texts, (own, zone, zone), strict=True))
    # Warms up, and compares.
    found = [[at.timestamp() for at in way(text, z, starts)[0]] for way, text, z in calls]
    others = [sum(a != b for a, b in zip(found[0], other, strict=True)) for other in found[1:]]
    costs: tuple[list[float], ...] = ([], [], [])
    for turn in range(ROUNDS):
        gc.collect()
        gc.disable()
        for i in range(len(calls)):
            which = (turn + i) % len(calls)
            way, text, z = calls[which]
            moments, seconds = way(text, z, starts)
            costs[which].append(seconds / len(moments) * 1e6)
        gc.enable()
    return Row(use, name, expression, costs, tuple(others))


def report(rows: list[Row], walks: int) -> Iterator[str]:
    named = " and ".join(f"{name} {version(name)}" for name in LIBRARIES[1:])
    yield "# What the next moment costs\n"
    yield (
        f"The last output of `python bench/cron.py`, on {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, beside {named}.\n"
    )
    yield (
        f"µs of processor time per moment: the median of {ROUNDS} interleaved rounds of "
        f"{walks * STEPS} moments (the quickest–the slowest); ÷ is the median of their own ratios. "
        f"*iterate*: read once, then {walks} walks of {STEPS} moments, begun all through a year. "
        "*stored*: from an instant of UTC and a text to one moment; ours keeps what it has read, "
        "the others read anew. Moments in which they differ are told below, if there are any.\n"
    )
    yield "| use | zone | expression | ours | croniter | cronsim | croniter÷ours | cronsim÷ours |"
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    yield from map(str, rows)
    yield ""
    for i, name in enumerate(LIBRARIES[1:]):
        ratios = [(row.ratios()[i], row) for row in rows]
        least, row = min(ratios, key=lambda pair: pair[0])
        middle = median(ratio for ratio, _ in ratios)
        where = f"{row.use}, {row.zone}, `{row.expression}`"
        slower = sum(ratio < 1 for ratio, _ in ratios)
        yield (
            f"- {name} ÷ ours: worst {least:.3g} ({where}), median {middle:.3g}; "
            f"ours is the slower one in {slower} of {len(rows)} rows."
        )
        told = [f"`{r.expression}` ({r.use}, {r.zone}: {r.others[i]})" for r in rows if r.others[i]]
        if told:
            yield f"- {name} gives other moments than ours for " + ", ".join(told) + "."


def claim(quick: bool) -> Found:
    """In short: the whole table is that of `report`."""
    rows = [measure(*which, 6 if quick else 24) for which in product(WAYS, ZONES, EXPRESSIONS)]
    result = Found(
        title="The next moment of a cron expression",
        said=f"µs of processor time per moment of {len(EXPRESSIONS)} expressions in two zones, "
        f"walked from moment to moment and found from a stored text, medians of {ROUNDS} rounds "
        "that take turns; every row is in docs/bench-cron.md.",
        head=("library", "median, µs", "÷ ours: median", "least"),
        unit="µs per moment, median; from the quickest expression to the slowest",
    )
    for number, name in enumerate(LIBRARIES):
        costs = sorted(median(row.costs[number]) for row in rows)
        ratios = [row.ratios()[number - 1] for row in rows] if number else [1.0]
        told = (f"{median(costs):.2f}", f"{median(ratios):.3g}", f"{min(ratios):.3g}")
        result.rows.append((NAMES.get(name, name), *told))
        result.bars.append((NAMES.get(name, name), median(costs), costs[0], costs[-1]))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the markdown to this file as well")
    parser.add_argument("--quick", action="store_true", help="fewer moments a round")
    options = parser.parse_args()
    walks = 6 if options.quick else 24
    rows = [measure(*which, walks) for which in product(WAYS, ZONES, EXPRESSIONS)]
    text = "\n".join(report(rows, walks)) + "\n"
    sys.stdout.write(text)
    if options.out:
        options.out.write_text(text)
    return int(any(min(row.ratios()) < 1 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
