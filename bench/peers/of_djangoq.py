"""django-q2 with PostgreSQL for its queue, its schedules and its results: two processes."""

import os
from urllib.parse import parse_qs, urlsplit

import django
from calling import VERB, jobs
from django.conf import settings

where = urlsplit(os.environ["PG_URL"])
settings.configure(
    SECRET_KEY="only for a measurement",
    USE_TZ=True,
    INSTALLED_APPS=["django.contrib.contenttypes", "django_q"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": where.path.strip("/"),
            "USER": where.username,
            "HOST": where.hostname or parse_qs(where.query)["host"][0],
            "CONN_MAX_AGE": None,
        }
    },
    Q_CLUSTER={
        "orm": "default",
        "workers": 2,
        "bulk": 100,
        "poll": 0.2,
        "timeout": 60,
        "retry": 90,
    },
    LOGGING={"version": 1, "loggers": {"django-q": {"level": "ERROR"}}},
)
django.setup()

if __name__ == "__main__":
    from django.core.management import call_command
    from django_q.models import Schedule

    if VERB == "plant":
        call_command("migrate", verbosity=0)
        once = {"func": "calling.call", "schedule_type": Schedule.ONCE}
        Schedule.objects.bulk_create(
            Schedule(args=repr((url,)), next_run=at, **once) for at, url in jobs()
        )
    else:
        call_command("qcluster")
