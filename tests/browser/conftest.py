"""The console in a real Chromium, served by `manage.py up` on a database of its own."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.processes import origin, up

# No traffic but ours: the background services of the browser would look for the network.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Site:
    origin: str
    password: str
    key: str


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        why = "there is no Chromium on this machine (Debian: apt-get install chromium)"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)
    from playwright.sync_api import sync_playwright

    # Playwright keeps an event loop in this thread, and Django takes all of it for asynchronous:
    # tests with real processes that run after these in the same worker ask the database, too.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with up(tmp_path_factory.mktemp("site")) as process:
        yield Site(
            origin=origin(process),
            password=process.until(r"Password +(\S+)\n")[1],
            key=process.until(r"API key +(cj_\S+)\n")[1],
        )


class Visit:
    """A page of the console, and whatever went wrong while it was looked at."""

    def __init__(self, page: Any, site: Site) -> None:
        self.page, self.site = page, site
        self.trouble: list[str] = []
        page.on("console", self.heard)
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("requestfailed", self.failed)
        page.on("response", self.answered)
        page.on("request", self.asked)

    def failed(self, request: Any) -> None:
        """Whoever leaves a page breaks off what it was still asking."""
        if request.failure != "net::ERR_ABORTED":
            self.trouble.append(f"failed: {request.url} {request.failure}")

    def heard(self, message: Any) -> None:
        if message.type == "error":
            self.trouble.append(message.text)

    def answered(self, response: Any) -> None:
        if response.status >= 400:
            self.trouble.append(f"{response.status} {response.url}")

    def asked(self, request: Any) -> None:
        if not request.url.startswith((self.site.origin, "data:", "blob:")):
            self.trouble.append(f"asked elsewhere: {request.url}")

    def go(self, path: str) -> Any:
        self.page.goto(self.site.origin + path)
        self.page.wait_for_load_state("networkidle")
        return self.page

    def login(self) -> Any:
        self.go("/admin/")
        self.page.fill("[name=username]", "admin")
        self.page.fill("[name=password]", self.site.password)
        self.page.click("[type=submit]")
        self.page.wait_for_load_state("networkidle")
        return self.page


@pytest.fixture(params=["light", "dark"])
def visit(request: Any, chromium: Any, site: Site) -> Iterator[Visit]:
    context = chromium.new_context(
        color_scheme=request.param, viewport={"width": 1400, "height": 900}
    )
    visit = Visit(context.new_page(), site)
    yield visit
    context.close()
    assert visit.trouble == []
