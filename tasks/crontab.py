"""Crontabs: read into tasks, with a report for every line, and written from tasks."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from django.core.exceptions import ValidationError

from cronjob.lib import keepable
from cronjob.lib.template import literal, plain
from tasks import cron, curl, rules, words

NAME_MAX, DESCRIPTION_MAX, URL_MAX = 128, 512, 2048
COMMAND_MAX = 998  # Debian's cron refuses a file in which one is longer
WRAPPED_NAME_MAX = 60
BODIED = ("POST", "PUT", "PATCH")  # an empty body of these tells of the run
EMPTY = '{{ "" }}'  # and this one does not

ENTRY = re.compile(r"-?(@[A-Za-z_]\w*|(?:[^ \t]+[ \t]+){4}[^ \t]+)[ \t]+(.+)", re.DOTALL)
VARIABLE = re.compile(r"""(["']?)([A-Za-z_]\w*)\1[ \t]*=[ \t]*(.*)""", re.DOTALL)
NAMED = re.compile(r"#[ \t]*task:[ \t]*(\S.*)", re.DOTALL)
RULED = re.compile(r"^[#=*~_-]{2,}|(?<![#=*~_-])[#=*~_-]{2,}$")  # what only decorates a comment
LEGEND = "dom mon dow"  # of a new crontab: what stands above it is about the file
USER = re.compile(
    r"(root|[a-z_][a-z0-9_.-]*(?=[ \t]+(?:\S*/)?(?:curl|wget)[ \t]))[ \t]+(.+)", re.DOTALL
)
PERCENT = re.compile(r"\\.|%", re.DOTALL)
BOTH_DAYS = "cron wants both day fields to match, a task is content with either"
FROM = re.compile(r"(?<![-\d])(\d+)/(\d+)")  # a start and a step, without an end
KINDS = {
    "EVERY": "it runs at a fixed interval",
    "ONCE": "it runs once",
    "MANUAL": "it runs only when triggered",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What became of a line of a crontab."""

    number: int
    text: str
    said: str = ""
    task: dict[str, Any] | None = None
    refused: bool = False  # it would run something, and becomes no task


class NoTask(ValueError):
    """An entry that becomes no task; it says why."""


class Inexpressible(ValueError):
    """A task that no line of a crontab can stand for; it says why."""


def read(text: str, *, timezone: str, url_template: str = "") -> list[Line]:
    """Every line of a crontab, with the task that it becomes.

    `url_template` is the URL of a service that runs any other {command}, known by its {name}.
    """
    if problem := zone_problem(timezone):
        raise ValueError(problem)
    reader = Reader(timezone=timezone, url_template=url_template)
    if url_template:
        if "{command}" not in url_template:
            raise ValueError("The URL template must hold {command}.")
        rules.check_url(reader.wrapped("true", name="true"))
    lines = text.removeprefix("\ufeff").removesuffix("\n").split("\n") if text else []
    return [reader.read(number, line) for number, line in enumerate(lines, 1)]


def zone_problem(zone: str) -> str:
    try:
        rules.validate_zone(zone)
    except ValidationError as error:
        return str(error.messages[0])
    return ""


@dataclass(slots=True, kw_only=True)
class Reader:
    """What the lines so far mean to the next."""

    timezone: str
    url_template: str
    zones: dict[str, str] = field(default_factory=dict)  # by the variables that set them
    comments: list[str] = field(default_factory=list)  # directly above
    name: str = ""  # given by one of them
    taken: set[str] = field(default_factory=set)

    @property
    def zone(self) -> str:
        return self.zones.get("CRON_TZ") or self.zones.get("TZ") or self.timezone

    def read(self, number: int, text: str) -> Line:
        text = text.removesuffix("\r")
        bare = text.strip(" \t")
        said, task, refused = "", None, False
        try:
            keepable.check_text(text)
            if bare.startswith("#"):
                return Line(number=number, text=text, said=self.comment(bare))
            if variable := VARIABLE.fullmatch(bare):
                said = self.variable(variable[2], variable[3])
            elif bare:
                task, said = self.entry(bare)
        except (NoTask, keepable.Unkeepable, UnicodeEncodeError) as why:
            said, refused = str(why), True
        self.forget()
        return Line(number=number, text=text, said=said, task=task, refused=refused)

    def forget(self) -> None:
        self.name, self.comments = "", []

    def comment(self, bare: str) -> str:
        if named := NAMED.fullmatch(bare):
            self.name = named[1]
            return "the name of the next task"
        if is_entry(bare.lstrip("# \t")):
            self.forget()
            return "ignored: a commented-out entry"
        text = RULED.sub("", bare.lstrip("#").strip()).strip()
        if LEGEND in " ".join(text.lower().split()):
            self.forget()
        elif any(map(str.isalnum, text)):
            self.comments.append(text)
        return "comment"

    def variable(self, name: str, value: str) -> str:
        if name not in ("CRON_TZ", "TZ"):
            return "ignored: nothing is run in a shell"
        self.zones[name] = value.strip("\"'").removeprefix(":")
        return zone_problem(self.zone) or f"the entries that follow are in {self.zone}"

    def entry(self, bare: str) -> tuple[dict[str, Any], str]:
        """The task of an entry, and what is said of it."""
        found = ENTRY.fullmatch(bare)
        if found is None:
            raise NoTask("not understood: an entry is five fields or a macro, then a command")
        cron_expr, notes = schedule(found[1])
        user = USER.fullmatch(found[2])
        if user and user[1] not in curl.WRAPPERS:
            notes.append(f"the user {user[1]} is left out")
        else:
            user = None
        task, more = self.call(percents(user[2] if user else found[2]))
        if problem := zone_problem(self.zone):
            raise NoTask(f"its time zone is not known: {problem}")
        task |= {"cron_expr": cron_expr, "timezone": self.zone}
        if description := " ".join(self.comments):
            task["description"] = shortened(description, DESCRIPTION_MAX)
        check(task)
        self.taken.add(task["name"])
        when = f"“{task['name']}”: {words.describe(cron_expr)} ({self.zone})"
        return task, "; ".join([when, *notes, *more])

    def call(self, command: str) -> tuple[dict[str, Any], Iterable[str]]:
        """The name and the request of the task that stands for a command, and notes on it."""
        try:
            request = curl.parse(command)
        except curl.NotHttp as why:
            if not self.url_template:
                raise NoTask(f"not an HTTP call: {why}") from why
            name = self.unique(shortened(" ".join(command.split()), WRAPPED_NAME_MAX))
            url = self.wrapped(command, name=name)
            return {"name": name, "http_method": "GET", "target_url": url}, [f"wrapped: {why}"]
        parts = urlsplit(request.url)
        name = self.unique(f"{request.method} {parts.netloc}{parts.path}".rstrip("/"))
        return {"name": name, **fields(request)}, request.notes

    def unique(self, name: str) -> str:
        """The name that a comment gives, or else this one, with a number if it is taken."""
        name = "".join(filter(str.isprintable, self.name or name)).strip() or "unnamed"
        found, number = name[:NAME_MAX].strip(), 1
        while found in self.taken:
            number += 1
            end = f" ({number})"
            found = name[: NAME_MAX - len(end)].strip() + end
        return found

    def wrapped(self, command: str, *, name: str) -> str:
        url = self.url_template.replace("{command}", quote(command, safe=""))
        return url.replace("{name}", quote(name, safe=""))


def schedule(when: str) -> tuple[str, list[str]]:
    """The normalised expression, and what is to be said about it."""
    if when.lower() == "@reboot":
        raise NoTask("@reboot: no schedule says that")
    try:
        normal = cron.normalise(when)
    except cron.BadCron as why:
        raise NoTask(f"its schedule is not understood: {why}") from why
    days = normal.split()[3::2]
    both = not set(days) & set(cron.ANY)
    return normal, [BOTH_DAYS] if both and any(day.startswith("*") for day in days) else []


def is_entry(text: str) -> bool:
    found = ENTRY.fullmatch(text)
    try:
        return bool(found and (found[1].lower() == "@reboot" or cron.normalise(found[1])))
    except cron.BadCron:
        return False


def percents(command: str) -> str:
    """The command as cron hands it to the shell."""

    def meant(found: re.Match[str]) -> str:
        if found[0] == "%":
            why = "it feeds lines to standard input (a percent sign itself is written \\%)"
            raise NoTask(f"not an HTTP call: {why}")
        return found[0].replace(r"\%", "%")

    return PERCENT.sub(meant, command)


def fields(request: curl.Request) -> dict[str, Any]:
    """A request in the fields of a task, without those that have their defaults."""
    empty = EMPTY if request.method in BODIED else ""
    given: dict[str, Any] = {
        "headers": {name: literal(value) for name, value in request.headers.items()},
        "body_template": literal(request.body) or empty,
        "timeout_seconds": request.timeout_seconds,
        "connect_timeout_seconds": request.connect_timeout_seconds,
        "follow_redirects": request.follow_redirects,
    }
    found = {name: value for name, value in given.items() if value}
    if request.max_retries is not None:
        delay = {"strategy": "fixed", "initial_delay": request.retry_delay}
        policy = {"max_retries": request.max_retries}
        found["retry_policy"] = policy | (delay if request.retry_delay else {})
    return {"http_method": request.method, "target_url": literal(request.url), **found}


def check(task: Mapping[str, Any]) -> None:
    try:
        if len(task["target_url"]) > URL_MAX:
            raise ValueError(f"The URL has more than {URL_MAX} characters.")
        rules.check_url(task["target_url"])
        rules.check_headers(task.get("headers", {}))
    except ValueError as error:
        raise NoTask(f"it cannot be called: {error}") from error


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def write(tasks: Iterable[Mapping[str, Any]]) -> str:
    """A crontab that calls what the tasks call; for those that it cannot say, a comment."""
    blocks, zone = [], ""
    for task in sorted(tasks, key=lambda task: (task["timezone"], task["name"])):
        if task["timezone"] != zone:
            zone = task["timezone"]
            blocks.append(f"CRON_TZ={zone}\n")
        blocks.append(block(task))
    return "\n".join(blocks)


def block(task: Mapping[str, Any]) -> str:
    """The lines of a task. Its name stands last, where no description can be taken for it."""
    try:
        line = entry(task)
    except Inexpressible as why:
        return f"# not expressible: {task['name']}: {why}\n"
    description, reason = map(one_line, (task.get("description"), task.get("disabled_reason")))
    lines = [f"# {description}"] if description else []
    lines.append(f"# task: {task['name']}")
    if task.get("status") == "DISABLED":
        lines += [f"# disabled: {reason}" if reason else "# disabled"]
        line = f"# {line}"
    return "".join(f"{line}\n" for line in [*lines, line])


def one_line(text: str | None) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in text or "").split())


def entry(task: Mapping[str, Any]) -> str:
    if why := KINDS.get(task.get("schedule_kind", "CRON")):
        raise Inexpressible(why)
    if task.get("exec_type", "SYNC") != "SYNC":
        raise Inexpressible(f"its execution is {task['exec_type']}")
    for name in ("start_at", "end_at", "jitter"):
        if task.get(name):
            raise Inexpressible(f"it has {name}")
    when = five_fields(task["cron_expr"])
    command = " ".join(map(quoted, ["curl", "-fsS", *behaviour(task), *request_of(task)]))
    if len(command.encode()) > COMMAND_MAX:
        raise Inexpressible(f"its command is longer than {COMMAND_MAX} characters")
    return f"{when} {command}"


def quoted(argument: str) -> str:
    """An argument for the shell in a crontab, where % is written \\% and \\\\% would not do."""
    return shlex.quote(argument).replace("\\%", "\\''%").replace("%", "\\%")


def five_fields(expression: str) -> str:
    """The same moments in the words that every cron knows."""
    normal = cron.normalise(expression)
    parsed = cron.parse(normal)
    _, minute, hour, day, month, weekday = normal.replace("?", "*").split()
    if parsed.seconds != (0,):
        raise Inexpressible("its seconds are not 0")
    if parsed.nth or parsed.last_day or parsed.nearest is not None:
        raise Inexpressible("no crontab knows L, # and W")
    both = "*" not in (day, weekday)
    days = range(1, 32) if parsed.every_day else parsed.days or ()
    times = [stepped(minute, last=59), stepped(hour, last=23)]
    dates = [listed(day, days, both=both), listed(month, parsed.months)]
    return " ".join([*times, *dates, listed(weekday, parsed.weekdays or (), both=both)])


def stepped(word: str, *, last: int) -> str:
    """5/10 becomes 5-59/10."""

    def ranged(found: re.Match[str]) -> str:
        start, step = int(found[1]), int(found[2])
        return f"{start}-{last}/{step}" if start < last else f"{start}"

    return FROM.sub(ranged, word)


def listed(word: str, values: Iterable[int], *, both: bool = False) -> str:
    """A field as it is, or its values one by one where cron would take it for something else."""
    if all(map(is_portable, word.lower().split(","))) and not (both and word.startswith("*")):
        return word
    return ",".join(map(str, sorted(values)))


def is_portable(term: str) -> bool:
    """Not so a start with a step, nor a range that wraps."""
    first, dash, last = term.partition("/")[0].partition("-")
    if not dash:
        return first == "*" or "/" not in term
    return int(cron.NAMES.get(first, first)) <= int(cron.NAMES.get(last, last))


def behaviour(task: Mapping[str, Any]) -> list[str]:
    """The options that say how it is called."""
    policy = task.get("retry_policy") or {}
    found = ["-L"] if task.get("follow_redirects") else []
    for option, name in (
        ("-m", "timeout_seconds"),
        ("--connect-timeout", "connect_timeout_seconds"),
    ):
        if seconds := task.get(name):
            found += [option, str(float(seconds)).removesuffix(".0")]
    if retries := policy.get("max_retries"):
        found += ["--retry", str(retries), "--retry-connrefused"]
        if policy.get("strategy") == "fixed" and (delay := policy.get("initial_delay")):
            found += ["--retry-delay", str(max(1, round(delay)))]  # older ones know whole seconds
    return found


def request_of(task: Mapping[str, Any]) -> list[str]:
    """The options that say what is sent, and the URL."""
    method, source = task["http_method"], task.get("body_template") or ""
    if method in BODIED and not source:
        raise Inexpressible("its empty body is filled with what tells of the run")
    url, body = text_of(task["target_url"], "URL"), text_of(source, "body")
    if method == "HEAD" and body:
        raise Inexpressible("it is HEAD and has a body")
    headers = {name: text_of(text, name) for name, text in (task.get("headers") or {}).items()}
    if body and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = curl.JSON if is_json(body) else "text/plain; charset=utf-8"
    found = ["-g"] if set("[]{}") & set(url) else []
    if method == "HEAD":
        found.append("-I")
    elif method != ("POST" if body else "GET"):
        found += ["-X", method]
    for name, text in headers.items():
        if name.lower() not in curl.OURS:
            found += ["-H", f"{name}: {text}" if text else f"{name};"]
    return [*found, *(["--data-raw", body] if body else []), url]


def text_of(source: str, what: str) -> str:
    """The text of a template that always renders as the same line."""
    text = plain(source)
    if text is None:
        raise Inexpressible(f"its {what} has placeholders")
    if re.search(r"[\n\r\x00]", text):
        raise Inexpressible(f"its {what} has more than one line")
    return text.strip(" \t") if what not in ("URL", "body") else text


def is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=keepable.refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True
