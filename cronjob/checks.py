"""System checks: what is wrong with the settings, and what to do about it."""

import difflib
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.http.request import split_domain_port, validate_host

from tasks.rules import check_headers

OURS = "cronjob"  # what a scheduler needs to be right, and all that it looks at
KEY_LENGTH = 50


@register(OURS)
def secret_key(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    try:
        if settings.SECRET_KEY:
            return []
    except ImproperlyConfigured:  # which is how Django says that it is empty
        pass
    hint = "Run `manage.py up`, or set CRONJOB_SECRET_KEY to 50 random characters."
    return [Error("There is no secret key.", hint=hint, id="cronjob.E001")]


@register(OURS)
def short_key(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    key = "" if secret_key(None) else settings.SECRET_KEY
    if settings.DEBUG or not 0 < len(key) < KEY_LENGTH:
        return []
    hint = f"Set CRONJOB_SECRET_KEY to at least {KEY_LENGTH} random characters."
    return [Error("The secret key could be guessed.", hint=hint, id="cronjob.E005")]


@register(OURS)
def default_headers(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    try:
        check_headers(settings.CRONJOB_DEFAULT_HEADERS)
    except ValueError as error:
        hint = "Correct CRONJOB_DEFAULT_HEADERS."
        return [Error(f"A default header cannot be sent: {error}", hint=hint, id="cronjob.E004")]
    return []


@register(Tags.security, deploy=True)
def https_without_proxy(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    if not settings.CRONJOB_HTTPS or settings.CRONJOB_TRUSTED_PROXIES:
        return []
    hint = "Name the proxy that ends https in CRONJOB_TRUSTED_PROXIES."
    text = "Every request would be redirected to https for ever."
    return [Warning(text, hint=hint, id="cronjob.W002")]


@register(OURS)
def unknown_settings(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for name in settings.ENV.unknown("CRONJOB_"):
        close = difflib.get_close_matches(name, settings.ENV.options, n=1)
        hint = f"Did you mean {close[0]}?" if close else "`manage.py config` lists them all."
        found.append(Warning(f"There is no setting {name}.", hint=hint, id="cronjob.W001"))
    return found


@register(OURS)
def base_url(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    if not settings.CRONJOB_BASE_URL:
        return []
    url = urlsplit(settings.CRONJOB_BASE_URL)
    hosts = settings.ALLOWED_HOSTS or ["localhost", ".localhost", "127.0.0.1", "[::1]"]
    host, _ = split_domain_port(url.netloc.lower())
    if not validate_host(host, hosts):
        hint = f"Add {host} to CRONJOB_ALLOWED_HOSTS, or correct CRONJOB_BASE_URL."
        return [Warning("Callbacks would be refused for their host.", hint=hint, id="cronjob.W003")]
    if settings.CRONJOB_HTTPS and url.scheme != "https":
        hint = "Let CRONJOB_BASE_URL begin with https://."
        return [Warning("Callbacks would be redirected and lost.", hint=hint, id="cronjob.W004")]
    return []


def warnings() -> str:
    """What a person should know at the start, a line each."""
    found = [*unknown_settings(None), *https_without_proxy(None), *base_url(None)]
    return "".join(f"warning: {message.msg} {message.hint}\n" for message in found)


@register(OURS)
def leases(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    if settings.CRONJOB_LEASE_SECONDS >= 3 * settings.CRONJOB_BEAT_SECONDS:
        return []
    hint = "Make CRONJOB_LEASE_SECONDS at least three times CRONJOB_BEAT_SECONDS."
    return [Error("One late beat would end a lease.", hint=hint, id="cronjob.E002")]


@register(OURS)
def one_redis(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    if not (settings.CRONJOB_REDIS_URL and settings.CRONJOB_REDIS_CLUSTER_URLS):
        return []
    hint = "Keep one of CRONJOB_REDIS_URL and CRONJOB_REDIS_CLUSTER_URLS."
    return [Error("Two ways to Redis are set.", hint=hint, id="cronjob.E003")]


@register(Tags.security, deploy=True)
def open_hosts(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    if "*" not in settings.ALLOWED_HOSTS:
        return []
    hint = "Name the hosts in CRONJOB_ALLOWED_HOSTS."
    return [Error("Any host name is answered.", hint=hint, id="cronjob.E010")]


def production() -> str:
    """Why the web must not be served like this, in one line; empty if it may."""
    if settings.DEBUG:
        return "CRONJOB_DEBUG=1 is for `manage.py runserver`. Unset it to serve the web."
    problems = [
        *secret_key(None),
        *short_key(None),
        *default_headers(None),
        *open_hosts(None),
        *leases(None),
        *one_redis(None),
    ]
    return " ".join(f"{problem.msg} {problem.hint}" for problem in problems)
