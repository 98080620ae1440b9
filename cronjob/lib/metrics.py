"""Every metric and its help text: the web serves what the database knows, a process its own."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf
from threading import Lock
from typing import TypeVar

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.utils import floatToGoString

# name -> (help, label names); the tables of docs/operating.md
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "cronjob_task_total": ("Tasks that are not deleted.", ("status",)),
    "cronjob_run_open": ("Runs that have not ended.", ("status",)),
    "cronjob_callback_pending": ("Runs that wait for their callback.", ()),
    "cronjob_scheduler_processes": ("Schedulers whose lease holds.", ()),
    "cronjob_oldest_snapshot_seconds": (
        "Age of the oldest snapshot that keeps PostgreSQL from cleaning up.", (),
    ),
}  # fmt: skip
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cronjob_run_total": ("Runs that this process ended.", ("status",)),
    "cronjob_run_retries_total": ("Attempts that are to be followed by another.", ("task_id",)),
    "cronjob_run_lost_total": ("Attempts of which no answer came.", ()),
    "cronjob_late_answers_total": ("Answers to attempts that others had ended meanwhile.", ()),
    "cronjob_http_request_total": (
        "Calls by what was answered; a call without an answer has its error kind for a code.",
        ("method", "code"),
    ),
    "cronjob_misfire_total": ("Moments that were not run because they were missed.", ("task_id",)),
    "cronjob_scheduler_troubles_total": ("Rounds that failed and were begun anew.", ()),
}
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
BOUNDS = [*map(floatToGoString, (*SECONDS, inf))]
HISTOGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cronjob_run_duration_seconds": (
        "From the start of the last attempt to the end.",
        ("task_id",),
    ),
    "cronjob_run_lateness_seconds": ("From the planned time to the first attempt.", ()),
    "cronjob_executor_wait_seconds": (
        "For so long an attempt that was taken, and is due, waits for a slot.",
        (),
    ),
    "cronjob_scheduler_scan_latency": ("Seconds that a look for what is due took.", ()),
    "cronjob_scheduler_claim_seconds": (
        "Seconds that a claim took, of runs that did not begin as they were made.",
        (),
    ),
}
OWN_GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "cronjob_executor_slots": ("Calls that this process can make at the same time.", ()),
    "cronjob_executor_in_flight": ("Calls that it is making, or has yet to settle.", ()),
    "cronjob_scheduler_beat_age_seconds": ("Since the lease of this process was renewed.", ()),
}
TASKS_MOST = 1000  # tasks with a series of their own; the runs of all others are counted as one
OTHERS = "others"

CONTENT_TYPE = CONTENT_TYPE_LATEST

T = TypeVar("T")
Series = tuple[object, ...]
Told = tuple[list[str], T]
Sample = tuple[tuple[str, ...], float]
Source = Callable[[], Iterable[Sample]]
SOURCES: dict[str, Source] = {}


def source(name: str) -> Callable[[Source], Source]:
    """Registers the function that knows the samples of a gauge."""

    def register(function: Source) -> Source:
        SOURCES[name] = function
        return function

    return register


class Database:
    """Asks the sources at each scrape."""

    def collect(self) -> Iterator[Metric]:
        for name, (meaning, labels) in GAUGES.items():
            family = GaugeMetricFamily(name, meaning, labels=labels)
            for values, number in SOURCES[name]():
                family.add_metric(values, number)
            yield family


def text() -> bytes:
    registry = CollectorRegistry()
    registry.register(Database())
    return generate_latest(registry)


# --- what this process did --------------------------------------------------------------------


class Own:
    """Added up by ourselves: every run passes here, and a library's own counters cost more.

    A series is known by the name of its metric and the values of its labels.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.counted: dict[Series, float] = {}
        self.observed: dict[Series, list[float]] = {}  # how many in each bucket, and the sum of all

    def count(self, series: Series, by: float) -> None:
        with self.lock:
            self.counted[series] = self.counted.get(series, 0.0) + by

    def observe(self, series: Series, seconds: float) -> None:
        with self.lock:
            if (seen := self.observed.get(series)) is None:
                seen = self.observed[series] = [0.0] * (len(SECONDS) + 2)
            seen[bisect_left(SECONDS, seconds)] += 1
            seen[-1] += seconds

    def collect(self) -> Iterator[Metric]:
        with self.lock:
            counted = dict(self.counted)
        for name, (meaning, labels) in COUNTERS.items():
            family = CounterMetricFamily(name, meaning, labels=labels)
            for series, number in series_of(name, labels, counted, 0.0):
                family.add_metric(series, number)
            yield family

    def histograms(self) -> Iterator[str]:
        """Line by line: a thousand tasks have 17 each, and the library takes 0.2 s for them, in
        which we hardly call.
        """
        with self.lock:
            observed = {series: [*numbers] for series, numbers in self.observed.items()}
        for name, (meaning, labels) in HISTOGRAMS.items():
            yield f"# HELP {name} {meaning}\n# TYPE {name} histogram\n"
            for values, numbers in series_of(name, labels, observed, [0.0] * (len(SECONDS) + 2)):
                whose = "".join(f',{of}="{it}"' for of, it in zip(labels, values, strict=True))
                for bound, number in zip(BOUNDS, accumulate(numbers[:-1]), strict=True):
                    yield f'{name}_bucket{{le="{bound}"{whose}}} {number}\n'
                whose = f"{{{whose[1:]}}}" if whose else ""
                yield f"{name}_count{whose} {sum(numbers[:-1])}\n{name}_sum{whose} {numbers[-1]}\n"


def series_of(
    name: str, labels: Sequence[str], known: dict[Series, T], nothing: T
) -> Iterator[Told[T]]:
    """The series of a metric; one without labels is there from the beginning."""
    if not labels and (name,) not in known:
        yield [], nothing
    for (whose, *values), number in known.items():
        if whose == name:
            yield [*map(str, values)], number


OWN = CollectorRegistry()
_own = Own()
OWN.register(_own)
_gauges = {name: Gauge(name, *of, registry=OWN) for name, of in OWN_GAUGES.items()}
_tasks: set[int] = set()


def count(name: str, *values: object, by: float = 1) -> None:
    _own.count((name, *values), by)


def observe(name: str, seconds: float, *values: object) -> None:
    _own.observe((name, *values), max(0.0, seconds))


def task(pk: int) -> str:
    """The label of a task: a million of them are not a million series."""
    if pk not in _tasks:
        if len(_tasks) >= TASKS_MOST:
            return OTHERS
        _tasks.add(pk)
    return str(pk)


def watch(name: str, function: Callable[[], float]) -> None:
    """At each scrape the gauge is what the function says."""
    _gauges[name].set_function(function)


def own_text() -> bytes:
    return generate_latest(OWN) + "".join(_own.histograms()).encode()
