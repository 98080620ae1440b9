"""API keys: named, scoped, revocable, shown once and kept as a hash."""

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connection, models

from cronjob.lib import clock
from cronjob.lib.instances import columns, instances

SCOPES = {
    "read": "see everything",
    "operate": "trigger, cancel, replay, enable, disable and pause",
    "write": "create, change and delete tasks",
    "worker": "claim and finish jobs of the queue",
    "node": "connect as a node",
    "session": "connect as a session",
}
# What a scope brings along.
INCLUDES = {"operate": {"read"}, "worker": {"read"}, "write": {"operate", "read"}}
OPENED = "SELECT {}, {} FROM api_keys WHERE prefix = %s"
USED_EVERY = timedelta(minutes=1)  # how exact last_used_at is: not a write per request


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def issue(self, *, name: str, now: datetime, **fields: Any) -> "tuple[ApiKey, str]":
        """Make a key; the text returned beside it is never to be had again."""
        prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        text = f"cj_{prefix}_{secret}"
        key = self.model(name=name, prefix=prefix, hash=digest(text), created_at=now, **fields)
        key.full_clean()
        key.save(force_insert=True)
        return key, text

    def find(self, text: str) -> "tuple[ApiKey, datetime] | None":
        """The key that `text` opens, if it may still be used, and the time of asking."""
        parts = text.split("_", 2)
        if len(parts) != 3 or parts[0] != "cj" or len(parts[1]) != 8 or "\x00" in text:
            return None
        names = tuple(field.name for field in self.model._meta.concrete_fields)
        with connection.cursor() as cursor:  # each request passes here
            cursor.execute(OPENED.format(columns(self.model, names), clock.column()), [parts[1]])
            rows = cursor.fetchall()
        (key,) = instances(self.model, names, rows) or (None,)
        if not hmac.compare_digest(key.hash if key else "0" * 64, digest(text)) or not key:
            return None
        now = clock.read(rows[0][-1])
        return (key, now) if key.usable(now) else None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class ApiKey(models.Model):
    name = models.CharField(max_length=128, unique=True, help_text="Who or what uses it.")
    prefix = models.CharField(max_length=8, unique=True, editable=False)
    hash = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(default=list)
    queues = models.JSONField(default=list, blank=True)  # a worker's; empty: all
    nodes = models.JSONField(default=list, blank=True)  # a node's ids; empty: all
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, editable=False
    )
    created_at = models.DateTimeField(editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        db_table = "api_keys"
        verbose_name = "API key"

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if not self.scopes or not set(self.scopes) <= set(SCOPES):
            raise ValidationError({"scopes": f"One or more of {', '.join(SCOPES)}."})
        for field in ("queues", "nodes"):
            if not all(
                isinstance(name, str) and name.isprintable() for name in getattr(self, field)
            ):
                raise ValidationError({field: "Only visible characters."})

    def usable(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)

    def allows(self, scope: str) -> bool:
        return scope in self.scopes or any(scope in INCLUDES.get(s, ()) for s in self.scopes)

    def revoke(self, *, now: datetime) -> bool:
        """End it for good; False if it had been ended before."""
        live = ApiKey.objects.filter(pk=self.pk, revoked_at=None)
        return live.update(revoked_at=now) == 1

    def used(self, now: datetime) -> None:
        """Remember that it is in use, at most once a minute."""
        if self.last_used_at is None or now - self.last_used_at >= USED_EVERY:
            ApiKey.objects.filter(pk=self.pk).update(last_used_at=now)
