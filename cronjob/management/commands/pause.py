"""`manage.py pause`: nothing fires, or nothing of a tag, until it is resumed."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cronjob.lib import clock, duration
from runs import pauses


class Command(BaseCommand):
    help = "Stop all firing, or that of a tag. What somebody triggers still runs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", default="", metavar="R", help="why, for those who wonder")
        parser.add_argument(
            "--until", type=moment, metavar="T",
            help="end by itself: a time such as 2030-01-01T12:00:00Z, or in 30m",
        )  # fmt: skip
        parser.add_argument("--tag", default="", metavar="X", help="only tasks that carry this tag")

    def handle(self, *args: Any, reason: str, until: Any, tag: str, **options: Any) -> None:
        now = clock.now()
        if isinstance(until, timedelta):
            until = now + until
        if until is not None and until <= now:
            raise CommandError("--until must be in the future.")
        pauses.pause(tag=tag, reason=reason[:256], until=until, now=now)
        what = f"what is tagged {tag}" if tag else "everything"
        rest = f"until {clock.text(until)}" if until else "until `manage.py resume`"
        self.stdout.write(f"Paused {what} {rest}.")


def moment(text: str) -> datetime | timedelta:
    try:
        return timedelta(seconds=duration.parse(text))
    except duration.BadDuration:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is neither a time nor a duration") from None
    if found.tzinfo is None:
        raise ArgumentTypeError(f"{text!r} must end in Z or an offset such as +02:00")
    return found.astimezone(UTC)
