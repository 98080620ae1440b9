"""The embedded database under two processes that read, then write, as fast as they can."""

import subprocess
import sys

from tests.processes import ROOT, environment, run

TRANSACTIONS = 600

WRITER = """
import sys
import django
django.setup()
from django.db import OperationalError, transaction
from cronjob.lib import clock
from runs.models import TaskRun
from tasks.models import Task

locked = 0
task = Task.objects.get()
for number in range(int(sys.argv[1])):
    try:
        with transaction.atomic():  # read, update twice, insert: what a claim does
            first = TaskRun.objects.order_by("-id").first()
            TaskRun.objects.filter(pk=first.pk).update(lost=1)
            TaskRun.objects.filter(pk=first.pk).update(lost=2)
            now = clock.now()
            TaskRun.objects.create(
                task=task, trigger="MANUAL", scheduled_time=now, due_at=now,
                created_at=now, updated_at=now,
            )
    except OperationalError as error:
        locked += "locked" in str(error)
print(locked)
"""

SEED = """
import django
django.setup()
from tests.factories import make_run
make_run(trigger="MANUAL")
"""


OWN = {
    "CRONJOB_SECRET_KEY": "k" * 50,
    "DJANGO_SETTINGS_MODULE": "cronjob.settings",
    "PYTHONPATH": str(ROOT),
}
COUNT = (
    "import django; django.setup()\nfrom runs.models import TaskRun; print(TaskRun.objects.count())"
)


def prepare(directory):
    run("manage.py", "migrate", data_dir=directory, **OWN).check_returncode()
    run("-c", SEED, data_dir=directory, **OWN).check_returncode()


def write_at_once(directory, *, writers=2, transactions=TRANSACTIONS):
    """How often each of the writers found the database locked."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(transactions)],
            env=environment(directory, **OWN),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(writers)
    ]
    return [process.communicate(timeout=120)[0].strip() for process in processes]


def test_two_writers_at_full_speed_never_find_the_database_locked(tmp_path):
    prepare(tmp_path)
    assert write_at_once(tmp_path) == ["0", "0"]
    count = run("-c", COUNT, data_dir=tmp_path, **OWN)
    assert count.stdout.strip() == str(2 * TRANSACTIONS + 1)
