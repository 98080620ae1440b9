from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.db.models.signals import pre_migrate


class CronjobConfig(AppConfig):
    name = "cronjob"

    def ready(self) -> None:
        from cronjob import checks, figures  # noqa: F401  they register what they know
        from cronjob.lib.database import quick_times, unhurried

        connection_created.connect(quick_times, dispatch_uid="quick_times")
        pre_migrate.connect(unhurried, dispatch_uid="unhurried")
