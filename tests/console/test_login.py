from datetime import timedelta

import pytest
from django.test import Client

from cronjob.console.login import FAILURES_MAX
from cronjob.console.models import LoginFailure
from tests import marks
from tests.factories import make_user

pytestmark = marks.both
LOGIN = "/admin/login/"


@pytest.fixture(autouse=True)
def person(db):
    return make_user("ada", is_staff=True)


def login(password="a password for tests", *, name="ada", address="192.0.2.1"):
    form = {"username": name, "password": password}
    return Client(REMOTE_ADDR=address).post(LOGIN, form)


def test_the_right_password_opens_the_console_and_forgets_failures():
    assert "correct username and password" in login("wrong").text.replace("\n", " ")
    answer = login()
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")
    assert LoginFailure.objects.count() == 0


def test_after_ten_failures_even_the_right_password_must_wait():
    for _ in range(FAILURES_MAX):
        login("wrong")
    answer = login()
    assert answer.status_code == 200
    assert "Wait 15 minutes" in answer.text


def test_another_account_or_another_address_does_not_wait():
    make_user("bob", is_staff=True)
    for _ in range(FAILURES_MAX):
        login("wrong")
    assert login(name="bob").status_code == 302
    assert login(address="192.0.2.2").status_code == 302
    assert login(name="ADA").status_code == 200


def test_after_a_quarter_of_an_hour_one_may_try_again():
    for _ in range(FAILURES_MAX):
        login("wrong")
    for failure in LoginFailure.objects.all():
        failure.at -= timedelta(minutes=15)
        failure.save()
    assert login().status_code == 302
