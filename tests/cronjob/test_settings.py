"""What the settings are, as `config` lists them, and how the product stops over a bad one."""

import re

import pytest

from tests.processes import run

KEY = {"CRONJOB_SECRET_KEY": "k" * 50}
DOWN = {"DATABASE_URL": "postgresql://cron:hunter2@127.0.0.1:1/x"}

# Every setting that is promised, with its default; "" is none.
SETTINGS = {
    "DATABASE_URL": "",
    "CRONJOB_DATA_DIR": "./var",
    "CRONJOB_SECRET_KEY": "",
    "CRONJOB_SECRET_KEY_FILE": "",
    "CRONJOB_DEBUG": "0",
    "CRONJOB_ALLOWED_HOSTS": "localhost,127.0.0.1,[::1]",
    "CRONJOB_CSRF_TRUSTED_ORIGINS": "",
    "CRONJOB_TRUSTED_PROXIES": "",
    "CRONJOB_HTTPS": "0",
    "CRONJOB_BASE_URL": "",
    "CRONJOB_BIND": "127.0.0.1:8000",
    "CRONJOB_TIME_ZONE": "UTC",
    "CRONJOB_POLL_SECONDS": "1",
    "CRONJOB_SLOTS": "16",
    "CRONJOB_BATCH_MAX": "200",
    "CRONJOB_BACKLOG_MAX": "1000",
    "CRONJOB_BEAT_SECONDS": "5",
    "CRONJOB_LEASE_SECONDS": "20",
    "CRONJOB_DRAIN_SECONDS": "25",
    "CRONJOB_LISTEN_URL": "the database's",
    "CRONJOB_CONNECT_TIMEOUT_SECONDS": "5",
    "CRONJOB_REQUEST_TIMEOUT_SECONDS": "15",
    "CRONJOB_DEFAULT_MAX_RETRIES": "0",
    "CRONJOB_DEFAULT_HEADERS": "{}",
    "CRONJOB_RESPONSE_BYTES_MAX": "16777216",
    "CRONJOB_RETRY_AFTER_MAX_SECONDS": "3600",
    "CRONJOB_TARGETS_ALLOW": "",
    "CRONJOB_TARGETS_DENY": "",
    "CRONJOB_KEEP_DAYS": "30",
    "CRONJOB_KEEP_FAILED_DAYS": "90",
    "CRONJOB_QUEUE_CAPACITY": "100",
    "CRONJOB_CLAIM_SECONDS": "60",
    "CRONJOB_PULL_LEASE_SECONDS": "900",
    "CRONJOB_REDIS_URL": "",
    "CRONJOB_REDIS_CLUSTER_URLS": "",
    "CRONJOB_REDIS_PREFIX": "cronjob",
    "CRONJOB_GATEWAY_OWNER_TTL_SECONDS": "15",
    "CRONJOB_GATEWAY_STREAM_COUNT": "50",
    "CRONJOB_GATEWAY_STREAM_BLOCK_MS": "2000",
    "CRONJOB_GATEWAY_INBOX_MAX": "10000",
    "CRONJOB_GATEWAY_DLQ_MAX": "10000",
    "CRONJOB_GATEWAY_DLQ_DELIVERIES_MAX": "5",
    "CRONJOB_GATEWAY_DLQ_MIN_IDLE_MS": "60000",
    "CRONJOB_GATEWAY_SNAPSHOT_REFRESH_MS": "1000",
    "CRONJOB_GATEWAY_NODE_STALE_SECONDS": "60",
    "CRONJOB_METRICS_TOKEN": "",
    "CRONJOB_METRICS_PUBLIC": "0",
    "CRONJOB_LOG_LEVEL": "info",
    "CRONJOB_LOG_FORMAT": "",
}
LISTED = re.compile(r"([A-Z_]+) +(.*?)(?: \(default (.*)\))?\n +(\S.*)")


def manage(*command, data_dir, **variables):
    return run("manage.py", *command, data_dir=data_dir, **variables)


def listed(output):
    """The name, value and default of each setting in what `config` printed."""
    blocks = re.findall(r"^[A-Z].*\n .*$", output, re.MULTILINE)
    found = [LISTED.fullmatch(block).groups() for block in blocks]
    assert len(blocks) * 2 == len(output.splitlines()), output
    none = {"–": "", None: None}
    plain = [(name, none.get(v, v), none.get(d, d)) for name, v, d, _ in found]
    return {name: (value, value if d is None else d) for name, value, d in plain}


def one_line(answer):
    """The error, if that is all that was said: one line, with no traceback."""
    assert answer.returncode not in (0, None)
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def test_every_setting_is_listed_with_its_default(tmp_path):
    answer = manage("config", data_dir=tmp_path)
    found = listed(answer.stdout)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert {name: default for name, (_, default) in found.items() if name in SETTINGS} == SETTINGS
    assert found["CRONJOB_SLOTS"] == ("16", "16")
    assert found["CRONJOB_DATA_DIR"] == (str(tmp_path), "./var")
    assert found["DATABASE_URL"] == (f"sqlite:///{tmp_path}/cronjob.sqlite3", "")


def test_what_is_set_is_listed_with_its_secrets_masked(tmp_path):
    secrets = {
        "DATABASE_URL": "postgresql://cron:hunter2@db:5432/x?sslmode=require",
        "CRONJOB_LISTEN_URL": "postgresql://cron:hunter2@direct:5432/x",
        "CRONJOB_SECRET_KEY": "hunter2" * 10,
        "CRONJOB_METRICS_TOKEN": "hunter2",
        "CRONJOB_DEFAULT_HEADERS": '{"Authorization": "hunter2"}',
        "CRONJOB_REDIS_URL": "redis://:hunter2@redis:6379/0",
    }
    answer = manage("config", data_dir=tmp_path, CRONJOB_SLOTS="3", CRONJOB_SLOT="3", **secrets)
    found = listed(answer.stdout)
    assert found["CRONJOB_SLOTS"] == ("3", "16")
    assert found["DATABASE_URL"][0] == "postgresql://cron:********@db:5432/x"
    assert found["CRONJOB_LISTEN_URL"][0] == "postgresql://cron:********@direct:5432/x"
    assert found["CRONJOB_REDIS_URL"][0] == "redis://:********@redis:6379/0"
    for name in ("CRONJOB_SECRET_KEY", "CRONJOB_METRICS_TOKEN", "CRONJOB_DEFAULT_HEADERS"):
        assert found[name][0] == "********"
    assert "hunter2" not in answer.stdout + answer.stderr
    assert "CRONJOB_SLOT is set, but there is no such setting." in answer.stderr


@pytest.mark.parametrize(
    ("variables", "remedy"),
    [
        ({"CRONJOB_SLOTS": "many"}, "leave it out for the default '16'."),
        ({"CRONJOB_TIME_ZONE": "Mars"}, "such as Europe/Berlin. Correct it, or leave it out"),
        ({"DATABASE_URL": "mysql://x"}, "must be postgresql://user:password@host/name or sqlite"),
        ({"CRONJOB_TRUSTED_PROXIES": "10.0.0.0/33"}, "must be CIDRs such as 10.0.0.0/8"),
        ({"CRONJOB_DEFAULT_HEADERS": "[1]"}, 'such as {"X-Team":"billing"}. Correct it'),
        ({"CRONJOB_BASE_URL": "nonsense"}, "must be an origin such as https://"),
    ],
)
def test_a_bad_value_stops_the_start_with_its_name_and_the_remedy(tmp_path, variables, remedy):
    ((name, value),) = variables.items()
    line = one_line(manage("config", data_dir=tmp_path, **variables))
    shown = "********" if name in ("DATABASE_URL", "CRONJOB_DEFAULT_HEADERS") else repr(value)
    assert line.startswith(f"error: {name}={shown}: ")
    assert remedy in line


@pytest.mark.parametrize("variables", [KEY, {}], ids=["with a key", "without a key"])
def test_a_data_directory_that_cannot_be_made_stops_the_start(tmp_path, variables):
    file = tmp_path / "file"
    file.write_text("in the way")
    line = one_line(manage("config", data_dir=file / "var", **variables))
    assert line.startswith(f"error: CRONJOB_DATA_DIR={file}/var: cannot be used (Not a directory)")
    assert line.endswith("Name a directory that this user may write to.")


def test_without_a_secret_key_the_check_fails_and_an_unknown_setting_is_a_warning(tmp_path):
    answer = manage("check", data_dir=tmp_path, CRONJOB_SLOT="3")
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr
    assert "There is no secret key." in answer.stderr
    assert "HINT: Run `manage.py up`, or set CRONJOB_SECRET_KEY" in answer.stderr
    assert "There is no setting CRONJOB_SLOT." in answer.stderr
    assert "HINT: Did you mean CRONJOB_SLOTS?" in answer.stderr


def test_debugging_needs_no_secret_key(tmp_path):
    answer = manage("check", data_dir=tmp_path, CRONJOB_DEBUG="1")
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("command", [("migrate",), ("createkey", "x")])
def test_a_database_that_is_down_is_one_line_with_the_remedy(tmp_path, command):
    line = one_line(manage(*command, data_dir=tmp_path, **DOWN, **KEY))
    assert "the database postgresql://cron:********@127.0.0.1:1/x does not answer" in line
    assert "Start it, or correct DATABASE_URL" in line
    assert "hunter2" not in line
