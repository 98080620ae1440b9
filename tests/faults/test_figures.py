"""What a scheduler tells of itself at a port of its own."""

import socket
from contextlib import closing
from datetime import timedelta

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from cronjob.lib.metrics import COUNTERS, HISTOGRAMS, OWN_GAUGES
from tests.faults.world import AHEAD, OPEN, until
from tests.processes import free_port

pytestmark = pytest.mark.faults


@pytest.fixture
def port():
    return free_port(2)


def scheduler(world, port, *flags, **variables):
    command = ("runscheduler", f"--metrics-port={port}", *flags)
    one = world.process("manage", *command, **variables)
    until(lambda: answers(port), what=lambda: one.output)
    return one


def answers(port):
    try:
        return requests.get(f"http://127.0.0.1:{port}/", timeout=5).status_code
    except requests.ConnectionError:
        return None


def ask(port, **headers):
    return requests.get(f"http://127.0.0.1:{port}/metrics", headers=headers, timeout=5)


def figures(port):
    families = text_string_to_metric_families(ask(port).text)
    return {
        (s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples
    }


def test_it_tells_what_it_did_under_the_names_of_the_table(world, port):
    scheduler(world, port, "--slots=7")
    good, bad, missed = (
        *world.plant(run_at=0.5),
        *world.plant(
            run_at=0.5, path="/status/503", retry_policy={"max_retries": 1, "initial_delay": 0}
        ),
        *world.plant(run_at=-600, misfire_policy="SKIP", misfire_grace_seconds=1),
    )
    until(lambda: not world.number(AHEAD) and not world.number(OPEN))
    wanted = {
        ("cronjob_run_total", "SUCCESS"): 1,
        ("cronjob_run_total", "FAILED"): 1,
        ("cronjob_run_retries_total", str(bad.pk)): 1,
        ("cronjob_http_request_total", "200", "GET"): 1,
        ("cronjob_http_request_total", "503", "GET"): 2,
        ("cronjob_run_duration_seconds_count", str(good.pk)): 1,
        ("cronjob_run_lateness_seconds_count",): 2,
        ("cronjob_executor_wait_seconds_count",): 3,
        ("cronjob_executor_slots",): 7,
        ("cronjob_executor_in_flight",): 0,
    }
    # What is written is counted just afterwards.
    until(lambda: wanted.items() <= figures(port).items(), what=lambda: figures(port))
    seen = figures(port)
    assert seen["cronjob_scheduler_scan_latency_count",] > 0
    assert 0 <= seen["cronjob_scheduler_beat_age_seconds",] < 60
    assert missed.pk


def test_it_tells_moments_that_were_missed(world, port):
    (task,) = world.plant(misfire_policy="SKIP", misfire_grace_seconds=1, start_at=-90)
    with world.inside():
        task.next_moment = task.next_run_at = task.next_moment - timedelta(seconds=60)
        task.save()
    scheduler(world, port)
    until(lambda: figures(port).get(("cronjob_misfire_total", str(task.pk)), 0) >= 60)


def test_every_figure_comes_with_its_type_and_what_it_means(world, port):
    scheduler(world, port)
    families = {f.name: f for f in text_string_to_metric_families(ask(port).text)}
    for name, (meaning, _) in COUNTERS.items():
        found = families[name.removesuffix("_total")]
        assert (found.type, found.documentation) == ("counter", meaning)
    for kind, of in (("histogram", HISTOGRAMS), ("gauge", OWN_GAUGES)):
        for name, (meaning, _) in of.items():
            assert (families[name].type, families[name].documentation) == (kind, meaning)


def test_where_there_is_a_token_it_tells_nobody_without_it(world, port):
    scheduler(world, port, CRONJOB_METRICS_TOKEN="a-token")
    for given in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer tökén".encode()},
    ):
        assert ask(port, **given).status_code == 401
    assert ask(port, Authorization="Bearer a-token").status_code == 200


def test_each_process_has_the_next_port(world, port):
    scheduler(world, port, "--processes=2")
    until(lambda: answers(port + 1))
    assert ask(port + 1).status_code == 200


def test_a_port_that_is_taken_is_said_and_nothing_starts(world, port):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        one = world.process("manage", "runscheduler", f"--metrics-port={port}")
        assert one.wait() == 1
    assert f"--metrics-port {port}: Address already in use." in one.output
