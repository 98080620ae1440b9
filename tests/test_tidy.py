"""The shape of the tree, checked like behaviour: who imports whom, how large, what is banned."""

import ast
import re
from pathlib import Path

import pytest
from django.conf import settings

from cronjob.api.errors import CODES
from cronjob.api.models import SCOPES
from cronjob.lib.metrics import COUNTERS, GAUGES, HISTOGRAMS, OWN_GAUGES, SOURCES
from runs.states import FINAL, TRANSITIONS, Status

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES, FUNCTION_LINES = 400, 50
APPS = ("tasks", "runs", "callbacks")

# What each core app may import of the others: downwards only, never sideways.
BELOW = {"tasks": set(), "runs": {"tasks"}, "callbacks": {"runs", "tasks"}}
EDGES = re.compile(r"(admin|api|ksana|due|urls|forms|serializers)\.py|apps\.py")

# Packages that one module, or one folder, keeps to itself.
OWNED = {
    "croniter": "tasks/cron.py",
    "unfold": "cronjob/console/",
    "requests": ("cronjob/lib/http.py", "cronjob/client.py"),
    "urllib3": "cronjob/lib/http.py",
    "redis": "nodes/",
    "prometheus_client": "cronjob/lib/metrics.py",
    "yaml": "tasks/exchange.py",
    "dj_database_url": "cronjob/lib/database.py",
}
BANNED = {
    "timezone.now": "cronjob.lib.clock.now() is the only clock",
    "datetime.now": "cronjob.lib.clock.now() is the only clock",
    "datetime.utcnow": "cronjob.lib.clock.now() is the only clock",
    "time.time": "cronjob.lib.clock.now(), or time.monotonic() for a span",
    "time.sleep": "wait on an event",
    "print": "self.stdout, or the log",
}
# Where one of these is right after all.
ALLOWED = {
    ("cronjob/lib/clock.py", "datetime.now"): "SQLite has no clock of its own",
    ("cronjob/management/commands/doctor.py", "datetime.now"): "compares the two clocks",
    ("cronjob/lib/supervisor.py", "print"): "a person is looking on",
}


def files():
    """The Python of this tree, whatever else lies beside it."""
    for folder in (*APPS, "cronjob", "tests", "bench"):
        yield from (path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py"))


def python(*, tests=False):
    for name in sorted(files()):
        if "/migrations/" not in name and (tests or not name.startswith(("tests/", "bench/"))):
            yield name, ast.parse((ROOT / name).read_text())


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_edge(name):
    return bool(EDGES.search(name)) or "/management/" in name or "/console/" in name


def test_core_modules_import_downwards_only():
    for name, tree in python():
        app = name.split("/")[0]
        if app not in APPS or is_edge(name):
            continue
        for module in imports(tree):
            other = module.split(".")[0]
            allowed = BELOW[app] | {app}
            assert other not in APPS or other in allowed, f"{name} imports {module}"
            own = module.startswith("cronjob.lib") or module in ("cronjob", "cronjob.__version__")
            assert other != "cronjob" or own, f"{name} imports {module}"


def test_the_leaves_import_no_app():
    for name, tree in python():
        if name.startswith("cronjob/lib/"):
            for module in imports(tree):
                top = module.split(".")[0]
                assert top not in APPS, f"{name} imports {module}"
                assert top != "cronjob" or module.startswith("cronjob.lib"), f"{name}: {module}"


def test_nobody_but_the_wiring_imports_an_edge():
    for name, tree in python():
        if name.startswith("cronjob/") or is_edge(name):
            continue
        for module in imports(tree):
            path = module.replace(".", "/") + ".py"
            assert not (is_edge(path) and module.split(".")[0] in APPS), f"{name}: {module}"


def test_each_outside_package_is_imported_in_its_one_place():
    for name, tree in python():
        for module in imports(tree):
            home = OWNED.get(module.split(".")[0])
            assert home is None or name.startswith(home), f"{name} imports {module}"


def test_no_file_and_no_function_is_too_long():
    for name, tree in python(tests=True):
        lines = (ROOT / name).read_text().count("\n")
        assert lines <= FILE_LINES, f"{name} has {lines} lines"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= FUNCTION_LINES, f"{name}:{node.name} has {length} lines"


def test_banned_calls_are_not_made():
    used = set()
    for name, tree in python():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            call = ast.unparse(node.func)
            for banned, why in BANNED.items():
                if call == banned or call.endswith(f".{banned}"):
                    used.add((name, banned))
                    assert (name, banned) in ALLOWED, f"{name}:{node.lineno} {call}: {why}"
    assert used == set(ALLOWED), "an exception that nobody needs"


def test_tests_do_not_sleep():
    for name, tree in python(tests=True):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func).split(".")[-1] != "sleep", f"{name}:{node.lineno}"


def test_every_module_says_what_it_is_for():
    for name, tree in python():
        if not name.endswith(("__init__.py", "apps.py")):
            assert ast.get_docstring(tree), name


def table(document, heading):
    """The first cells of the table below a heading of a document."""
    text = (ROOT / "docs" / document).read_text()
    section = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (.+) \|$", section, re.MULTILINE)[1:]
    return [[cell.strip() for cell in row.split(" | ")] for row in rows]


def test_the_table_of_settings_lists_every_setting_with_its_default_and_meaning():
    told = {cells[0].strip("`"): cells[1:] for cells in table("settings.md", "All settings")}
    assert set(told) == set(settings.ENV.options)
    for name, option in settings.ENV.options.items():
        assert told[name] == [option.default.join("``") if option.default else "–", option.meaning]


def test_the_table_of_states_is_the_state_machine():
    told = {cells[0].strip("`"): cells[1] for cells in table("states.md", "Moves")}
    assert set(told) == set(Status)
    for status in Status:
        moves = ", ".join(f"`{to.value}`" for to in TRANSITIONS.get(status, ()))
        assert told[status] == ("final" if status in FINAL else moves)


OWN = COUNTERS | HISTOGRAMS | OWN_GAUGES


@pytest.mark.parametrize(
    ("heading", "metrics"), [("Metrics", GAUGES), ("A process's own", OWN)], ids=["web", "process"]
)
def test_the_tables_of_metrics_list_every_metric(heading, metrics):
    told = {cells[0].strip("`"): cells[1:] for cells in table("operating.md", heading)}
    assert set(told) == set(metrics)
    assert set(GAUGES) == set(SOURCES)
    for name, (meaning, labels) in metrics.items():
        assert told[name] == [", ".join(labels) or "–", meaning]


def test_the_tables_of_errors_and_scopes_are_complete():
    errors = {cells[0].strip("`"): cells[1] for cells in table("api.md", "Errors")}
    assert errors == {code: str(status.value) for code, status in CODES.items()}
    scopes = {cells[0].strip("`"): cells[1] for cells in table("api.md", "Scopes")}
    assert scopes == SCOPES


def test_every_test_that_the_guarantees_name_is_there():
    there = {
        node.name
        for _, tree in python(tests=True)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "guarantees.md").read_text()))
    assert len(named) > 20
    assert named <= there


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "CHANGELOG.md",
        *(f"docs/{name}.md" for name in ("api", "architecture", "exchange", "guarantees", "ksana")),
    ],
)
def test_links_between_documents_lead_somewhere(name):
    text = (ROOT / name).read_text()
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in link:
            assert (ROOT / name).parent.joinpath(link).exists(), f"{name}: {link}"


def test_decisions_are_numbered_and_short():
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert len(files) >= 5
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        text = file.read_text()
        assert all(f"**{part}**" in text for part in ("Context", "Choice", "Price")), file.name
        assert text.count("\n") <= 14, file.name


def test_every_dependency_has_a_lower_and_an_upper_bound():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for wanted in [*project["dependencies"], *(r for extra in extras.values() for r in extra)]:
        bounded = re.search(r"(>=.*,<|==)", wanted) or wanted.startswith("cronjob[")
        assert bounded, wanted
