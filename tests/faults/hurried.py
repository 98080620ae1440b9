"""`manage.py runscheduler`, less patient, with a clock that a test can step: run with -m."""

import os
import random
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

HASTE = {  # what waits some seconds in production, so that a short test sees it happen
    "runs.glance": {"FORGET_SECONDS": 1.0},
    "runs.scheduler": {"TIDY_SECONDS": 0.5, "LOOK_SECONDS": 0.3},
    "runs.settle": {"LOST_PAUSE": timedelta(seconds=0.5)},
    "runs.claim": {"GRACE": timedelta(seconds=1)},
    "runs.executor": {"HUNG_SECONDS": 0.5},
    "runs.rescue": {"FORGOTTEN": timedelta(seconds=1)},
    "cronjob.lib.wakeup": {"AGAIN_SECONDS": 0.5},
}
STEP = "FAULTS_CLOCK"  # names a file that holds by how many seconds the clock is wrong
ONCE = "FAULTS_ONCE"  # each failpoint is over once it was passed
SKEW = "FAULTS_SKEW"  # by how many seconds the clock of this host is wrong
SEED = "FAULTS_SEED"  # of what is left to chance


class Once(dict[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return self.pop(name)


def hurry() -> None:
    from django.utils.module_loading import import_module

    for name, values in HASTE.items():
        module = import_module(name)
        for constant, value in values.items():
            assert hasattr(module, constant), f"{name}.{constant} is gone"
            setattr(module, constant, value)


def step_clock(file: Path) -> None:
    from cronjob.lib import clock

    right = clock.read

    def read(told: datetime | None) -> datetime:
        return right(told) + timedelta(seconds=float(file.read_text()))

    clock.read = read


def skew_clock(seconds: float) -> None:
    """What the host says; a database may have a clock of its own."""
    import time

    from cronjob.lib import clock

    right, off = time.time, timedelta(seconds=seconds)

    class Skewed(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + off

    clock.datetime = Skewed
    time.time = lambda: right() + seconds


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "cronjob.settings"
    import django
    from django.core.management import execute_from_command_line

    from cronjob.lib import failpoints

    django.setup()
    hurry()
    if os.environ.get(ONCE):
        failpoints.ARMED = Once(failpoints.ARMED)
    random.seed(os.environ.get(SEED))
    if name := os.environ.get(STEP):
        step_clock(Path(name))
    if seconds := os.environ.get(SKEW):
        skew_clock(float(seconds))
    execute_from_command_line(["manage.py", "runscheduler"])


if __name__ == "__main__":
    main()
