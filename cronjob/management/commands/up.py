"""The one-command start: everything there is, on the embedded default, under one supervisor."""

import os
import secrets
import socket
import sys
from argparse import BooleanOptionalAction
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction

from cronjob import checks, demo
from cronjob.api.models import ApiKey
from cronjob.lib import clock, environ
from cronjob.lib.supervisor import Child, supervise

ANYWHERE = ("0.0.0.0", "::")


class Command(BaseCommand):
    help = "Make what is missing (key, database, administrator), then run the whole product."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--host", default="127.0.0.1", help="address to listen on (%(default)s)"
        )
        parser.add_argument(
            "--port", default=8000, type=int, help="port to listen on (%(default)s)"
        )
        parser.add_argument(
            "--demo", action=BooleanOptionalAction, default=None,
            help="three tasks that call this machine; the default on a new database",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.DEBUG:
            raise CommandError("CRONJOB_DEBUG=1 is for `manage.py runserver`. Unset it for `up`.")
        make_secret_key()
        if problem := checks.production():
            raise CommandError(problem)
        self.stderr.write(checks.warnings(), ending="")
        listener = listen(options["host"], options["port"])
        origin = url(options["host"], listener.getsockname()[1])
        fresh = prepare()
        make = fresh if options["demo"] is None else options["demo"]
        with_demo = make or (options["demo"] is None and demo.present())
        if with_demo:
            demo.install(origin, make=make, now=clock.now())
        told = first_access()
        connection.close()
        self.tell(origin, told, host=options["host"])
        children = [
            web_child(listener, origin, host=options["host"], with_demo=with_demo),
            scheduler_child(origin),
        ]
        code = supervise(children)
        listener.close()
        self.stdout.write("Everything has stopped.")
        sys.exit(code)

    def tell(self, origin: str, told: list[tuple[str, str]], *, host: str) -> None:
        lines = [("Console", f"{origin}/admin/"), ("API", f"{origin}/api/docs/"), *told]
        if told:
            lines.append(("", "Shown this once: keep them. Ctrl-C stops everything."))
        if host in ANYWHERE:
            lines.append(
                ("", "Other machines need their name for this one in CRONJOB_ALLOWED_HOSTS.")
            )
        for name, text in lines:
            self.stdout.write(f"{name:<14}{text}")
        self.stdout.flush()


def make_secret_key() -> None:
    """Left in the data directory for its owner alone; one that is there already is kept."""
    if settings.CRONJOB_SECRET_KEY or settings.CRONJOB_SECRET_KEY_FILE:
        return
    path = environ.directory(settings.CRONJOB_DATA_DIR) / "secret_key"
    if path.exists() and not path.read_text().strip():
        path.unlink()  # left empty by a full disk: a key was never in it
    if not path.exists():
        environ.write_privately(path, secrets.token_urlsafe(64))
    settings.SECRET_KEY = path.read_text().strip()


def listen(host: str, port: int) -> socket.socket:
    """Taken before anything is started, so that nobody else can take it in between."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        problem = getattr(error, "strerror", None) or str(error)
        remedy = "Free it, or choose another by --port (and --host)."
        raise CommandError(f"cannot listen on {host}:{port} ({problem}). {remedy}") from error
    listener.set_inheritable(True)
    return listener


def url(host: str, port: int) -> str:
    name = "127.0.0.1" if host in ANYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def prepare() -> bool:
    """Bring the database up to date; True if it is new."""
    fresh = "tasks" not in connection.introspection.table_names()
    call_command("migrate", interactive=False, verbosity=0, skip_checks=True)
    return fresh


@transaction.atomic
def first_access() -> list[tuple[str, str]]:
    """The first administrator and the first key, where there is none; what to tell of them."""
    told = []
    users = get_user_model().objects
    if not users.exists():
        password = secrets.token_urlsafe(12)
        users.create_superuser("admin", password=password)
        told += [("Administrator", "admin"), ("Password", password)]
    if not ApiKey.objects.exists():
        _, text = ApiKey.objects.issue(name="first key", now=clock.now(), scopes=["write"])
        told.append(("API key", text))
    return told


def scheduler_child(origin: str) -> Child:
    return Child(
        name="scheduler",
        command=[
            sys.executable,
            str(settings.ROOT / "manage.py"),
            "runscheduler",
            "--skip-checks",  # we have told what there is to tell
        ],
        environment={"CRONJOB_BASE_URL": settings.CRONJOB_BASE_URL or origin},
        directory=Path.cwd(),
    )


def web_child(listener: socket.socket, origin: str, *, host: str, with_demo: bool) -> Child:
    conf = str(settings.ROOT / "cronjob" / "gunicorn.conf.py")
    environment = {
        "CRONJOB_BASE_URL": settings.CRONJOB_BASE_URL or origin,
        "CRONJOB_BIND": f"fd://{listener.fileno()}",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(settings.ROOT), os.getenv("PYTHONPATH")))),
        "CRONJOB_DEMO": "1" if with_demo else "0",
    }
    if host not in ANYWHERE and host not in settings.ALLOWED_HOSTS:
        environment["CRONJOB_ALLOWED_HOSTS"] = ",".join([*settings.ALLOWED_HOSTS, host])
    return Child(
        name="web",
        command=[sys.executable, "-m", "gunicorn", "-c", conf],
        environment=environment,
        directory=Path.cwd(),  # where relative paths in the environment are meant from
        keeps=(listener.fileno(),),
    )
