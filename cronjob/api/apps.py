from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "cronjob.api"
    verbose_name = "Access"
