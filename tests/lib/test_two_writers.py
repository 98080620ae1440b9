"""The embedded database under two processes that read, then write, as fast as they can."""

import subprocess
import sys

from tests.processes import ROOT, environment, run

TRANSACTIONS = 2000

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


def test_two_writers_with_thousands_of_transactions_never_find_the_database_locked(tmp_path):
    variables = {
        "CRONJOB_SECRET_KEY": "k" * 50,
        "DJANGO_SETTINGS_MODULE": "cronjob.settings",
        "PYTHONPATH": str(ROOT),
    }
    assert run("manage.py", "migrate", data_dir=tmp_path, **variables).returncode == 0
    seeded = run("-c", SEED, data_dir=tmp_path, **variables)
    assert seeded.returncode == 0, seeded.stderr
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(TRANSACTIONS)],
            env=environment(tmp_path, **variables),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [writer.communicate(timeout=120)[0].strip() for writer in writers]
    assert said == ["0", "0"]
    count = run(
        "-c",
        "import django; django.setup()\n"
        "from runs.models import TaskRun; print(TaskRun.objects.count())",
        data_dir=tmp_path,
        **variables,
    )
    assert count.stdout.strip() == str(2 * TRANSACTIONS + 1)
