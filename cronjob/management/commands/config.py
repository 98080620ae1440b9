"""Lists every setting: value, default, meaning."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Every setting: its value (secrets masked), its default and what it means."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        found = settings.ENV.options.values()
        width = max(len(option.name) for option in found)
        for option in found:
            usual = option.shown == option.default
            default = "" if usual else f" (default {option.default or '–'})"
            self.stdout.write(f"{option.name:<{width}}  {option.shown or '–'}{default}")
            self.stdout.write(f"{'':<{width}}  {option.meaning}")
        for name in settings.ENV.unknown("CRONJOB_"):
            self.stderr.write(self.style.WARNING(f"{name} is set, but there is no such setting."))
