"""Who may see and do what in the console."""

import pytest
from django.test import Client

from callbacks.models import AsyncCallback
from runs.models import TaskRun
from tasks.changes import Change
from tasks.models import Task
from tests import marks
from tests.console import house
from tests.console.pages import Page, opened, place, snapshot, urls
from tests.factories import make_task, make_user

pytestmark = marks.both

PEOPLE = ("viewer", "operator", "editor")
SHOWN = (Task, TaskRun, AsyncCallback)  # what all of them see
HIDDEN = ("/admin/api/", "/admin/auth/")
# What a GET of some pages answers by itself, whoever asks; 200 is what all others answer.
ANSWERS = {
    "/admin/login/": 302,  # one is logged in
    "/admin/logout/": 405,  # by POST only
    "/admin/autocomplete/": 403,  # asked for nothing
    "/admin/nowhere/": 404,
}


@pytest.fixture
def rows(groups):
    return house.fill()


@pytest.fixture
def one(groups):
    """The newest row of each model, where the pages are the same for all rows."""
    return {model: found[-1:] for model, found in house.fill().items()}


def pages(verb, rows, models=SHOWN):
    return [f"{place(model)}{row.pk}/{verb}/" for model in models for row in rows[model]]


# --- strangers ------------------------------------------------------------------------------


def test_a_stranger_is_sent_to_the_login_from_every_page(one):
    stranger, before = Client(), snapshot()
    for url in urls(one):
        if url == "/admin/login/":
            assert stranger.get(url).status_code == 200
            continue
        for ask in (stranger.get, stranger.post):
            answer = ask(url)
            if url == "/admin/logout/":
                assert (answer.status_code, answer["Location"]) == (302, "/admin/")
            else:
                expected = f"/admin/login/?next={url}"
                assert (answer.status_code, answer.headers.get("Location")) == (302, expected), url
    assert snapshot() == before


def test_a_person_without_any_right_sees_an_empty_console(one, login):
    guest = login("")
    assert guest.get("/admin/").status_code == 200
    own = tuple(place(model) for model in one)
    for url in urls(one):
        if url.startswith(own):
            for ask in (guest.get, guest.post):
                answer = ask(url, follow=True)
                assert answer.status_code == 403, url


def test_a_login_without_the_staff_flag_opens_nothing(groups):
    customer = Client()
    customer.force_login(make_user("customer", group="editor"))
    assert customer.get("/admin/tasks/task/")["Location"].startswith("/admin/login/")


# --- viewers --------------------------------------------------------------------------------


@pytest.mark.parametrize("person", PEOPLE)
def test_all_groups_see_the_lists_and_details_of_tasks_runs_and_callbacks(one, login, person):
    browser = login(person)
    for url in [place(model) for model in SHOWN] + pages("change", one) + pages("history", one):
        assert browser.get(url).status_code == 200, url


def test_a_viewer_sees_tasks_of_every_kind_and_runs_in_every_status(rows, viewer):
    for url in pages("change", rows):
        assert viewer.get(url).status_code == 200, url


@pytest.mark.parametrize("person", PEOPLE)
def test_only_an_editor_sees_the_secrets_of_a_task(one, login, person):
    browser = login(person)
    for url in [place(Task), *pages("change", one, [Task])]:
        text = browser.get(url).content.decode()
        told = [secret for secret in house.SECRETS if secret in text]
        seen = house.SECRETS if person == "editor" and url != place(Task) else []
        assert told == seen, url


def test_a_viewer_may_not_add_change_or_delete_anything(one, viewer):
    before = snapshot()
    for url in [f"{place(model)}add/" for model in SHOWN] + pages("delete", one):
        assert (viewer.get(url).status_code, viewer.post(url).status_code) == (403, 403), url
    for url in pages("change", one):
        assert viewer.post(url, {"name": "x", "_save": "1"}).status_code == 403, url
    assert snapshot() == before


def test_a_viewer_sees_no_action_and_no_way_to_add(one, viewer):
    for model in SHOWN:
        page = Page(viewer.get(place(model)))
        assert page.options("action") == []
        assert "_selected_action" not in page.names()
        assert f"{place(model)}add/" not in page.links
    for url in pages("change", one):
        page = Page(viewer.get(url))
        assert not page.names() & {"_save", "name", "target_url"}, url
        assert url.replace("/change/", "/delete/") not in page.links


def test_a_viewer_cannot_run_an_action_by_sending_its_name(one, viewer):
    before = snapshot()
    chosen = [str(task.pk) for task in Task.objects.all()]
    for action in ("enable", "disable", "delete_selected"):
        sent = {"action": action, "_selected_action": chosen, "index": "0", "post": "yes"}
        assert viewer.post(place(Task), sent).status_code in (200, 302, 403)
    assert snapshot() == before


# --- operators and editors ------------------------------------------------------------------


def test_an_operator_is_offered_running_enabling_and_disabling_and_nothing_else(one, operator):
    page = Page(operator.get(place(Task)))
    assert page.options("action") == ["run_now", "enable", "disable"]
    assert f"{place(Task)}add/" not in page.links


def test_an_operator_may_not_add_edit_or_delete(one, operator):
    before = snapshot()
    for url in [f"{place(Task)}add/", *pages("delete", one, [Task])]:
        assert (operator.get(url).status_code, operator.post(url).status_code) == (403, 403)
    for url in pages("change", one, [Task]):
        assert operator.post(url, {"name": "x", "_save": "1"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [one[Task][0].pk], "post": "yes"}
    operator.post(place(Task), chosen)
    operator.post(place(Task), chosen | {"index": "0"})
    assert snapshot() == before


def test_an_editor_is_offered_everything_about_tasks(one, editor):
    page = Page(editor.get(place(Task)))
    assert set(page.options("action")) == {"delete_selected", "run_now", "enable", "disable"}
    assert f"{place(Task)}add/" in page.links
    for url in [f"{place(Task)}add/", *pages("delete", one, [Task])]:
        assert editor.get(url).status_code == 200


def test_an_editor_adds_edits_and_deletes_a_task(editor):
    new = opened(editor, f"{place(Task)}add/", "task_form")
    new |= {"name": "mine", "target_url": "http://svc/x", "schedule_kind": "MANUAL"}
    assert editor.post(f"{place(Task)}add/", new).status_code == 302
    url = f"{place(Task)}{Task.objects.get(name='mine').pk}"
    changed = opened(editor, f"{url}/change/", "task_form") | {"name": "yours"}
    assert editor.post(f"{url}/change/", changed).status_code == 302
    assert editor.post(f"{url}/delete/", {"post": "yes"}).status_code == 302
    assert list(Task.objects.values_list("name", "deleted")) == [("yours", True)]


def test_nobody_changes_runs_and_callbacks_by_hand(one, editor, console):
    before, kept = snapshot(TaskRun, AsyncCallback), (TaskRun, AsyncCallback)
    sent = {"post": "yes", "_save": "1"}
    for browser in (editor, console):
        for model in kept:
            assert browser.post(f"{place(model)}add/", sent).status_code == 403
            offered = Page(browser.get(place(model))).options("action")
            assert offered == (["cancel", "replay"] if model is TaskRun else [])
        for url in pages("change", one, kept) + pages("delete", one, kept):
            assert browser.post(url, sent).status_code == 403, url
    assert snapshot(*kept) == before


@pytest.mark.parametrize("person", PEOPLE)
def test_none_of_the_groups_sees_keys_users_or_groups(one, login, person):
    browser = login(person)
    for url in [url for url in urls(one) if url.startswith(HIDDEN)]:
        for ask in (browser.get, browser.post):
            assert ask(url, follow=True).status_code in (403, 404), url
    for url in ("/admin/", place(Task), "/admin/search/?s=key", "/admin/search/?s=user"):
        page = Page(browser.get(url))
        assert [link for link in page.links if link.startswith(HIDDEN)] == [], url


# --- administrators -------------------------------------------------------------------------


def expected(url):
    """What an administrator is answered."""
    verb = url.rstrip("/").rpartition("/")[2]
    if url.startswith("/admin/r/"):
        return (302, 404)  # models that have a page of their own, and those that have none
    if verb.isdigit():
        return (302,)  # to the page of the row
    written = url.startswith((place(TaskRun), place(AsyncCallback), place(Change)))
    kept = written or url.startswith("/admin/api/apikey/")
    forbidden = (written and verb == "add") or (kept and verb == "delete")
    return (403 if forbidden else ANSWERS.get(url, 200),)


def test_an_administrator_sees_every_page_and_looking_changes_nothing(rows, console):
    before = snapshot()
    seen = {url: console.get(url) for url in urls(house.rows())}
    codes = {url: answer.status_code for url, answer in seen.items()}
    assert {url: code for url, code in codes.items() if code not in expected(url)} == {}
    assert len(seen) > 100
    assert snapshot() == before
    # What targets answer is text on every page, and never markup.
    assert [url for url, answer in seen.items() if b"<script>alert(" in answer.content] == []


def test_an_action_by_get_changes_nothing(one, console):
    before = snapshot()
    for model, (row,) in one.items():
        for action in ("enable", "disable", "delete_selected", "revoke"):
            chosen = {"action": action, "_selected_action": [row.pk], "post": "yes"}
            asked = chosen | {"index": "0", "select_across": "1"}
            assert console.get(place(model), asked).status_code in (200, 302)
        for verb in ("change", "delete", "history"):
            asked = {"post": "yes", "_save": "1", "name": "x", "username": "x"}
            assert console.get(f"{place(model)}{row.pk}/{verb}/", asked).status_code in (200, 403)
    assert snapshot() == before


def test_lists_can_be_searched_counted_sorted_and_asked_nonsense(one, console):
    for model in one:
        for query in ("_facets=True", "q=%22'%25_", "o=1.-2", "o=99", "p=2", "p=x", "nope=1"):
            answer = console.get(f"{place(model)}?{query}", follow=True)
            assert answer.status_code == 200, (model, query)


# --- forged requests ------------------------------------------------------------------------


def test_a_post_without_the_token_of_the_form_is_refused(one):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_user("root", is_superuser=True, is_staff=True))
    before = snapshot()
    chosen = [task.pk for task in Task.objects.all()]
    sent = {"post": "yes", "_save": "1", "action": "disable", "_selected_action": chosen}
    for url in urls({model: model.objects.all()[:1] for model in one}):
        assert browser.post(url, sent).status_code == 403, url
    assert snapshot() == before


def test_a_post_with_the_token_of_the_form_is_taken(login):
    browser = login("editor", enforce_csrf_checks=True)
    task = make_task()
    url = f"{place(Task)}{task.pk}/change/"
    sent = opened(browser, url, "task_form") | {"description": "seen"}
    assert browser.post(url, sent | {"csrfmiddlewaretoken": "x" * 64}).status_code == 403
    assert browser.post(url, sent).status_code == 302
    task.refresh_from_db()
    assert task.description == "seen"
