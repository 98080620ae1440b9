"""What a scheduler and a web process take with them when they start."""

from tests.processes import run

OWN = {"CRONJOB_SECRET_KEY": "k" * 50, "DJANGO_SETTINGS_MODULE": "cronjob.settings"}
ONCE = """
import gc, sys
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "runscheduler", "--once"])
print(sorted({"rest_framework.views", "unfold.admin", "cronjob.urls"} & {*sys.modules}))
print(gc.get_freeze_count() > 10_000)
"""

WEB = """
import sys
import cronjob.wsgi
from django.db import connection
print("runs.admin" in sys.modules, connection.connection)
"""
CHECKED = """
import sys
import django
django.setup()
from django.core.checks import run_checks
print("runs.admin" in sys.modules, run_checks(tags=["admin"]), "runs.admin" in sys.modules)
"""


def test_it_loads_neither_the_console_nor_the_api(tmp_path):
    run("manage.py", "migrate", data_dir=tmp_path, **OWN).check_returncode()
    done = run("-c", ONCE, data_dir=tmp_path, **OWN)
    assert done.stdout.split("\n")[:2] == ["[]", "True"], done.stderr


def test_it_says_what_is_wrong_with_its_settings_and_does_not_start(tmp_path):
    wrong = OWN | {"CRONJOB_DEFAULT_HEADERS": '{"Host": "a"}'}
    done = run("manage.py", "runscheduler", "--once", data_dir=tmp_path, **wrong)
    assert done.returncode == 1
    assert "A default header cannot be sent" in done.stderr


def test_the_web_has_read_everything_before_it_forks_and_shares_no_connection(tmp_path):
    done = run("-c", WEB, data_dir=tmp_path, **OWN)
    assert done.stdout == "True None\n", done.stderr


def test_a_check_of_the_console_looks_at_all_of_it(tmp_path):
    done = run("-c", CHECKED, data_dir=tmp_path, **OWN)
    assert done.stdout == "False [] True\n", done.stderr
