"""gunicorn -c cronjob/gunicorn.conf.py cronjob.wsgi"""

import gc
import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cronjob.settings")
try:
    django.setup()
    from django.conf import settings

    from cronjob import checks

    problem = checks.production()
except ImproperlyConfigured as error:
    problem = str(error)
if problem:
    sys.exit(f"error: {problem}")
if not settings.CRONJOB_BIND.startswith("fd://"):  # else `up` has said it
    sys.stderr.write(checks.warnings())

wsgi_app = "cronjob.wsgi"
preload_app = True  # read once, shared by all workers: they start at once, and take less memory
bind = settings.CRONJOB_BIND
worker_class = "gthread"
workers = settings.CRONJOB_WEB_PROCESSES
threads = settings.CRONJOB_WEB_THREADS
timeout = 30
graceful_timeout = 4
keepalive = 5
limit_request_line = 8190  # lists are asked for with many ids and orders; gunicorn allows no more
max_requests = 20000
max_requests_jitter = 2000
loglevel = "warning"  # the access line is the request's own, with its ids: cronjob.middleware
logconfig_dict = {"loggers": {"gunicorn.error": {"level": "WARNING", "propagate": True}}}
control_socket_disable = True
forwarded_allow_ips = ""  # CRONJOB_TRUSTED_PROXIES decides: cronjob.middleware
if os.path.isdir("/dev/shm"):
    worker_tmp_dir = "/dev/shm"


def when_ready(server: object) -> None:
    """What all workers share is not to be looked through, nor written to, by each of them."""
    gc.collect()
    gc.freeze()
