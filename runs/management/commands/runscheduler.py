"""`manage.py runscheduler`: flags and wiring; the work is in runs/scheduler.py."""

import gc
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from cronjob import checks
from cronjob.lib import http, prepared, scrape
from cronjob.lib.loop import Loop
from cronjob.lib.supervisor import Child, supervise
from cronjob.lib.wakeup import Listener
from runs.executor import Executor
from runs.lease import Lease
from runs.scheduler import Scheduler

GARBAGE = 20_000  # more objects made than gone, until it is looked for what nobody needs


class Command(BaseCommand):
    requires_system_checks = (checks.OURS,)  # neither pages nor an API: it starts twice as fast
    help = "Make due tasks into runs and call them. Any number may run at once, on any host."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--slots", type=int, default=settings.CRONJOB_SLOTS, metavar="N",
            help="calls at the same time, in each process (default: %(default)s)",
        )  # fmt: skip
        parser.add_argument(
            "--processes", type=int, default=1, metavar="N",
            help="processes, for more than one core (default: %(default)s)",
        )  # fmt: skip
        parser.add_argument(
            "--once", action="store_true",
            help="call everything that is due now, wait for the answers, and end",
        )  # fmt: skip
        parser.add_argument(
            "--metrics-port", type=int, metavar="N",
            help="serve this process's own figures at /metrics of that port; "
            "each further process at the next one",
        )  # fmt: skip

    def handle(
        self, *args: Any, slots: int, processes: int, once: bool, metrics_port: int | None,
        **options: Any,
    ) -> None:  # fmt: skip
        if not 1 <= slots <= 1000:
            raise CommandError("--slots must be from 1 to 1000.")
        if not 1 <= processes <= 64:
            raise CommandError("--processes must be from 1 to 64.")
        if metrics_port is not None and not 1 <= metrics_port <= 65536 - processes:
            raise CommandError(f"--metrics-port must be from 1 to {65536 - processes}.")
        if processes > 1:
            connection.close()
            flags = [f"--slots={slots}", *(["--once"] if once else [])]
            sys.exit(supervise([child(n, flags, metrics_port) for n in range(processes)]))
        if metrics_port is not None:
            listen(metrics_port)
        schedule(slots=slots, once=once)


def listen(port: int) -> None:
    try:
        scrape.start(port)
    except OSError as error:
        raise CommandError(f"--metrics-port {port}: {error.strerror}.") from None


def child(number: int, flags: list[str], metrics_port: int | None) -> Child:
    if metrics_port is not None:
        flags = [*flags, f"--metrics-port={metrics_port + number}"]
    command = [sys.executable, str(settings.ROOT / "manage.py"), "runscheduler", *flags]
    return Child(name=f"scheduler {number + 1}", command=command, directory=Path.cwd())


def schedule(*, slots: int, once: bool) -> None:
    prepared.enable()
    gc.collect()
    gc.freeze()  # what is there by now stays: nobody need look through it again and again,
    gc.set_threshold(GARBAGE, 20, 100)  # nor so often through what comes and goes by itself
    with Loop() as loop:
        lease = Lease(slots=slots, wake=loop.wake)
        client = http.Client(
            allow=settings.CRONJOB_TARGETS_ALLOW, deny=settings.CRONJOB_TARGETS_DENY, pool=slots
        )
        executor = Executor(slots=slots, client=client, wake=loop.wake)
        scheduler = Scheduler(loop=loop, lease=lease, executor=executor)
        listener = Listener(scheduler.hint)
        lease.start()
        listener.start()
        scheduler.run(once=once)
        listener.stopping.set()
        client.close()
