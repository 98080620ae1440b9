"""Somebody who works with the product while schedulers do: run with -m, and a span in seconds."""

import os
import random
import sys
import time
from contextlib import suppress


def work(seconds: float) -> int:
    from cronjob.lib import clock
    from runs import standing, trigger
    from runs.models import TaskRun
    from tasks.models import Task

    done, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        task, now = random.choice(Task.objects.all()), clock.now()
        match random.randrange(5):
            case 0:
                standing.disable(task, reason="", now=now)
            case 1 | 2:
                standing.enable(task, now=now)
            case 3:
                trigger.trigger(task.pk, now=now)
            case 4:
                if run := TaskRun.objects.order_by("-id").first():
                    cancel(run)
        done += 1
    for task in Task.objects.all():
        standing.enable(task, now=clock.now())
    return done


def cancel(run) -> None:
    from cronjob.lib import clock
    from runs import trigger

    with suppress(trigger.NotPossible):  # it was over before
        trigger.cancel(run, reason="a whim", now=clock.now())


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "cronjob.settings"
    import django

    django.setup()
    sys.stdout.write(f"{work(float(sys.argv[1]))} things done\n")
