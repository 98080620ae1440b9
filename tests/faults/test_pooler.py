"""Behind PgBouncer, which gives each transaction another session."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.faults import oracle
from tests.faults.world import until
from tests.processes import free_port

pytestmark = pytest.mark.faults

CONFIGURED = """[databases]
* = host={host} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = options
logfile = {log}
"""


@contextmanager
def pooler(world):
    """The URL of the same database, through it."""
    server = urlsplit(world.url)
    host, port = parse_qs(server.query)["host"][0], free_port()
    owner = os.stat(host)  # who may reach its socket, and is not root
    # Not below the directories of a test, into which nobody else may look.
    directory = Path(tempfile.mkdtemp(prefix="cronjob-pooler-", dir="/tmp"))
    log = directory / "log"
    told = CONFIGURED.format(host=host, user=server.username, port=port, log=log)
    (directory / "ini").write_text(told)
    for place in (directory, directory / "ini"):
        os.chown(place, owner.st_uid, owner.st_gid)
    running = subprocess.Popen(
        ["pgbouncer", "-q", str(directory / "ini")],
        user=owner.st_uid, group=owner.st_gid, extra_groups=[],
    )  # fmt: skip
    url = f"postgresql://{server.username}@127.0.0.1:{port}{server.path}"
    try:
        until(lambda: answers(url), what=lambda: log.exists() and log.read_text())
        yield url
    finally:
        running.terminate()
        running.wait()
        shutil.rmtree(directory)


def answers(url):
    try:
        psycopg.connect(url, prepare_threshold=None).close()
    except psycopg.OperationalError:
        return False
    return True


def test_schedulers_behind_a_pooler_do_all_the_same_and_have_no_trouble(world):
    with pooler(world) as url:
        for _ in range(3):
            world.start(url=url, CRONJOB_LISTEN_URL="")
        until(lambda: len(world.registered()) == 3, what=world.said)
        world.plant(20, end_at=6)
        world.quiet()
        oracle.check(world)
        assert "trying again" not in world.said()
        for one in world.schedulers:
            assert one.end() == 0, one.output
