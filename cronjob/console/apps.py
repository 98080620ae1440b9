from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class ConsoleConfig(AppConfig):
    name = "cronjob.console"


class AdminConfig(SimpleAdminConfig):
    """Made by the first URL that asks for it: a scheduler and most commands never do."""

    default_site = "unfold.sites.UnfoldAdminSite"
