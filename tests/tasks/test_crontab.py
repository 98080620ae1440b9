"""Crontabs become tasks, and tasks a crontab: one as they are found, tables, and round trips."""

import subprocess
import time
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronjob.lib.template import literal
from tasks import cron, rules
from tasks.crontab import COMMAND_MAX, read, write

REAL = Path(__file__).with_name("crontab.txt")
RUNNER = "http://runner.internal/run?cmd={command}&name={name}&run={{ run_id }}"
HTTP = "curl http://svc.internal/"
CURL = f"* * * * * {HTTP}"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
STDIN = r"not an HTTP call: it feeds lines to standard input (a percent sign itself is written \%)"
NO_ZONE = "is not an IANA time zone such as Europe/Berlin."
FIELDS = "not understood: an entry is five fields or a macro, then a command"


def tasks_of(text, **options):
    return [line.task for line in read(text, timezone="UTC", **options) if line.task]


# --- reading --------------------------------------------------------------------------------------


def test_a_real_crontab_is_reported_line_by_line():
    lines = read(REAL.read_text(), timezone="UTC")
    kinds = Counter("task" if n.task else "refused" if n.refused else "ignored" for n in lines)
    assert kinds == {"task": 45, "refused": 79, "ignored": 80}
    assert [line.number for line in lines] == list(range(1, 205))
    assert "\n".join(line.text for line in lines) + "\n" == REAL.read_text()
    report = {line.number: line.said for line in lines}
    assert {number: report[number] for number in EXPECTED} == EXPECTED
    assert len({line.task["name"] for line in lines if line.task}) == kinds["task"]


EXPECTED = {
    1: "comment",
    5: "",
    6: "ignored: nothing is run in a shell",
    16: "“GET watchdog.example.com/beat/web-1”: Every minute (UTC)",
    21: "not an HTTP call: it needs a shell: &",
    38: "“GET shop.example.com/cron.php”: At 05:00 and 17:00, Monday to Friday (UTC); "
    "--timeout is for the whole call, not for each silence",
    44: "ignored: a commented-out entry",
    59: STDIN,
    73: "“GET blog.example.com/wp-cron.php (2)”: Every hour (UTC)",
    79: "not an HTTP call: it runs something else through flock",
    121: "@reboot: no schedule says that",
    134: "“GET 127.0.0.1:9000/thumbnails”: Every 30 minutes (UTC); the user www-data is left out",
    143: "the entries that follow are in America/New_York",
    152: "“GET market.example.com/noon (2)”: At 12:00 (Europe/Berlin)",
    153: f"“Europe/Atlantis” {NO_ZONE}",
    154: f"its time zone is not known: “Europe/Atlantis” {NO_ZONE}",
    162: "“GET odd.internal/both”: At 07:00 on every 2nd day from 1 to 31 of the month or on any "
    "Monday (UTC); cron wants both day fields to match, a task is content with either",
    172: "its schedule is not understood: minute: 60 is out of range, 0 to 59.",
    189: "it cannot be called: X-Smile must be one line of Latin-1 characters.",
    194: "the name of the next task",
}  # fmt: skip


def test_a_task_has_what_the_line_says_and_nothing_that_is_the_default():
    line = (
        "*/5 8-18 * * mon-fri curl -fsSL -X PUT -m 10 --connect-timeout 2 --retry 3 "
        "--retry-delay 7 -H 'X-A: {{ a }}' -d '{{\"b\": 1}}' 'http://svc.internal/{{c}}?d=1' -g"
    )
    (task,) = tasks_of(f"# Every\n#\n# so often\n{line}")
    assert task == {
        "name": "PUT svc.internal/{{c}}", "description": "Every so often", "timezone": "UTC",
        "cron_expr": "0 */5 8-18 * * mon-fri", "http_method": "PUT",
        "target_url": 'http://svc.internal/{{ "{{" }}c}}?d=1',
        "headers": {**FORM, "X-A": '{{ "{{" }} a }}'}, "body_template": '{{ "{{" }}"b": 1}}',
        "timeout_seconds": 10.0, "connect_timeout_seconds": 2.0, "follow_redirects": True,
        "retry_policy": {"max_retries": 3, "strategy": "fixed", "initial_delay": 7.0},
    }  # fmt: skip
    same = {"timezone": "UTC", "http_method": "GET", "target_url": "http://svc.internal/"}
    assert tasks_of(CURL) == [{"name": "GET svc.internal", "cron_expr": "0 * * * * *"} | same]


def test_a_body_that_is_empty_stays_empty():
    (task,) = tasks_of("@daily curl -X POST svc.internal")
    assert task["body_template"] == '{{ "" }}'


@pytest.mark.parametrize(
    "text",
    [
        f"{CURL}\r\n",
        CURL.replace(" ", "\t"),
        f"  \t{CURL}   ",
        f"-{CURL}",
        f"\ufeff{CURL}",
        f"MAILTO=\"\"\n'A' = b\n\n{CURL} # so",
        CURL.replace("curl", "root /usr/bin/curl"),
        CURL.replace("curl", "www-data\tcurl"),
    ],
)
def test_layout_variables_and_the_user_change_nothing(text):
    assert tasks_of(text) == tasks_of(CURL)


def test_macros_and_fields_become_six_fields():
    whens = ["@hourly", "@Daily", "@annually", "5,35 1-5/2 * JAN-mar,12 7"]
    tasks = tasks_of("".join(f"{when} {HTTP}\n" for when in whens))
    expressions = ["0 0 * * * *", "0 0 0 * * *", "0 0 0 1 1 *", "0 5,35 1-5/2 * JAN-mar,12 7"]
    assert [task["cron_expr"] for task in tasks] == expressions


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (r"* * * * * curl http://svc.internal/a%20b", STDIN),
        (r"* * * * * curl http://svc.internal/a\\%20b", STDIN),
        ("* * * * * mail root%hello", STDIN),
        ("@reboot curl http://svc.internal/", "@reboot: no schedule says that"),
        ("* * * * *", FIELDS),
        ("hello", FIELDS),
        ("* * * * * curl svc.internal | sh", "not an HTTP call: it needs a shell: |"),
        ("* * * * * root backup.sh", "not an HTTP call: it runs backup.sh"),
        ("* * * * * admin backup.sh", "not an HTTP call: it runs admin"),
        ("* * * * * curl \0", "text must not hold the character NUL"),
        (f"{CURL}{'a' * 2048}", "it cannot be called: The URL has more than 2048 characters."),
    ],
)  # fmt: skip
def test_a_line_that_becomes_no_task_says_why(line, reason):
    (found,) = read(line, timezone="UTC")
    assert (found.task, found.refused, found.said) == (None, True, reason)


def test_days_that_cron_takes_otherwise_are_noted():
    days = ("*/2 * 1", "1 * */2", "*/2 * *", "1-7 * 1", "? * */2")
    reports = read("".join(f"0 0 {day} {HTTP}\n" for day in days), timezone="UTC")
    assert ["cron wants both" in line.said for line in reports] == [True, True, *[False] * 3]


def test_comments_directly_above_describe_and_name_a_task():
    text = (
        "# about the file\n\n## ---- Ping ----\n# # of all #\n" + CURL + "\n"
        "# no more\n" + CURL + "b\n#" + CURL + "\n" + CURL + "c\n"
        "# task: Ping  it\n# " + "x" * 600 + "\n" + CURL + "d\n"
        "# legend: m h dom mon dow command\n" + CURL + "e\n"
        "# task: lost\nA=b\n" + CURL + "f\n"
    )
    found = [(task["name"], task.get("description")) for task in tasks_of(text)]
    assert found == [
        ("GET svc.internal", "Ping # of all #"),
        ("GET svc.internal/b", "no more"),
        ("GET svc.internal/c", None),
        ("Ping  it", "x" * 511 + "…"),
        ("GET svc.internal/e", None),
        ("GET svc.internal/f", None),
    ]


def test_names_are_short_and_each_is_there_once():
    text = f"# task: GET svc.internal (2)\n{CURL}\n{CURL}?a=1\n{CURL}?a=2\n{CURL}{'b' * 200}\n" * 2
    names = [task["name"] for task in tasks_of(text)]
    assert names[1:3] == ["GET svc.internal", "GET svc.internal (3)"]
    assert names[4] == "GET svc.internal (2) (2)"
    assert [len(names[3]), names[7][-5:], len(names[7])] == [128, "b (2)", 128]
    assert len(set(names)) == 8


def test_the_zone_changes_for_what_follows():
    zones = ["TZ=:Asia/Tokyo", "CRON_TZ='Europe/Paris'", "CRON_TZ=", "TZ="]
    text = f"\n{CURL}\n".join(["", *zones, ""])
    zones = [task["timezone"] for task in tasks_of(text)]
    assert zones == ["UTC", "Asia/Tokyo", "Europe/Paris", "Asia/Tokyo", "UTC"]
    with pytest.raises(ValueError, match="“Mars” is not an IANA time zone"):
        read("", timezone="Mars")


def test_other_commands_are_wrapped_if_there_is_a_service_that_runs_them():
    command = r"cd /srv && tar cz a\ b > x-$(date +\%F)"
    text = f"0 1 * * * root {command}\n0 1 * * * {command}\n{CURL}\n@reboot a\n* * * * * a%b"
    first, second, plain_call = tasks_of(text, url_template=RUNNER)
    sent = parse_qs(urlsplit(second["target_url"]).query)
    assert sent["cmd"] == [r"cd /srv && tar cz a\ b > x-$(date +%F)"]
    assert sent["name"] == [r"cd /srv && tar cz a\ b > x-$(date +%F) (2)"]
    assert second["target_url"].endswith("&run={{ run_id }}")
    assert (first["http_method"], first["name"]) == ("GET", sent["cmd"][0])
    assert plain_call == tasks_of(CURL)[0]
    report = read(text, timezone="UTC", url_template=RUNNER)
    assert report[1].said == f"“{second['name']}”: At 01:00 (UTC); wrapped: it needs a shell: &&"


@pytest.mark.parametrize("template", ["http://a/{name}", "{command}", "http://a b/{command}"])
def test_a_template_that_could_not_run_a_command_is_refused(template):
    with pytest.raises(ValueError, match=r"hold \{command\}|begin with http|spaces"):
        read("", timezone="UTC", url_template=template)


@pytest.mark.parametrize("unit", [" ", "-", "a ", "dom mon ", "* ", "\\", "%", "#", "a/"])
@pytest.mark.parametrize("head", ["", "# ", "a = ", "* * * * * ", "* * * * * root "])
def test_a_hundred_kilobytes_of_anything_are_reported_at_once(head, unit):
    started = time.process_time()
    read(f"{head}{unit * (100_000 // len(unit))}x", timezone="UTC")
    assert time.process_time() - started < 1


@settings(max_examples=200, deadline=None, database=None)
@given(st.text() | st.text("\n\r\t #@*/-,%'\"\\=12 curlTZ:htp."), st.sampled_from(["", RUNNER]))
def test_any_text_is_reported_whole(text, template):
    lines = read(text, timezone="UTC", url_template=template)
    kept = "\n".join(line.text for line in lines)
    assert kept.split() == text.removeprefix("\ufeff").split()
    assert not any(line.refused and (line.task or not line.said) for line in lines)


# --- writing --------------------------------------------------------------------------------------


def task(**changes):
    return {
        "name": "ping", "description": "", "schedule_kind": "CRON", "cron_expr": "0 */5 * * * *",
        "start_at": None, "end_at": None, "jitter": None, "timezone": "UTC", "exec_type": "SYNC",
        "http_method": "GET", "target_url": "http://svc.internal/", "headers": {},
        "body_template": "", "connect_timeout_seconds": 5, "timeout_seconds": 15,
        "follow_redirects": False, "retry_policy": rules.RETRY_DEFAULTS, "status": "ENABLED",
    } | changes  # fmt: skip


def test_tasks_are_written_by_zone_and_name():
    policy = rules.RETRY_DEFAULTS | {"max_retries": 2, "strategy": "fixed", "initial_delay": 2.5}
    tasks = [
        task(name="b", timezone="Asia/Tokyo", cron_expr="0 0 9 * * MON-FRI"),
        task(
            name="order", description="Says\nit's 50% off", http_method="POST", timeout_seconds=2.5,
            headers={"Content-Type": "text/plain", "X-Empty": ""}, body_template="it's 50%",
            follow_redirects=True, retry_policy=policy, target_url="http://svc.internal/?a=1&b[]=2",
        ),
        task(name="off", status="DISABLED", disabled_reason="too\nloud"),
        task(name="often", schedule_kind="EVERY", cron_expr=None),
    ]  # fmt: skip
    head = "curl -fsS -m 15 --connect-timeout 5"
    assert write(tasks) == (
        "CRON_TZ=Asia/Tokyo\n\n"
        f"# task: b\n0 9 * * MON-FRI {head} http://svc.internal/\n\n"
        "CRON_TZ=UTC\n\n"
        f"# task: off\n# disabled: too loud\n# */5 * * * * {head} http://svc.internal/\n\n"
        "# not expressible: often: it runs at a fixed interval\n\n"
        "# Says it's 50% off\n# task: order\n"
        "*/5 * * * * curl -fsS -L -m 2.5 --connect-timeout 5 --retry 2 --retry-connrefused "
        "--retry-delay 2 -g -H 'Content-Type: text/plain' -H 'X-Empty;' "
        "--data-raw 'it'\"'\"'s 50\\%' 'http://svc.internal/?a=1&b[]=2'\n"
    )
    assert write([]) == ""
    assert [found["name"] for found in tasks_of(write(tasks))] == ["b", "order"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"schedule_kind": "ONCE", "cron_expr": None}, "it runs once"),
        ({"schedule_kind": "MANUAL", "cron_expr": None}, "it runs only when triggered"),
        ({"exec_type": "ASYNC"}, "its execution is ASYNC"),
        ({"exec_type": "JOB"}, "its execution is JOB"),
        ({"start_at": "2030-01-01T00:00:00Z"}, "it has start_at"),
        ({"jitter": "5m"}, "it has jitter"),
        ({"cron_expr": "30 * * * * *"}, "its seconds are not 0"),
        ({"cron_expr": "*/10 * * * * *"}, "its seconds are not 0"),
        ({"cron_expr": "0 0 0 L * *"}, "no crontab knows L, # and W"),
        ({"cron_expr": "0 0 0 * * 1#2"}, "no crontab knows L, # and W"),
        ({"target_url": "http://svc.internal/{{ run_id }}"}, "its URL has placeholders"),
        ({"headers": {"X-Run": "{{ run_id }}"}}, "its X-Run has placeholders"),
        ({"body_template": "{{ run_id }}"}, "its body has placeholders"),
        ({"body_template": "a\nb"}, "its body has more than one line"),
        ({"http_method": "POST"}, "its empty body is filled with what tells of the run"),
        ({"http_method": "HEAD", "body_template": "a"}, "it is HEAD and has a body"),
        ({"body_template": "a" * 999}, f"its command is longer than {COMMAND_MAX} characters"),
    ],
)
def test_what_no_crontab_can_say_becomes_a_comment(changes, why):
    assert write([task(**changes)]) == f"CRON_TZ=UTC\n\n# not expressible: ping: {why}\n"


@pytest.mark.parametrize(
    ("expression", "written"),
    [
        ("0 5/10 23/5 ? JAN,2 MON-fri", "5-59/10 23 * JAN,2 MON-fri"),
        ("0 1-9/2,15/30 22/2 * * *", "1-9/2,15-59/30 22-23/2 * * *"),
        ("0 0 0 * * FRI-MON", "0 0 * * 0,1,5,6"),
        ("0 0 0 28-2 NOV-FEB *", "0 0 1,2,28,29,30,31 1,2,11,12 *"),
        ("0 0 0 */10 * 1", "0 0 1,11,21,31 * 1"),
        ("0 0 0 1 * */3", "0 0 1 * 0,3,6"),
        ("0 0 0 */1 * 1", f"0 0 {','.join(map(str, range(1, 32)))} * 1"),
        ("0 0 0 */10 2-12/2 *", "0 0 */10 2-12/2 *"),
        ("0 0 0 1/10 * 1/2", "0 0 1,11,21,31 * 1,3,5"),
        ("0 0 0 * * 5-7", "0 0 * * 5-7"),
    ],
)
def test_a_schedule_is_written_so_that_every_cron_means_the_same(expression, written):
    line = write([task(cron_expr=expression)]).splitlines()[-1]
    assert line.split(" curl ")[0] == written


def test_a_body_is_sent_as_what_the_caller_would_call_it():
    for body, kind in (('{"a": 1}', "application/json"), ("{a}", "text/plain; charset=utf-8")):
        line = write([task(http_method="POST", body_template=body, headers={"User-Agent": "me"})])
        assert tasks_of(line)[0]["headers"] == {"Content-Type": kind}


def as_cron_does(command):
    """What vixie cron hands to the shell: read off its source, letter by letter."""
    handed, escaped = "", False
    for letter in command:
        if not escaped and letter == "%":
            return handed  # the rest is standard input
        if escaped and letter == "%":
            handed = handed[:-1]
        escaped = letter == "\\" and not escaped
        handed += letter
    return handed


def test_a_real_shell_reads_the_arguments_that_were_meant():
    bodies = [
        "it's",
        "50%",
        "\\%",
        "\\\\%",
        "'\\'%'",
        '"$HOME" `id`',
        "%%%",
        "a\tb;|&<>(){}",
        "~ *!é",
    ]
    script = 'curl() { while [ "$1" != --data-raw ]; do shift; done; printf \'%s\\n\' "$2"; }\n'
    for body in bodies:
        line = write([task(body_template=body)]).splitlines()[-1]
        script += as_cron_does(line.removeprefix("*/5 * * * * ")) + "\n"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == bodies


def one_of(*pieces, most):
    return st.lists(st.sampled_from(pieces), max_size=most).map("".join)


NASTY = ["%", "'", '"', "{{", "}}", "$(a)", "`", "&", ";", "@", "#", "a", "é", "run_id", "="]
SHOWN = st.characters(codec="utf-8").filter(str.isprintable)
TASKS = st.fixed_dictionaries({
    "name": (st.text(SHOWN, max_size=20) | st.just("x" * 128)).map(str.strip).filter(bool),
    "description": st.text(max_size=20),
    "cron_expr": st.tuples(
        st.sampled_from(["0 *", "0 */5", "0 7/9", "0 0,30"]),
        st.sampled_from(["*", "3", "9-17/2", "20/3"]),
        st.sampled_from(["*", "?", "*/2", "1-7,15", "25-5"]),
        st.sampled_from(["*", "*/3", "JAN-mar", "NOV-FEB"]),
        st.sampled_from(["*", "1-5", "FRI-MON", "*/2", "7", "sun"]),
    ).map(" ".join),
    "timezone": st.sampled_from(["UTC", "Europe/Berlin"]),
    "http_method": st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    "target_url": one_of(*NASTY, "[1-3]", "?", "/", most=8).map("http://svc.internal:80/{}".format),
    "headers": st.dictionaries(
        st.sampled_from(["X-A", "cookie", "X-'$`%", "Accept"]),
        one_of(*NASTY, "\\", " ", ":", "ÿ", most=6).map(str.strip).map(literal),
    ).map(lambda headers: headers | {"Content-Type": "text/plain"}),
    "body_template": one_of(*NASTY, "\\", " ", "\t", "\x0b", "{", most=12).map(
        lambda body: literal(body) or '{{ "" }}'
    ),
    "timeout_seconds": st.floats(0.1, 86400),
    "connect_timeout_seconds": st.floats(0.1, 86400),
    "follow_redirects": st.booleans(),
    "retry_policy": st.integers(1, 100).map(lambda most: {"max_retries": most}),
}).map(lambda found: found | {"target_url": literal(found["target_url"])})  # fmt: skip


def meant(task):
    """What a task does, however it is written."""
    empty = {"body_template": '{{ "" }}', "follow_redirects": False, "description": ""}
    clock = cron.parse(cron.normalise(task["cron_expr"]))
    days = [clock.days_of(year, month) for year in (2027, 2028) for month in range(1, 13)]
    times = [clock.seconds, clock.minutes, clock.hours, clock.interval, days]
    return {**empty, **task, "cron_expr": times}


@settings(max_examples=100, deadline=None, database=None)
@given(st.lists(TASKS, max_size=4, unique_by=lambda found: found["name"]))
def test_tasks_come_back_from_a_crontab_as_they_were(tasks):
    found = tasks_of(write([task(**one) for one in tasks]))
    by_name = {one["name"]: meant(one) | {"description": ""} for one in found}
    assert by_name == {one["name"]: meant(one) | {"description": ""} for one in tasks}


def test_the_tasks_of_a_real_crontab_come_back_from_the_one_written():
    tasks = tasks_of(REAL.read_text())
    again = tasks_of(
        write([{"schedule_kind": "CRON", "status": "ENABLED", **one} for one in tasks])
    )
    assert {one["name"]: meant(one) for one in again} == {one["name"]: meant(one) for one in tasks}
