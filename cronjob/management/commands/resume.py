"""`manage.py resume`: what was paused fires again, from now on."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from cronjob.lib import clock
from runs import pauses


class Command(BaseCommand):
    help = "End pauses. What passed meanwhile is recorded once per task, and not made up for."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--tag", default=None, metavar="X", help="only the pause of this tag; else all"
        )

    def handle(self, *args: Any, tag: str | None, **options: Any) -> None:
        ended = pauses.resume(tag=tag, now=clock.now())
        self.stdout.write("It fires again." if ended else "There was no such pause.")
