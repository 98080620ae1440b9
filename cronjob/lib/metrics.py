"""Every metric and its help text: the web serves what the database knows, a process its own."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

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
HISTOGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cronjob_run_duration_seconds": (
        "From the start of the last attempt to the end.",
        ("task_id",),
    ),
    "cronjob_run_lateness_seconds": ("From the planned time to the first attempt.", ()),
    "cronjob_scheduler_scan_latency": ("Seconds that a look for what is due took.", ()),
    "cronjob_scheduler_claim_seconds": ("Seconds that taking a batch of runs took.", ()),
}
OWN_GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "cronjob_executor_slots": ("Calls that this process can make at the same time.", ()),
    "cronjob_executor_in_flight": ("Calls that it is making, or has yet to settle.", ()),
    "cronjob_scheduler_beat_age_seconds": ("Since the lease of this process was renewed.", ()),
}
TASKS_MOST = 1000  # tasks with a series of their own; the runs of all others are counted as one
OTHERS = "others"

CONTENT_TYPE = CONTENT_TYPE_LATEST

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

OWN = CollectorRegistry()
_counters = {name: Counter(name, *of, registry=OWN) for name, of in COUNTERS.items()}
_histograms = {
    name: Histogram(name, *of, registry=OWN, buckets=SECONDS) for name, of in HISTOGRAMS.items()
}
_gauges = {name: Gauge(name, *of, registry=OWN) for name, of in OWN_GAUGES.items()}
_tasks: set[int] = set()


@lru_cache(maxsize=4 * TASKS_MOST)  # to look a series up by its labels costs more than to count
def _counter(name: str, *values: object) -> Counter:
    return _counters[name].labels(*values) if values else _counters[name]


@lru_cache(maxsize=4 * TASKS_MOST)
def _histogram(name: str, *values: object) -> Histogram:
    return _histograms[name].labels(*values) if values else _histograms[name]


def count(name: str, *values: object, by: float = 1) -> None:
    _counter(name, *values).inc(by)


def observe(name: str, seconds: float, *values: object) -> None:
    _histogram(name, *values).observe(max(0.0, seconds))


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
    return generate_latest(OWN)
