from typing import Any

from django.apps import AppConfig
from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core.checks import CheckMessage, Tags, register


class ConsoleConfig(AppConfig):
    name = "cronjob.console"


class AdminConfig(SimpleAdminConfig):
    """Made by the first URL that asks for it: a scheduler and most commands never do."""

    default_site = "unfold.sites.UnfoldAdminSite"

    def ready(self) -> None:
        register(check_dependencies, Tags.admin)
        register(check_console, Tags.admin)


def check_console(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Django's own check, of everything that is in it: else it may come before there is any."""
    admin.autodiscover()
    found: list[CheckMessage] = check_admin_app(app_configs, **kwargs)
    return found
