"""What a person sees and does: every page in light and dark, without a single error."""

import json
import re
import urllib.request

import pytest

pytestmark = pytest.mark.browser

PAGES = {
    "/admin/": "Overview",
    "/admin/tasks/task/": "demo: every ten seconds",
    "/admin/tasks/task/add/": "If it overlaps or fails",
    "/admin/runs/taskrun/": "Runs",
    "/admin/callbacks/asynccallback/": "No callback yet",
    "/admin/tasks/change/": "demo: every ten seconds",
    "/admin/api/apikey/": "first key",
    "/admin/api/apikey/add/": "Give as little as does the work",
    "/admin/auth/user/": "admin",
    "/admin/auth/group/": "operator",
    "/api/docs/": "/api/v1/tasks/{id}/enable",
    "/api/v1/tasks": "demo: every ten seconds",
}


def test_every_page_opens_and_fits_the_window(visit):
    page = visit.login()
    for path, text in PAGES.items():
        visit.go(path)
        assert text in page.inner_text("body"), path
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{path} is {wide} pixels wider than the window"


def test_a_task_is_made_changed_and_deleted_in_the_form(visit, request):
    name = f"made in {request.node.callspec.id}"
    page = visit.login()
    visit.go("/admin/tasks/task/add/")
    page.fill("#id_name", name)
    page.fill("#id_tags", "one, two")
    page.fill("#id_target_url", "http://127.0.0.1:9/never")
    page.fill("#id_headers", "X-A: 1\nX-B: {{ run_id }}")
    page.select_option("#id_schedule_kind", "EVERY")
    page.wait_for_selector("#id_cron_expr", state="hidden")
    page.fill("#id_every_seconds", "1h30m")
    assert page.input_value("[name=retry_policy_max_delay]") == "60"
    assert page.input_value("[name=retry_policy_strategy]") == "exponential"
    page.fill("[name=retry_policy_max_retries]", "3")
    page.click("[name=_continue]")
    page.wait_for_load_state("networkidle")
    pk = re.search(r"/task/(\d+)/change/", page.url)[1]
    assert page.input_value("#id_headers") == "X-A: 1\nX-B: {{ run_id }}"
    assert page.input_value("[name=retry_policy_max_retries]") == "3"

    ask = urllib.request.Request(
        f"{visit.site.origin}/api/v1/tasks/{pk}",
        headers={"Authorization": f"Bearer {visit.site.key}"},
    )
    with urllib.request.urlopen(ask, timeout=30) as answer:
        told = json.load(answer)
    assert (told["name"], told["every"], told["tags"]) == (name, "1h30m", ["one", "two"])
    assert told["retry_policy"]["max_retries"] == 3

    page.fill("#id_every_seconds", "never")
    page.click("[name=_save]")
    page.wait_for_load_state("networkidle")
    assert "Cannot read" in page.inner_text("body")

    visit.go(f"/admin/tasks/task/{pk}/delete/")
    page.click("#content [type=submit]")
    page.wait_for_load_state("networkidle")
    assert name in page.inner_text("body")  # the message says what was deleted
    assert name not in visit.go("/admin/tasks/task/").inner_text("body")


def test_the_form_shows_the_coming_moments_while_one_types(visit):
    page = visit.login()
    visit.go("/admin/tasks/task/add/")

    def typed(field, value, shown):
        page.fill(field, value)
        page.wait_for_function(
            "text => document.querySelector('#console-coming').innerText.includes(text)", arg=shown
        )

    typed("#id_cron_expr", "30 2 * * *", "At 02:30 (UTC)")
    typed("#id_timezone", "Europe/Berlin", "At 02:30 (Europe/Berlin)")
    page.fill("#id_start_at_0", "2130-03-25")
    typed("#id_start_at_1", "12:00:00", "02:30 moved to 03:00: clocks go forward 02:00 → 03:00")
    typed("#id_cron_expr", "0 24 * * *", "hour: 24 is out of range, 0 to 23.")
    page.select_option("#id_schedule_kind", "EVERY")
    typed("#id_every_seconds", "5m", "Every 5m")
    assert page.locator("#console-coming tbody tr").count() == 10


def test_a_key_made_in_the_console_is_shown_and_works(visit, request):
    page = visit.login()
    visit.go("/admin/api/apikey/add/")
    page.fill("#id_name", f"key of {request.node.callspec.id}")
    page.click("[name=_save]")
    page.wait_for_load_state("networkidle")
    text = page.inner_text("#console-key").strip()
    ask = urllib.request.Request(
        f"{visit.site.origin}/api/v1/tasks", headers={"Authorization": f"Bearer {text}"}
    )
    with urllib.request.urlopen(ask, timeout=30) as answer:
        assert answer.status == 200
    assert text not in visit.go("/admin/api/apikey/").content()


def test_tasks_are_disabled_and_enabled_from_the_list(visit):
    page = visit.login()
    for action, label in (("disable", "DISABLED"), ("enable", "ENABLED")):
        visit.go("/admin/tasks/task/?q=when+you+say")
        page.check("tbody .action-select")
        page.select_option("[name=action]", action)
        page.click("[name=index]")
        page.wait_for_load_state("networkidle")
        row = page.inner_text("#result_list tbody").upper()
        assert label in row
