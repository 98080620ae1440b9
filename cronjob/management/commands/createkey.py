"""Makes an API key and prints it, alone, on standard output."""

from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from cronjob.api.models import SCOPES, ApiKey
from cronjob.lib import clock, duration


class Command(BaseCommand):
    help = "Make an API key. It is printed once, alone; only its hash is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        scopes = "; ".join(f"{name}: {meaning}" for name, meaning in SCOPES.items())
        parser.add_argument("name", help="who or what uses the key")
        parser.add_argument(
            "--scope", action="append", choices=SCOPES, default=[], dest="scopes",
            help=f"may be given several times; without: read. {scopes}",
        )  # fmt: skip
        parser.add_argument(
            "--queue", action="append", default=[], dest="queues",
            help="bind a worker key to this queue; may be given several times",
        )  # fmt: skip
        parser.add_argument(
            "--node", action="append", default=[], dest="nodes",
            help="bind a node key to this node id; may be given several times",
        )  # fmt: skip
        parser.add_argument("--expires", metavar="90d", help="how long it lives: d, h, m, s")

    def handle(self, *args: Any, **options: Any) -> None:
        now = clock.now()
        fields = {name: options[name] for name in ("queues", "nodes")}
        fields["scopes"] = options["scopes"] or ["read"]
        fields["expires_at"] = end(options["expires"], now=now)
        try:
            _, text = ApiKey.objects.issue(name=options["name"], now=now, **fields)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        self.stdout.write(text)


def end(text: str | None, *, now: datetime) -> datetime | None:
    try:
        return now + timedelta(seconds=duration.parse(text)) if text is not None else None
    except duration.BadDuration as error:
        raise CommandError(f"--expires: {error}") from error
