"""Every row of the tables of the API has its test, and every operation that there is has a row."""

from importlib import import_module

import pytest

from cronjob.api.errors import CODES
from tests import marks
from tests.api.contract import ROWS

pytestmark = marks.sqlite

PLACES = (
    "tests.api.test_contract_tasks", "tests.api.test_contract_runs",
    "tests.api.test_contract_errors", "tests.api.test_contract_documents", "tests.api.test_bulk",
    "tests.api.test_errors", "tests.tasks.test_changes", "tests.tasks.test_ksana",
    "tests.runs.test_explain", "tests.callbacks.test_reading",
)  # fmt: skip
TESTS = {name for place in PLACES for name in vars(import_module(place))}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_its_test(row):
    assert ROWS[row] in TESTS


def test_every_operation_of_the_description_has_a_row(reader):
    paths = reader.get("/api/schema/").json()["paths"]
    told = {
        f"{verb.upper()} {path.removeprefix('/api/v1')}"
        for path, verbs in paths.items()
        for verb in verbs
    }
    assert told - set(ROWS) == set()


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_an_error_has_its_test(code):
    named = f"test_{code.lower()}_is"
    assert any(name.startswith(named) for name in TESTS)
