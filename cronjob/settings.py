"""All settings, read from the environment: `manage.py config` lists what is in force."""

import os
import sys
from pathlib import Path

from cronjob.lib import database, environ, log

ROOT = Path(__file__).resolve().parent.parent
ENV = environ.Environ(os.environ)

# --- where things are -------------------------------------------------------------------------
CRONJOB_DATA_DIR = ENV.read(
    "CRONJOB_DATA_DIR", "./var", Path, "directory of the embedded database and the secret key"
)
DATABASE_URL = ENV.read(
    "DATABASE_URL", "", database.parser(CRONJOB_DATA_DIR),
    "postgresql://…; empty: SQLite in the data directory", secret=True,
)  # fmt: skip

# --- who may come in --------------------------------------------------------------------------
CRONJOB_SECRET_KEY = ENV.text(
    "CRONJOB_SECRET_KEY", "", "signs sessions; at least 50 characters", secret=True
)
CRONJOB_SECRET_KEY_FILE = ENV.text(
    "CRONJOB_SECRET_KEY_FILE", "", "file that holds the key; empty: the one `up` made"
)
DEBUG = ENV.flag("CRONJOB_DEBUG", "0", "error pages with details; never in production")
ALLOWED_HOSTS = ENV.names(
    "CRONJOB_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]", "host names the web answers to"
)
CSRF_TRUSTED_ORIGINS = ENV.read(
    "CRONJOB_CSRF_TRUSTED_ORIGINS",
    "",
    environ.origins,
    "further origins whose forms are accepted",
)
CRONJOB_TRUSTED_PROXIES = ENV.networks(
    "CRONJOB_TRUSTED_PROXIES", "", "CIDRs whose X-Forwarded-* headers count"
)
CRONJOB_HTTPS = ENV.flag(
    "CRONJOB_HTTPS", "0", "served over https: secure cookies, redirect from http, HSTS"
)
CRONJOB_BASE_URL = ENV.read(
    "CRONJOB_BASE_URL", "", environ.origin, "origin that callback URLs start with"
)
CRONJOB_BIND = ENV.text("CRONJOB_BIND", "127.0.0.1:8000", "address gunicorn listens on")
CRONJOB_WEB_PROCESSES = ENV.integer(
    "CRONJOB_WEB_PROCESSES", "2", "web processes of gunicorn", least=1
)
CRONJOB_WEB_THREADS = ENV.integer("CRONJOB_WEB_THREADS", "4", "threads of each of them", least=1)
CRONJOB_DEMO = ENV.flag("CRONJOB_DEMO", "0", "route /demo/echo; set by `up --demo`")

# --- when and how -----------------------------------------------------------------------------
CRONJOB_TIME_ZONE = ENV.read("CRONJOB_TIME_ZONE", "UTC", environ.zone, "time zone of new tasks")
CRONJOB_POLL_SECONDS = ENV.number(
    "CRONJOB_POLL_SECONDS", "1", "longest sleep of a scheduler", least=0.01
)
CRONJOB_SLOTS = ENV.integer("CRONJOB_SLOTS", "16", "calls in flight per scheduler", least=1)
CRONJOB_BATCH_MAX = ENV.integer("CRONJOB_BATCH_MAX", "200", "rows written in one go", least=1)
CRONJOB_BACKLOG_MAX = ENV.integer(
    "CRONJOB_BACKLOG_MAX", "1000", "waiting runs per task before moments are SKIPPED", least=1
)
CRONJOB_BEAT_SECONDS = ENV.number(
    "CRONJOB_BEAT_SECONDS", "5", "time between a process's heartbeats", least=0.1
)
CRONJOB_LEASE_SECONDS = ENV.number(
    "CRONJOB_LEASE_SECONDS", "20", "silence after which a process counts as dead", least=0.5
)
CRONJOB_DRAIN_SECONDS = ENV.number(
    "CRONJOB_DRAIN_SECONDS", "25", "time for calls in flight when a scheduler stops"
)
CRONJOB_LISTEN_URL = ENV.read(
    "CRONJOB_LISTEN_URL", "the database's",
    lambda text: DATABASE_URL if text == "the database's" else text,
    "PostgreSQL that wakes the schedulers by NOTIFY; empty: poll only", secret=True,
)  # fmt: skip
CRONJOB_CONNECT_TIMEOUT_SECONDS = ENV.number(
    "CRONJOB_CONNECT_TIMEOUT_SECONDS", "5", "connect deadline of new tasks", least=0.1, most=86400
)
CRONJOB_REQUEST_TIMEOUT_SECONDS = ENV.number(
    "CRONJOB_REQUEST_TIMEOUT_SECONDS", "15", "total deadline of new tasks", least=0.1, most=86400
)
CRONJOB_DEFAULT_MAX_RETRIES = ENV.integer(
    "CRONJOB_DEFAULT_MAX_RETRIES", "0", "retries of new tasks", most=100
)
CRONJOB_DEFAULT_HEADERS = ENV.strings(
    "CRONJOB_DEFAULT_HEADERS", "{}", "JSON object of headers under every task's own"
)
CRONJOB_RESPONSE_BYTES_MAX = ENV.integer(
    "CRONJOB_RESPONSE_BYTES_MAX", "16777216", "bytes of an answer that are read and kept"
)
CRONJOB_RETRY_AFTER_MAX_SECONDS = ENV.integer(
    "CRONJOB_RETRY_AFTER_MAX_SECONDS", "3600", "longest Retry-After that is honoured"
)
CRONJOB_TARGETS_ALLOW = ENV.read(
    "CRONJOB_TARGETS_ALLOW", "", environ.targets, "CIDRs and host globs that may be called"
)
CRONJOB_TARGETS_DENY = ENV.read(
    "CRONJOB_TARGETS_DENY", "", environ.targets, "CIDRs and host globs that may not be called"
)
CRONJOB_KEEP_DAYS = ENV.integer("CRONJOB_KEEP_DAYS", "30", "days that runs are kept; 0: for ever")
CRONJOB_KEEP_FAILED_DAYS = ENV.integer(
    "CRONJOB_KEEP_FAILED_DAYS", "90", "days that runs that failed are kept; 0: for ever"
)

# --- the pull queue and the gateway -----------------------------------------------------------
CRONJOB_QUEUE_CAPACITY = ENV.integer(
    "CRONJOB_QUEUE_CAPACITY", "100", "cost units leased at the same time", least=1
)
CRONJOB_CLAIM_SECONDS = ENV.integer(
    "CRONJOB_CLAIM_SECONDS", "60", "time to turn a claim into a lease", least=1
)
CRONJOB_PULL_LEASE_SECONDS = ENV.integer(
    "CRONJOB_PULL_LEASE_SECONDS", "900", "lease of a pulled job", least=1
)
CRONJOB_REDIS_URL = ENV.read(
    "CRONJOB_REDIS_URL", "", environ.redis, "Redis of the gateway", secret=True
)
CRONJOB_REDIS_CLUSTER_URLS = ENV.read(
    "CRONJOB_REDIS_CLUSTER_URLS",
    "",
    environ.redis,
    "seeds of a Redis Cluster, by commas",
    secret=True,
)
CRONJOB_REDIS_PREFIX = ENV.text("CRONJOB_REDIS_PREFIX", "cronjob", "first part of every Redis key")
CRONJOB_GATEWAY_OWNER_TTL_SECONDS = ENV.integer(
    "CRONJOB_GATEWAY_OWNER_TTL_SECONDS", "15", "how long a silent gateway owns a socket", least=1
)
CRONJOB_GATEWAY_STREAM_COUNT = ENV.integer(
    "CRONJOB_GATEWAY_STREAM_COUNT", "50", "messages read from a stream at once", least=1
)
CRONJOB_GATEWAY_STREAM_BLOCK_MS = ENV.integer(
    "CRONJOB_GATEWAY_STREAM_BLOCK_MS", "2000", "how long a read of a stream waits", least=1
)
CRONJOB_GATEWAY_INBOX_MAX = ENV.integer(
    "CRONJOB_GATEWAY_INBOX_MAX", "10000", "messages in an inbox before it refuses", least=1
)
CRONJOB_GATEWAY_DLQ_MAX = ENV.integer(
    "CRONJOB_GATEWAY_DLQ_MAX", "10000", "messages kept among the dead letters", least=1
)
CRONJOB_GATEWAY_DLQ_DELIVERIES_MAX = ENV.integer(
    "CRONJOB_GATEWAY_DLQ_DELIVERIES_MAX", "5", "deliveries before a message is dead", least=1
)
CRONJOB_GATEWAY_DLQ_MIN_IDLE_MS = ENV.integer(
    "CRONJOB_GATEWAY_DLQ_MIN_IDLE_MS", "60000", "silence before a message is given up", least=1
)
CRONJOB_GATEWAY_SNAPSHOT_REFRESH_MS = ENV.integer(
    "CRONJOB_GATEWAY_SNAPSHOT_REFRESH_MS", "1000", "age of the view of all nodes", least=1
)
CRONJOB_GATEWAY_NODE_STALE_SECONDS = ENV.integer(
    "CRONJOB_GATEWAY_NODE_STALE_SECONDS", "60", "silence after which a node is forgotten", least=1
)

# --- to be seen -------------------------------------------------------------------------------
CRONJOB_METRICS_TOKEN = ENV.text(
    "CRONJOB_METRICS_TOKEN", "", "bearer token of /metrics; empty: loopback only", secret=True
)
CRONJOB_METRICS_PUBLIC = ENV.flag(
    "CRONJOB_METRICS_PUBLIC", "0", "/metrics answers anybody, without a token"
)
CRONJOB_LOG_LEVEL = ENV.choice(
    "CRONJOB_LOG_LEVEL", "info", "least level logged",
    among=("debug", "info", "warning", "error"),
)  # fmt: skip
CRONJOB_LOG_FORMAT = ENV.choice(
    "CRONJOB_LOG_FORMAT", "", "json or text; json, but text on a terminal",
    among=("json", "text", ""),
)  # fmt: skip

# --- Django -----------------------------------------------------------------------------------
SECRET_KEY = environ.secret_key(
    CRONJOB_SECRET_KEY, CRONJOB_SECRET_KEY_FILE, CRONJOB_DATA_DIR, debug=DEBUG
)
DATABASES = {"default": database.configured(DATABASE_URL, data_dir=CRONJOB_DATA_DIR)}
LOGGING = log.config(
    level=CRONJOB_LOG_LEVEL,
    as_json=CRONJOB_LOG_FORMAT == "json" or not (CRONJOB_LOG_FORMAT or sys.stderr.isatty()),
)

INSTALLED_APPS = [
    "cronjob.apps.CronjobConfig",
    "cronjob.api.apps.ApiConfig",
    "cronjob.console.apps.ConsoleConfig",
    "tasks.apps.TasksConfig",
    "runs.apps.RunsConfig",
    "callbacks.apps.CallbacksConfig",
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "cronjob.console.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.forms",  # the templates of widgets, beside ours
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]
MIDDLEWARE = [
    "cronjob.middleware.whole_bodies",
    "cronjob.middleware.request_ids",
    "cronjob.middleware.proxies",
    "cronjob.middleware.slashes",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "cronjob.urls"
WSGI_APPLICATION = "cronjob.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
    )
]
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"
FORMAT_MODULE_PATH = ["cronjob.console.formats"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
USE_TZ = True
TIME_ZONE = "UTC"
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"
CSRF_FAILURE_VIEW = "cronjob.api.errors.csrf_failure"
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 2**20  # forms of the console; the API has its own cap

# Straight from the packages: nothing to collect before the first page.
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_MAX_AGE = 3600

SESSION_COOKIE_NAME = "cronjob_session"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = CRONJOB_HTTPS
SECURE_HSTS_SECONDS = 31536000 if CRONJOB_HTTPS else 0
SECURE_REDIRECT_EXEMPT = [r"^(api/v1/)?(healthz|readyz)$", r"^health$", r"^metrics$"]
X_FRAME_OPTIONS = "DENY"
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # whether the parent domain is all https is not ours to decide
    "security.W021",  # nor whether it goes onto the browsers' preload list
]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "cronjob.api.keys.KeyAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["cronjob.api.keys.HasScope"],
    "DEFAULT_PARSER_CLASSES": ["cronjob.api.parsing.BodyParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "cronjob.api.negotiation.Negotiation",
    "DEFAULT_PAGINATION_CLASS": "cronjob.api.paging.Pages",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "cronjob.api.schema.Schema",
    "EXCEPTION_HANDLER": "cronjob.api.errors.answer",
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Cronjob",
    "DESCRIPTION": "Calls your services on time, and can always explain what happened.",
    "VERSION": "v1",
    "OAS_VERSION": "3.1.1",
    "COMPONENT_SPLIT_REQUEST": True,
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["cronjob.api.keys.HasScope"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": ["cronjob.api.schema.with_probes"],
}
UNFOLD = {
    "SITE_TITLE": "Cronjob",
    "SITE_HEADER": "Cronjob",
    "SITE_SUBHEADER": "on time, exactly once",
    "SITE_SYMBOL": "schedule",
    "SITE_URL": None,
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": "cronjob.console.navigation.icon"}
    ],
    "LOGIN": {"form": "cronjob.console.login.LoginForm"},
    "DASHBOARD_CALLBACK": "cronjob.console.dashboard.context",
    "SIDEBAR": {"show_search": True, "navigation": "cronjob.console.navigation.items"},
    "STYLES": ["cronjob.console.navigation.stylesheet"],
}
