#!/usr/bin/env python
"""Django's command line, which says in one line what is wrong with the machine it runs on."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cronjob.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    from cronjob.lib.database import trouble

    try:
        execute_from_command_line(sys.argv)
    except (ImproperlyConfigured, DatabaseError) as error:
        said = trouble(error) if isinstance(error, DatabaseError) else str(error)
        if not said or "--traceback" in sys.argv:
            raise
        sys.exit(f"error: {said}")


if __name__ == "__main__":
    main()
