"""What the system checks find wrong with the settings, and the remedy they tell."""

import pytest
from django.core.checks import run_checks

from cronjob import checks


def found(deploy=True):
    told = run_checks(include_deployment_checks=deploy)
    return {message.id: message.hint for message in told if message.id.startswith("cronjob.")}


def test_the_settings_of_the_tests_are_in_order():
    assert found() == {}
    assert checks.production() == ""


@pytest.mark.parametrize(
    ("changed", "name", "remedy"),
    [
        ({"SECRET_KEY": ""}, "cronjob.E001", "manage.py up"),
        ({"SECRET_KEY": "short"}, "cronjob.E005", "at least 50"),
        ({"CRONJOB_LEASE_SECONDS": 14}, "cronjob.E002", "CRONJOB_LEASE_SECONDS"),
        (
            {"CRONJOB_REDIS_URL": "redis://a", "CRONJOB_REDIS_CLUSTER_URLS": "redis://b"},
            "cronjob.E003",
            "Keep one",
        ),
        ({"CRONJOB_DEFAULT_HEADERS": {"X": "a\r\nb"}}, "cronjob.E004", "CRONJOB_DEFAULT_HEADERS"),
        ({"ALLOWED_HOSTS": ["*"]}, "cronjob.E010", "CRONJOB_ALLOWED_HOSTS"),
    ],
)
def test_what_is_wrong_is_told_with_a_remedy_and_stops_the_web(settings, changed, name, remedy):
    for setting, value in changed.items():
        setattr(settings, setting, value)
    assert remedy in found()[name]
    assert remedy in checks.production()


def test_debugging_is_not_for_the_web(settings):
    settings.DEBUG = True
    assert "CRONJOB_DEBUG" in checks.production()


def test_https_that_would_redirect_for_ever_is_warned_about(settings):
    settings.CRONJOB_HTTPS = True
    assert "CRONJOB_TRUSTED_PROXIES" in found()["cronjob.W002"]
    assert "CRONJOB_TRUSTED_PROXIES" in checks.warnings()


@pytest.mark.parametrize(
    ("url", "hosts", "https", "found"),
    [
        ("", [], False, []),
        ("http://127.0.0.1:8000", [], False, []),
        ("https://cron.example.com", ["cron.example.com"], True, []),
        ("https://cron.example.com/sub", [".example.com"], True, []),
        ("https://cron.example.com", [], False, ["cronjob.W003"]),
        ("http://cron.example.com", ["cron.example.com"], True, ["cronjob.W004"]),
    ],
)
def test_a_base_url_to_which_no_callback_would_find_its_way_is_told(
    settings, url, hosts, https, found
):
    settings.CRONJOB_BASE_URL, settings.ALLOWED_HOSTS, settings.CRONJOB_HTTPS = url, hosts, https
    assert [problem.id for problem in checks.base_url(None)] == found
