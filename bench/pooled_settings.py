"""The product's settings with a pool of connections for all threads, instead of one for each."""

from cronjob.settings import *  # noqa: F403
from cronjob.settings import DATABASES

DATABASES["default"] |= {"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False}
DATABASES["default"]["OPTIONS"] |= {"pool": {"min_size": 2, "max_size": 4}}
