"""What an asynchronous call carries along: where, and by which token, its end is reported."""

import hashlib
import secrets
from collections.abc import Sequence

from django.conf import settings

from callbacks.models import CallbackToken
from runs.models import TaskRun


def issue(runs: Sequence[TaskRun]) -> dict[int, tuple[str, str]]:
    """A URL and a new token for the attempt of each run; only the token's hash is kept."""
    tokens = {run.pk: secrets.token_hex(16) for run in runs}
    CallbackToken.objects.bulk_create(
        CallbackToken(token_hash=hashed(tokens[run.pk]), task_run=run, attempt=run.attempt)
        for run in runs
    )
    return {pk: (url(token), token) for pk, token in tokens.items()}


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def url(token: str) -> str:
    base = settings.CRONJOB_BASE_URL.rstrip("/")
    return f"{base}/api/v1/callbacks/{token}" if base else ""
