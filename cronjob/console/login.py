"""The login: after ten failures in a quarter of an hour, an account and address must wait."""

from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError

from cronjob.console import base
from cronjob.console.models import LoginFailure
from cronjob.lib import clock

FAILURES_MAX = 10
WINDOW = timedelta(minutes=15)


class LoginForm(base.AuthenticationForm):
    def clean(self) -> dict[str, Any]:
        now = clock.now()
        LoginFailure.objects.filter(at__lte=now - WINDOW).delete()
        account = self.cleaned_data.get("username", "").lower()[:150]
        address = self.request.META.get("REMOTE_ADDR", "")[:45] if self.request else ""
        tries = LoginFailure.objects.filter(account=account, address=address)
        # Counted before it is judged, so that a thousand tries at once are not a thousand guesses.
        LoginFailure.objects.create(account=account, address=address, at=now)
        if tries.count() > FAILURES_MAX:
            minutes = int(WINDOW.total_seconds() // 60)
            problem = f"Too many failed logins. Wait {minutes} minutes, then try again."
            raise ValidationError(problem, code="wait")
        cleaned: dict[str, Any] = super().clean()
        tries.delete()
        return cleaned
