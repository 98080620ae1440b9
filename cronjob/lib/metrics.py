"""Every metric and its help text; the web serves those that the database knows."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

# name -> (help, label names); the table of docs/operating.md
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "cronjob_task_total": ("Tasks that are not deleted.", ("status",)),
    "cronjob_run_open": ("Runs that have not ended.", ("status",)),
    "cronjob_callback_pending": ("Runs that wait for their callback.", ()),
    "cronjob_scheduler_processes": ("Schedulers whose lease holds.", ()),
}

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
