"""Tasks as a text that people keep beside their code: bundles in YAML and JSON, Ksana's file."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from cronjob.lib import keepable
from tasks.changes import told
from tasks.models import Task

BYTES_MAX = 10 * 2**20
VERSION = 1
NAME_MAX = 64
FORMATS = ("yaml", "json", "ksana", "crontab")
# What a bundle always says, since its default depends on where it is applied.
ALWAYS = ("timezone", "connect_timeout_seconds", "timeout_seconds", "retry_policy")


class BadFile(ValueError):
    """A file that is not what it should be; nothing of it is used."""


@dataclass(frozen=True, slots=True)
class Bundle:
    name: str
    tasks: list[Any]  # in the words of the API, not yet checked


# --- out ----------------------------------------------------------------------------------------


def in_bundle(task: Task, *, bundle: str, secrets: bool) -> dict[str, Any]:
    """What a bundle says of a task: its name, and what differs from the defaults."""
    values, usual = told(task, secrets=secrets), told(Task(), secrets=True)
    kept = {
        name: ordered(value)
        for name, value in values.items()
        if name in ALWAYS or (name != "schedule_kind" and value != usual[name])
    }
    if task.schedule_kind == "MANUAL":
        kept["schedule_kind"] = "MANUAL"
    if task.status == "DISABLED":
        kept["status"] = "DISABLED"
    if task.schedule_kind == "ONCE" and task.ended:
        kept["ended"] = True  # where it is imported, it was not missed
    owner = {"bundle": task.bundle} if task.bundle not in ("", bundle) else {}
    return {"name": kept.pop("name")} | owner | kept


def written(name: str, tasks: Iterable[Mapping[str, Any]], *, form: str) -> str:
    """The bundle as text that changes only where a task does."""
    bundle = {"version": VERSION, "bundle": name, "tasks": sorted(tasks, key=by_name)}
    if form == "json":
        return json.dumps(bundle, ensure_ascii=False, indent=2) + "\n"
    return yaml.dump(bundle, Dumper=Writer, sort_keys=False, allow_unicode=True, width=10_000)


def ordered(value: Any) -> Any:
    """Databases keep the names of an object in orders of their own."""
    if isinstance(value, dict):
        return {name: ordered(value[name]) for name in sorted(value)}
    return [ordered(item) for item in value] if isinstance(value, list) else value


def by_name(task: Mapping[str, Any]) -> str:
    return str(task["name"])


class Writer(yaml.SafeDumper):
    """Lists are indented, and a text of several lines is shown as such."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, value: str) -> yaml.Node:
        odd = any(letter in value for letter in "\r\x85\u2028\u2029")
        style = '"' if odd else "|" if "\n" in value else None
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=style)


Writer.add_representer(str, Writer.text)


# --- in -----------------------------------------------------------------------------------------


def parsed(text: str, *, form: str) -> Any:
    """The value that a file holds; what it should be is not yet looked at."""
    try:
        if form == "yaml":
            value = yaml.load(text, Loader=Reader)
            keepable.check(value)
            return value
        return keepable.loads(text)
    except yaml.YAMLError as error:
        raise BadFile(f"It is not YAML: {' '.join(str(error).split())}.") from error
    except (RecursionError, OverflowError) as error:
        raise BadFile("It is nested too deeply.") from error
    except ValueError as error:
        raise BadFile(f"It is not {form.upper()}: {error}.") from error


def bundle_of(value: Any, *, name: str) -> Bundle:
    if not isinstance(value, dict) or not isinstance(value.get("tasks"), list):
        raise BadFile("It is not a bundle: it must be an object with a list of `tasks`.")
    if unknown := sorted(map(str, set(value) - {"version", "bundle", "tasks"})):
        raise BadFile(f"It holds what no bundle has: {', '.join(unknown)[:200]}.")
    if value.get("version", VERSION) != VERSION:
        raise BadFile(f"It is of version {value['version']}; this reads version {VERSION}.")
    return Bundle(checked_name(value.get("bundle", name)), value["tasks"])


def checked_name(name: Any) -> str:
    if not isinstance(name, str) or len(name) > NAME_MAX or not name.isprintable():
        raise BadFile(f"`bundle` must be a name of at most {NAME_MAX} characters.")
    return name


def jobs_of(value: Any) -> list[Any]:
    """The jobs of Ksana's file."""
    if not isinstance(value, dict) or not isinstance(value.get("jobs"), list):
        raise BadFile("It is not Ksana's: it must be an object with a list of `jobs`.")
    return list(value["jobs"])


class Reader(yaml.SafeLoader):
    """Nothing that names something else, nothing twice; a time stays the text that it is."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.YAMLError(f"aliases are not taken, line {mark.line + 1}")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Any] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is None or key.tag != "tag:yaml.org,2002:str":
                raise yaml.YAMLError(f"a name must be text, line {key.start_mark.line + 1}")
            if name in seen:
                raise yaml.YAMLError(f"“{name}” is there twice, line {key.start_mark.line + 1}")
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


# Neither a time nor 1:30 nor 010 is a number to people.
OURS = ("timestamp", "int", "float")
Reader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if not tag.endswith(OURS)]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Reader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?(0|[1-9][0-9]*)$"), list("-+0123456789")
)
Reader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)
