"""The database goes away and comes back while calls are under way."""

import signal

import pytest

from tests.faults import oracle
from tests.faults.link import Link
from tests.faults.world import LEASE, NEVER, World, migrate, until
from tests.servers import Postgres

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL of our own, to be stopped and started."""
    made = Postgres()
    yield made
    made.stop()


@pytest.fixture
def fragile_world(server, tmp_path, django_db_blocker, request):
    name = f"f_{abs(hash(request.node.name))}"
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = server.url.replace("/postgres?", f"/{name}?")
    migrate(url, tmp_path)
    with World(tmp_path, url, unblock=django_db_blocker.unblock) as made:
        yield made


def test_answers_that_come_while_the_database_is_away_are_recorded_later(server, fragile_world):
    world = fragile_world
    world.started(2)
    world.plant(8, path="/hold", run_at=0.5, timeout_seconds=60)
    world.target.wait_for(8)
    world.plant(4, end_at=9)
    server.halt()
    world.target.release()
    NEVER.wait(2 * LEASE)
    server.resume()
    until(lambda: len(world.runs("status = 'SUCCESS'")) >= 8, what=world.said)
    world.quiet()
    called = [r for r in world.target.requests if r.path == "/hold"]
    assert len(called) == 8, "a live run was rescued"
    assert {run["lost"] for run in world.runs()} == {0}
    oracle.check(world)


def test_calls_that_outlast_an_outage_of_the_database_are_not_given_up(server, fragile_world):
    world = fragile_world
    beats = {"CRONJOB_BEAT_SECONDS": "1.4", "CRONJOB_LEASE_SECONDS": "4.5"}
    world.started(3, **beats)  # slower to renew than to look again
    world.plant(12, path="/hold", run_at=0.5, timeout_seconds=60)
    world.target.wait_for(12)
    server.halt()
    NEVER.wait(5)
    server.resume()
    NEVER.wait(4)
    world.target.release()
    world.quiet()
    assert len(world.target.requests) == 12, "a live run was rescued"
    assert {(run["status"], run["lost"]) for run in world.runs()} == {("SUCCESS", 0)}
    oracle.check(world)


def test_a_scheduler_asked_to_stop_while_the_database_is_away_records_what_it_did(
    server, fragile_world
):
    world = fragile_world
    (stopping,) = world.started(1)
    world.plant(2, path="/hold", run_at=0.5, timeout_seconds=60)
    world.target.wait_for(2)
    server.halt()
    world.target.release()
    stopping.process.send_signal(signal.SIGTERM)
    NEVER.wait(LEASE / 2)
    server.resume()
    assert stopping.wait() == 0, stopping.output
    world.started(1)
    world.quiet()
    assert {(run["status"], run["attempt"]) for run in world.runs()} == {("SUCCESS", 1)}
    assert len(world.target.requests) == 2
    oracle.check(world)


def test_a_scheduler_cut_off_from_the_database_is_replaced_and_then_comes_back(world):
    with Link(world.url) as link:
        apart = world.start(url=link.url)
        until(lambda: apart.process.pid in world.registered(), what=world.said)
        (task,) = world.plant(path="/hold", run_at=0.5, timeout_seconds=60)
        world.target.wait_for(1)
        link.open.clear()
        world.started(1)
        world.plant(5, end_at=5)
        until(lambda: [r.path for r in world.target.requests].count("/hold") == 2)
        world.target.release()
        held = f"task_id = {task.pk}"
        until(lambda: world.runs(held)[0]["status"] == "SUCCESS", what=world.said)
        link.open.set()
        until(lambda: apart.process.pid in world.registered(), what=world.said)
        world.quiet()
        (run,) = world.runs(held)
        assert (run["attempt"], run["lost"]) == (2, 1)
        oracle.check(world)
        assert apart.end() == 0, apart.output
