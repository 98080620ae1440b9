"""`manage.py tasks …`: what can be done with tasks from a terminal."""

from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from cronjob.lib import clock
from runs import standing
from tasks import cron, exchange, intake, words
from tasks.management import exporting, importing
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
        self.add_exchange(verbs)

    def add_exchange(self, verbs: Any) -> None:
        formats = ", ".join(exchange.FORMATS)
        out = verbs.add_parser(
            "export",
            help="write all tasks as text",
            description="Write all tasks as text that changes only where a task does.",
        )
        out.add_argument(
            "--format", choices=exchange.FORMATS, default="yaml", metavar="F",
            help=f"one of {formats} (default: %(default)s)",
        )  # fmt: skip
        out.add_argument("--with-secrets", action="store_true", help="else they are masked")
        out.add_argument("--bundle", default="", metavar="NAME", help="only what this bundle owns")
        out.set_defaults(verb=self.export)
        into = verbs.add_parser(
            "import",
            help="make tasks what a file says",
            description=(
                "Make tasks what a file says, by their names: all of it or nothing. Doing it "
                "twice changes nothing; what was disabled stays disabled."
            ),
        )
        into.add_argument("file", metavar="FILE", help="- for standard input")
        into.add_argument(
            "--format", choices=exchange.FORMATS, metavar="F",
            help=f"one of {formats} (default: by the name of the file)",
        )  # fmt: skip
        into.add_argument("--dry-run", action="store_true", help="only say what it would do")
        into.add_argument(
            "--prune", action="store_true", help="delete what the bundle owns and no longer holds"
        )
        into.add_argument(
            "--bundle", default="", metavar="NAME",
            help="who owns the tasks (default: as the file says, else its name)",
        )  # fmt: skip
        into.add_argument(
            "--timezone", default=settings.CRONJOB_TIME_ZONE, metavar="ZONE",
            help="of a crontab that does not say (default: %(default)s)",
        )  # fmt: skip
        into.add_argument(
            "--url-template", default="", metavar="URL",
            help="for the lines of a crontab that call nothing by HTTP: a URL with {command}",
        )  # fmt: skip
        into.set_defaults(verb=self.import_)

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

    def export(self, *, format: str, with_secrets: bool, bundle: str, **options: Any) -> None:
        text, left_out = exporting.text(format, secrets=with_secrets, bundle=bundle)
        self.stdout.write(text, ending="")
        for line in left_out:
            self.stderr.write(line)

    def import_(
        self, *, file: str, format: str | None, dry_run: bool, prune: bool, **options: Any
    ) -> None:
        try:
            source = importing.read(file, form=format, **options_of(options))
            with transaction.atomic():  # nothing is printed in it: who reads may take their time
                now = clock.now()
                plan = importing.plan(source, prune=prune, now=now, hold=not dry_run)
                if not (plan.errors or dry_run):
                    importing.apply(plan, by=f"import of {source.name}", now=now)
        except (exchange.BadFile, standing.NameTaken) as error:
            raise CommandError(str(error)) from error
        for line in source.report:
            self.stdout.write(line)
        self.tell(plan)
        if plan.errors:
            raise CommandError(f"{len(plan.errors)} errors. Nothing was changed.")
        done = ("create", "change", "adopt", "prune")
        counts = ", ".join(f"{plan.count(verb)} {verb.removesuffix('e')}ed" for verb in done)
        told = f"{counts}, {plan.count('unchanged')} unchanged."
        self.stdout.write(f"Would be: {told}" if dry_run else told)

    def tell(self, plan: importing.Plan) -> None:
        for step in plan.steps:
            what = f": {', '.join(step.changed)}" if step.changed else ""
            passed = " (its time has passed: recorded as missed)" if step.passed else ""
            self.stdout.write(f"{step.action:9} {step.task.name}{what}{passed}")
            if step.action in ("create", "change") and intake.out_of_reach(step.task.exec_type):
                self.stdout.write("          Its callbacks need CRONJOB_BASE_URL, not set here.")
        for error in plan.errors:
            self.stderr.write(error)


def options_of(options: dict[str, Any]) -> dict[str, str]:
    return {name: options[name] for name in ("bundle", "timezone", "url_template")}
