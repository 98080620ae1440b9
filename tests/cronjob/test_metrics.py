"""The figures: who may read them, and that they are those of the database."""

from ipaddress import ip_network

import pytest
from django.test import Client
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cronjob.lib import clock, metrics
from runs.models import Process
from runs.states import FINAL, TRANSITIONS, Status
from tasks.models import TaskStatus
from tests import marks
from tests.factories import MINUTE, NOON, make_run, make_task

pytestmark = marks.both

client = Client()  # one for all: each makes its own list of the static files
LOOPBACK = ip_network("127.0.0.1/32")
STRANGER = "203.0.113.9"


def ask(*, address="127.0.0.1", **headers):
    return client.get("/metrics", headers=headers, REMOTE_ADDR=address)


def refused(answer, status, code):
    return (answer.status_code, answer.json()["code"]) == (status, code)


def figures():
    """name -> labels -> number."""
    found = {}
    for family in text_string_to_metric_families(ask().text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.items())] = sample.value
    return found


def by_status(name):
    return {labels[0][1]: number for labels, number in figures()[name].items()}


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1"])
def test_this_machine_may_read_the_figures(address):
    answer = ask(address=address)
    assert (answer.status_code, answer["Content-Type"]) == (200, metrics.CONTENT_TYPE)
    assert answer["Content-Type"].startswith("text/plain; version=")
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.parametrize("address", ["10.0.0.9", STRANGER, "2001:db8::1", "", "unix:"])
def test_another_machine_may_not(address):
    assert refused(ask(address=address), 403, "FORBIDDEN")


@pytest.mark.parametrize(
    "headers",
    [
        {"x_forwarded_for": STRANGER},
        {"x_forwarded_for": "127.0.0.1"},
        {"x_forwarded_proto": "https"},
        {"forwarded": f"for={STRANGER}"},
    ],
)
def test_whoever_comes_through_a_proxy_we_were_not_told_of_may_not(headers):
    assert refused(ask(**headers), 403, "FORBIDDEN")


def test_whoever_comes_through_a_trusted_proxy_is_judged_by_their_own_address(settings):
    settings.CRONJOB_TRUSTED_PROXIES = [LOOPBACK]
    assert refused(ask(x_forwarded_for=STRANGER), 403, "FORBIDDEN")
    assert refused(ask(x_forwarded_for=f"127.0.0.1, {STRANGER}"), 403, "FORBIDDEN")
    assert ask(x_forwarded_for="::1").status_code == 200
    assert ask().status_code == 200


# They are not the proxy, though it is on this machine.
@pytest.mark.parametrize(
    "headers",
    [
        {"x_forwarded_for": f"{STRANGER}:4711"},
        {"x_forwarded_for": "unknown"},
        {"forwarded": f"for={STRANGER}"},
    ],
)
def test_whoever_a_trusted_proxy_does_not_name_plainly_may_not(settings, headers):
    settings.CRONJOB_TRUSTED_PROXIES = [LOOPBACK]
    assert refused(ask(**headers), 403, "FORBIDDEN")


@pytest.mark.parametrize("address", ["127.0.0.1", STRANGER])
def test_the_token_opens_the_figures_to_whoever_holds_it(settings, address):
    settings.CRONJOB_METRICS_TOKEN = "a-token"
    assert ask(address=address, authorization="Bearer a-token").status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", STRANGER])
@pytest.mark.parametrize(
    "given", ["", "Bearer ", "Bearer a-toke", "Bearer a-token2", "Bearer A-TOKEN", "Bearer tökén"]
)
def test_where_there_is_a_token_nobody_reads_the_figures_without_it(settings, address, given):
    settings.CRONJOB_METRICS_TOKEN = "a-token"
    answer = ask(address=address, **({"authorization": given} if given else {}))
    assert refused(answer, 401, "UNAUTHENTICATED")
    assert "CRONJOB_METRICS_TOKEN" in answer.json()["message"]


def test_figures_that_are_public_are_for_anybody(settings):
    settings.CRONJOB_METRICS_PUBLIC = True
    assert ask(address=STRANGER).status_code == 200
    assert ask(x_forwarded_for=STRANGER).status_code == 200


def test_the_figures_are_at_the_root_only():
    assert client.get("/api/v1/metrics").status_code == 404


def test_every_figure_comes_with_its_type_and_what_it_means():
    found = {family.name: family for family in text_string_to_metric_families(ask().text)}
    assert set(metrics.GAUGES) <= set(found)
    for name, (meaning, _) in metrics.GAUGES.items():
        assert (found[name].type, found[name].documentation) == ("gauge", meaning)


def test_on_an_empty_database_every_figure_is_there_and_zero():
    found = figures()
    assert set(by_status("cronjob_task_total")) == set(TaskStatus.values)
    assert set(by_status("cronjob_run_open")) == {status.value for status in TRANSITIONS}
    assert {number for samples in found.values() for number in samples.values()} == {0}


def test_tasks_are_counted_by_status_as_long_as_they_live():
    for _ in range(2):
        make_task(status="ENABLED")
    make_task(status="DISABLED")
    make_task(status="ENABLED", deleted=True)
    assert by_status("cronjob_task_total") == {"ENABLED": 2, "DISABLED": 1}


def test_runs_are_counted_by_status_as_long_as_they_have_not_ended():
    task = make_task()
    twice = (Status.CALLBACK_PENDING, Status.CALLBACK_PENDING)
    for status in (Status.RUNNING, Status.RETRYING, *twice, *FINAL):
        make_run(task=task, status=status)
    assert by_status("cronjob_run_open") == {
        "SCHEDULED": 0,
        "RUNNING": 1,
        "RETRYING": 1,
        "CALLBACK_PENDING": 2,
    }
    assert figures()["cronjob_callback_pending"] == {(): 2}


def test_schedulers_are_counted_as_long_as_their_lease_holds():
    for number, lease in enumerate((MINUTE, 2 * MINUTE, -MINUTE)):
        Process.objects.create(
            name=f"here:{number}:1",
            host="here",
            pid=number,
            started_at=NOON,
            last_seen=NOON,
            lease_until=clock.now() + lease,
        )
    assert figures()["cronjob_scheduler_processes"] == {(): 2}


def test_the_figures_take_one_query_each_and_one_for_the_time(django_assert_max_num_queries):
    make_run(task=make_task())
    with django_assert_max_num_queries(len(metrics.GAUGES) + 1):
        assert ask().status_code == 200


def test_what_a_process_did_is_written_as_the_library_writes_it():
    own, took = metrics.Own(), (0.0, 0.003, 0.005, 0.7, 3600.0)
    for seconds in took:
        own.observe(("cronjob_run_duration_seconds", "12"), seconds)
        own.observe(("cronjob_run_lateness_seconds",), seconds)
    registry = CollectorRegistry()
    for name, (meaning, labels) in metrics.HISTOGRAMS.items():
        kept = Histogram(name, meaning, labels, buckets=metrics.SECONDS, registry=registry)
        for whose, *values in own.observed:
            for seconds in took if whose == name else ():
                (kept.labels(*values) if values else kept).observe(seconds)
    assert read("".join(own.histograms())) == read(generate_latest(registry).decode())


def read(text):
    """All but when a series was made."""
    return [
        (family.name, family.type, family.documentation, samples)
        for family in text_string_to_metric_families(text)
        if (samples := sorted((s.name, sorted(s.labels.items()), s.value) for s in family.samples))
        if not family.name.endswith("_created")
    ]
