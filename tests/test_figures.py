"""What the docs say was measured is what the benches printed, letter by letter."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RESULTS = sorted((ROOT / "bench/results").glob("*.md"))
ENGINE, README = ((ROOT / name).read_text() for name in ("docs/engine.md", "README.md"))
ELSEWHERE = {"cron"}  # in docs/bench-cron.md, every row
MEASURED = re.compile(r"bench/results/(\w+)\.md\)")
FIGURE = re.compile(r"\d+(?:[.,]\d+)+")


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def quoting() -> dict[str, str]:
    """The sections of the docs that say which result they are of."""
    sections = re.split(r"^## ", ENGINE, flags=re.MULTILINE)[1:]
    return {found[0]: text for text in sections if (found := MEASURED.findall(text))}


def test_all_results_are_in_the_docs():
    assert {*quoting()} == {path.stem for path in RESULTS} - ELSEWHERE


@pytest.mark.parametrize("name", quoting())
def test_a_table_of_the_docs_is_the_one_that_was_printed(name):
    told = rows(quoting()[name])
    assert len(told) > 2
    assert told == rows((ROOT / f"bench/results/{name}.md").read_text())


def test_figures_in_the_readme_are_those_of_the_burst():
    (said,) = [part for part in README.split("\n\n") if "[the same run](" in part]
    printed = (ROOT / "bench/results/burst.md").read_text()
    figures = FIGURE.findall(said)
    assert len(figures) >= 3
    assert [figure for figure in figures if figure not in printed] == []


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_each_result_says_on_what_machine_and_is_drawn(path):
    text = path.read_text()
    assert re.search(r"^\d+ cores \(.+\), Linux .+ Python 3", text, re.M)
    (picture,) = re.findall(r"!\[.+\]\((\w+\.svg)\)", text)
    assert (path.parent / picture).read_text().lstrip().startswith("<?xml")
