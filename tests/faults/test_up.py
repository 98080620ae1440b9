"""The one-command start, as a new user meets it, and as a machine ends it."""

import os
import signal
import socket
import threading
from pathlib import Path

import pytest
import requests

from tests.processes import ROOT, answering, free_port, origin, run, running, up

pytestmark = pytest.mark.faults
TASKS = "/api/v1/tasks"


def key(process):
    return process.until(r"API key +(cj_\S+)\n")[1]


def get(process, path, text):
    headers = {"Authorization": f"Bearer {text}"}
    return requests.get(origin(process) + path, headers=headers, timeout=30)


def test_the_first_start_prints_what_one_needs_and_it_works(tmp_path):
    with up(tmp_path / "var") as process:
        password = process.until(r"Password +(\S+)\n")[1]
        answer = get(process, TASKS, key(process))
        assert (answer.status_code, answer.json()["count"]) == (200, 3)
        with requests.Session() as browser:
            page = browser.get(f"{origin(process)}/admin/", timeout=30)
            assert "/admin/login/" in page.url
            form = {"username": "admin", "password": password, "next": "/admin/"}
            form["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
            page = browser.post(page.url, form, timeout=30)
            assert page.status_code == 200
            assert "Overview" in page.text
        assert process.output.count(password) == 1
    secret = tmp_path / "var" / "secret_key"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "var").stat().st_mode & 0o777 == 0o700


def test_a_second_start_keeps_everything_and_prints_no_password(tmp_path):
    with up(tmp_path) as process:
        text = key(process)
        kept = get(process, TASKS, text).json()["results"]
        secret = (tmp_path / "secret_key").read_text()
        assert process.end() == 0
    with up(tmp_path) as process:
        again = get(process, TASKS, text).json()["results"]
        assert [task["uuid"] for task in again] == [task["uuid"] for task in kept]
        assert {t["target_url"] for t in again} == {f"{origin(process)}/demo/echo"}
        assert "Password" not in process.output
        assert "cj_" not in process.output
        assert (tmp_path / "secret_key").read_text() == secret


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_stops_everything_and_leaves_no_process(tmp_path, number):
    with up(tmp_path) as process:
        assert len(process.family()) >= 3  # the supervisor, gunicorn and its workers
        get(process, TASKS, key(process))
        assert process.end(number) == 0
        assert process.family() == {}
        assert "Everything has stopped." in process.output


@pytest.mark.parametrize(("child", "command"), [("web", "gunicorn"), ("scheduler", "runscheduler")])
def test_a_child_that_dies_brings_all_down_with_its_exit_code(tmp_path, child, command):
    with up(tmp_path) as process:
        own = process.process.pid
        (master,) = [
            pid
            for pid, said in process.family().items()
            if command in said and f"PPid:\t{own}\n" in Path(f"/proc/{pid}/status").read_text()
        ]
        os.kill(master, signal.SIGKILL)
        assert process.wait() == 1
        assert f"{child} ended with exit code -9" in process.output


def test_the_demo_tasks_go_green_by_themselves(tmp_path):
    with up(tmp_path) as process:
        process.until(r"run \d+ of demo: every ten seconds: SUCCESS")


def test_nothing_outlives_a_supervisor_that_is_killed(tmp_path):
    with up(tmp_path) as process:
        process.end(signal.SIGKILL)
        assert process.family() == {}


def test_the_echo_endpoint_is_there_for_the_demo_only(tmp_path):
    with up(tmp_path / "a") as process:
        echo = requests.post(f"{origin(process)}/demo/echo", "hello", timeout=30)
        assert (echo.status_code, echo.json()["body"]) == (200, "hello")
    with up(tmp_path / "b", "--no-demo") as process:
        assert requests.post(f"{origin(process)}/demo/echo", timeout=30).status_code == 404
        assert get(process, TASKS, key(process)).json()["count"] == 0


def test_it_runs_on_postgresql_too(tmp_path, postgres):
    with up(tmp_path, DATABASE_URL=postgres) as process:
        assert get(process, TASKS, key(process)).json()["count"] == 3
        assert process.end() == 0
        assert not (tmp_path / "cronjob.sqlite3").exists()


def test_two_starts_on_one_machine_do_not_disturb_each_other(tmp_path):
    with up(tmp_path / "a") as one, up(tmp_path / "b") as two:
        assert get(one, TASKS, key(one)).status_code == 200
        assert get(two, TASKS, key(two)).status_code == 200
        assert get(two, TASKS, key(one)).status_code == 401


def one_line(answer):
    """The error, if that is all that was said: one line, with no traceback."""
    assert answer.returncode not in (0, None)
    assert "Traceback" not in answer.stderr
    lines = answer.stderr.strip().splitlines()
    assert len(lines) == 1, answer.stderr
    return lines[0]


def test_an_occupied_port_is_one_clear_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = one_line(run("manage.py", "up", "--port", str(port), data_dir=tmp_path))
    assert f"127.0.0.1:{port}" in said
    assert "--port" in said


def test_a_port_or_host_that_cannot_be_is_one_clear_line(tmp_path):
    assert "--port" in one_line(run("manage.py", "up", "--port", "99999", data_dir=tmp_path))
    assert "--host" in one_line(
        run("manage.py", "up", "--host", "no.such.host.invalid", data_dir=tmp_path)
    )


def test_a_data_directory_that_cannot_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    said = one_line(run("manage.py", "up", data_dir=tmp_path / "file" / "var"))
    assert "CRONJOB_DATA_DIR" in said
    assert "Name a directory" in said


def test_a_database_that_is_down_is_one_clear_line(tmp_path):
    url = "postgresql://me:secret@127.0.0.1:1/x"
    said = one_line(run("manage.py", "up", "--port", "0", data_dir=tmp_path, DATABASE_URL=url))
    assert "DATABASE_URL" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({"CRONJOB_SLOTS": "many"}, "CRONJOB_SLOTS"),
        ({"CRONJOB_DEBUG": "1"}, "CRONJOB_DEBUG"),
        ({"CRONJOB_ALLOWED_HOSTS": "*"}, "CRONJOB_ALLOWED_HOSTS"),
        ({"CRONJOB_LEASE_SECONDS": "5"}, "CRONJOB_BEAT_SECONDS"),
        ({"CRONJOB_SECRET_KEY": "short"}, "CRONJOB_SECRET_KEY"),
        ({"CRONJOB_DEFAULT_HEADERS": '{"Host": "x"}'}, "CRONJOB_DEFAULT_HEADERS"),
    ],
)
def test_a_bad_setting_is_one_clear_line_for_up_and_for_gunicorn(tmp_path, variables, word):
    said = one_line(run("manage.py", "up", "--port", "0", data_dir=tmp_path, **variables))
    assert word in said
    variables = {"CRONJOB_SECRET_KEY": "k" * 50} | variables
    conf = ("-m", "gunicorn", "-c", "cronjob/gunicorn.conf.py", "cronjob.wsgi")
    assert word in one_line(run(*conf, data_dir=tmp_path, **variables))


def test_gunicorn_does_not_start_without_a_secret_key(tmp_path):
    conf = ("-m", "gunicorn", "-c", "cronjob/gunicorn.conf.py", "cronjob.wsgi")
    assert "CRONJOB_SECRET_KEY" in one_line(run(*conf, data_dir=tmp_path))


def test_gunicorn_serves_a_migrated_database_and_drains_on_term(tmp_path):
    variables = {"CRONJOB_SECRET_KEY": "k" * 50}
    assert run("manage.py", "migrate", data_dir=tmp_path, **variables).returncode == 0
    text = run("manage.py", "createkey", "ci", data_dir=tmp_path, **variables).stdout.strip()
    port = free_port()
    conf = ("-m", "gunicorn", "-c", "cronjob/gunicorn.conf.py", "-b", f"127.0.0.1:{port}")
    with running(*conf, "cronjob.wsgi", data_dir=tmp_path, **variables) as web:
        assert answering(f"http://127.0.0.1:{port}")
        headers = {"Authorization": f"Bearer {text}", "X-Forwarded-Proto": "https"}
        answer = requests.get(f"http://127.0.0.1:{port}{TASKS}", headers=headers, timeout=30)
        assert (answer.status_code, answer.json()["count"]) == (200, 0)
        assert web.end() == 0
        assert web.family() == {}


def test_many_clients_at_once_are_all_answered(tmp_path):
    with up(tmp_path) as process:
        text, codes = key(process), []

        def client():
            for _ in range(10):
                codes.append(get(process, TASKS, text).status_code)

        threads = [threading.Thread(target=client) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes == [200] * 80


def test_it_can_be_started_from_anywhere_and_means_paths_from_there(tmp_path):
    command = (str(ROOT / "manage.py"), "up", "--port", "0")
    with running(*command, data_dir=Path("here"), directory=tmp_path) as process:
        assert answering(origin(process))
        assert get(process, TASKS, key(process)).status_code == 200
    assert (tmp_path / "here" / "cronjob.sqlite3").exists()
    assert not (ROOT / "here").exists()


def test_a_key_file_left_empty_is_made_anew(tmp_path):
    (tmp_path / "secret_key").touch(mode=0o600)
    with up(tmp_path) as process:
        assert get(process, TASKS, key(process)).status_code == 200
    assert len((tmp_path / "secret_key").read_text()) >= 50


def test_an_unknown_setting_is_warned_about_once_at_the_start(tmp_path):
    with up(tmp_path, CRONJOB_SLOT="3") as process:
        assert process.output.count("There is no setting CRONJOB_SLOT") == 1
        assert "Did you mean CRONJOB_SLOTS?" in process.output


def test_a_slow_client_keeps_nobody_from_writing(tmp_path):
    with up(tmp_path) as process:
        text, base = key(process), origin(process)
        host, port = base.removeprefix("http://").split(":")
        head = f"POST {TASKS} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {text}\r\n"
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(f'{head}Content-Length: 100\r\n\r\n{{"name"'.encode())
            for _ in range(5):  # would wait for the slow one, were the database kept for it
                body = {"name": os.urandom(8).hex(), "target_url": "http://svc/", "every": 60}
                headers = {"Authorization": f"Bearer {text}"}
                answer = requests.post(base + TASKS, json=body, headers=headers, timeout=15)
                assert answer.status_code == 201
