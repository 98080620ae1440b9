"""Exporting and importing as from a terminal."""

import io

from django.core.management import CommandError, call_command

from runs.models import TaskRun
from tasks.changes import Change
from tasks.models import Task


def export(*args):
    out, err = io.StringIO(), io.StringIO()
    call_command("tasks", "export", *args, stdout=out, stderr=err)
    return out.getvalue() if not err.getvalue() else (out.getvalue(), err.getvalue())


def load(*args):
    """What an import said, and what it found wrong."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("tasks", "import", *map(str, args), stdout=out, stderr=err)
    except CommandError as error:
        return out.getvalue(), f"{err.getvalue()}{error}"
    return out.getvalue(), err.getvalue()


def emptied():
    TaskRun.objects.all().delete()
    Change.objects.all().delete()
    Task.objects.all().delete()
