"""`manage.py tasks …`: what can be done with tasks from a terminal."""

from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from cronjob.lib import clock
from tasks import cron, words
from tasks.preview import MOMENTS_MAX, upcoming
from tasks.rules import validate_zone
from tasks.schedule import Schedule


class Command(BaseCommand):
    help = "Work with tasks from a terminal."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
        preview = verbs.add_parser(
            "preview",
            help="show when a cron expression would run",
            description="Show the next moments of a cron expression; odd days are noted.",
        )
        preview.add_argument("expression", metavar="EXPR", help='such as "*/5 9-17 * * MON-FRI"')
        preview.add_argument(
            "--timezone",
            metavar="ZONE",
            default=settings.CRONJOB_TIME_ZONE,
            help="such as Europe/Berlin (default: %(default)s)",
        )
        preview.add_argument(
            "--count", type=int, metavar="N", default=10, help="how many (default: %(default)s)"
        )
        preview.set_defaults(verb=self.preview)

    def handle(self, *args: Any, verb: Any, **options: Any) -> None:
        verb(**options)

    def preview(self, *, expression: str, timezone: str, count: int, **options: Any) -> None:
        if not 1 <= count <= MOMENTS_MAX:
            raise CommandError(f"--count must be from 1 to {MOMENTS_MAX}.")
        try:
            validate_zone(timezone)
            normal = cron.normalise(expression)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        except cron.BadCron as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{words.describe(normal)} ({timezone})")
        schedule = Schedule(zone=ZoneInfo(timezone), cron=cron.parse(normal))
        for moment in upcoming(schedule, clock.now(), count):
            line = f"{moment.local:%a %Y-%m-%d %H:%M:%S %z}  {moment.at:%Y-%m-%dT%H:%M:%SZ}"
            self.stdout.write(f"{line}  {moment.note}" if moment.note else line)
