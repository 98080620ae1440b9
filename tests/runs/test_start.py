"""What a scheduler takes with it when it starts."""

from tests.processes import run

OWN = {"CRONJOB_SECRET_KEY": "k" * 50, "DJANGO_SETTINGS_MODULE": "cronjob.settings"}
ONCE = """
import gc, sys
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "runscheduler", "--once"])
print(sorted({"rest_framework.views", "unfold.admin", "cronjob.urls"} & {*sys.modules}))
print(gc.get_freeze_count() > 10_000)
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
