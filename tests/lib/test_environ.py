"""Settings are read by kind; a bad one says its name, its value and the remedy."""

import ipaddress
import json
from pathlib import Path

import pytest

from cronjob.lib import environ
from cronjob.lib.environ import BadSetting, Environ, Option
from cronjob.lib.masking import MASK

NAME = "CRONJOB_X"
PASSWORD = "hunter2"
LEVELS = ("low", "high", "")


def read(kind, text, *, default="", **rules):
    return getattr(Environ({NAME: text}), kind)(NAME, default, "meaning", **rules)


def parsed(parse, text):
    return Environ({NAME: text}).read(NAME, "", parse, "meaning")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        *[("flag", text, True) for text in ("1", "true", "YES", "On", " 1 ")],
        *[("flag", text, False) for text in ("0", "false", "NO", "Off", "")],
        ("text", "  as it is ", "as it is"),
        ("integer", " 16 ", 16),
        ("integer", "0", 0),
        ("number", "0.5", 0.5),
        ("number", "7", 7.0),
        ("names", " a, b ,,c,", ["a", "b", "c"]),
        ("names", "", []),
        ("networks", "", []),
        ("strings", "", {}),
        ("strings", '{"X-Team": "billing"}', {"X-Team": "billing"}),
    ],
)
def test_each_kind_is_read_as_people_write_it(kind, text, value):
    assert read(kind, text) == value


def test_networks_of_both_versions_are_read():
    wanted = [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1/128")]
    assert read("networks", "10.0.0.0/8, ::1") == wanted


@pytest.mark.parametrize(("text", "value"), [("low", "low"), ("HIGH", "high"), ("", "")])
def test_a_choice_is_read_in_any_case(text, value):
    assert read("choice", text, among=LEVELS) == value


@pytest.mark.parametrize("text", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
def test_a_zone_is_read_by_its_name(text):
    assert parsed(environ.zone, text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("https://cronjob.example.com", "https://cronjob.example.com"),
        ("https://cronjob.example.com/", "https://cronjob.example.com"),
        ("http://[::1]:8000/sub/path/", "http://[::1]:8000/sub/path"),
    ],
)
def test_an_origin_is_read_without_its_last_slash(text, value):
    assert parsed(environ.origin, text) == value


@pytest.mark.parametrize(
    ("kind", "rules", "text", "problem"),
    [
        ("flag", {}, "2", "must be 1 or 0"),
        ("flag", {}, "maybe", "must be 1 or 0"),
        ("integer", {}, "many", "must be a number from 0 to 2147483647"),
        ("integer", {}, "1.5", "must be a number from 0 to 2147483647"),
        ("integer", {}, "", "must be a number from 0 to 2147483647"),
        ("integer", {}, "-1", "must be a number from 0 to 2147483647"),
        ("integer", {"least": 2}, "1", "must be a number from 2 to 2147483647"),
        pytest.param("integer", {}, "9" * 5000, "must be a number from 0 to 2147483647", id="long"),
        ("number", {"least": 0.5}, "0.4", "must be a number from 0.5 to 2147483647"),
        ("number", {}, "nan", "must be a number from 0 to 2147483647"),
        ("number", {}, "inf", "must be a number from 0 to 2147483647"),
        ("number", {}, "1s", "must be a number from 0 to 2147483647"),
        ("choice", {"among": LEVELS}, "middle", "must be one of low, high"),
        ("networks", {}, "10.0.0.0/33", "must be CIDRs such as 10.0.0.0/8, by commas ("),
        ("networks", {}, "10.0.0.1/8", "has host bits set"),
        ("networks", {}, "::1, nonsense", "'nonsense'"),
    ],
)
def test_a_bad_value_tells_its_name_itself_and_the_remedy(kind, rules, text, problem):
    with pytest.raises(BadSetting) as caught:
        read(kind, text, default="7", **rules)
    told = str(caught.value)
    assert told.startswith(f"{NAME}={text!r}: ")
    assert problem in told
    assert told.endswith(". Correct it, or leave it out for the default '7'.")
    assert "\n" not in told


@pytest.mark.parametrize(
    "text", ["Mars", "Europe", "", "../../etc/passwd", "/etc/passwd", "x" * 300]
)
def test_what_is_no_time_zone_is_refused(text):
    with pytest.raises(BadSetting, match="must be an IANA time zone such as Europe/Berlin"):
        parsed(environ.zone, text)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "cronjob.example.com",
        "ftp://h",
        "http://",
        "http:///path",
        "https://h?a=1",
        "https://h#a",
        "https://h[",
        "https://somebody@h",
        "https://u:p@h",
        "http://h:abc",
        "http://h:99999",
        "http://:p@h",
    ],
)
def test_what_is_no_origin_is_refused(text):
    with pytest.raises(BadSetting, match=rf"^{NAME}=.+ Correct it, or leave it out"):
        parsed(environ.origin, text)


@pytest.mark.parametrize(
    "text", [f"[{PASSWORD!r}]", f'["{PASSWORD}"]', f'{{"Authorization": ["{PASSWORD}"]}}', "{"]
)
def test_what_is_no_object_of_strings_is_refused_without_being_told(text):
    with pytest.raises(BadSetting, match="must be a JSON object") as caught:
        read("strings", text)
    assert str(caught.value).startswith(f"{NAME}={MASK}: ")
    assert PASSWORD not in str(caught.value)


def test_a_bad_secret_is_not_told():
    def refuse(text):
        raise ValueError("must be better")

    with pytest.raises(BadSetting) as caught:
        Environ({NAME: PASSWORD}).read(NAME, "", refuse, "meaning", secret=True)
    assert str(caught.value).startswith(f"{NAME}={MASK}: must be better. ")
    assert PASSWORD not in str(caught.value)


# Though CRONJOB_BASE_URL is no secret.
def test_an_origin_with_a_password_is_refused_without_telling_the_password():
    with pytest.raises(BadSetting) as caught:
        parsed(environ.origin, f"https://u:{PASSWORD}@h/")
    assert PASSWORD not in str(caught.value)


def test_what_is_left_out_has_its_default_and_is_remembered_with_it():
    env = Environ({})
    assert env.integer(NAME, "16", "how many") == 16
    option = env.options[NAME]
    assert option == Option(name=NAME, default="16", meaning="how many", value=16, secret=False)


def test_a_name_that_nobody_read_is_unknown():
    env = Environ({"CRONJOB_SLOTS": "1", "CRONJOB_SLOT": "1", "CRONJOB_A": "1", "PATH": "/bin"})
    env.integer("CRONJOB_SLOTS", "16", "calls")
    assert env.unknown("CRONJOB_") == ["CRONJOB_A", "CRONJOB_SLOT"]


def shown(value, *, secret=False):
    return Option(name=NAME, default="", meaning="", value=value, secret=secret).shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "1"),
        (False, "0"),
        (0, "0"),
        (16, "16"),
        ("UTC", "UTC"),
        (Path("var"), "var"),
        (["a", "b"], "a,b"),
        ([ipaddress.ip_network("10.0.0.0/8")], "10.0.0.0/8"),
        ({"a": "b"}, '{"a": "b"}'),
        ("", ""),
        (None, ""),
        ([], ""),
        ({}, "{}"),
    ],
)
def test_a_value_is_shown_as_one_would_write_it(value, text):
    assert shown(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (PASSWORD, MASK),
        ({"Authorization": PASSWORD, "Referer": "http://h/"}, MASK),
        ("", ""),
        ({}, "{}"),
        (f"postgresql://u:{PASSWORD}@h:5432/x", f"postgresql://u:{MASK}@h:5432/x"),
        (f"postgresql://u:{PASSWORD}@h/x?sslmode=require", f"postgresql://u:{MASK}@h/x"),
        (f"postgresql://h/x?user=u&password={PASSWORD}", "postgresql://h/x"),
        (f"postgresql://u:%40{PASSWORD}%2F@h/x", f"postgresql://u:{MASK}@h/x"),
        (f"postgresql://u:a@{PASSWORD}@h/x", MASK),  # who knows where the password ends
        ("postgresql://cron:cron@h/cron", f"postgresql://cron:{MASK}@h/cron"),
        (f"redis://:{PASSWORD}@h:6379/0", f"redis://:{MASK}@h:6379/0"),
        ("sqlite:////var/x.sqlite3", "sqlite:////var/x.sqlite3"),
    ],
)
def test_a_secret_is_shown_masked_and_a_url_without_its_password(value, text):
    assert shown(value, secret=True) == text


@pytest.mark.parametrize(
    "value",
    [
        f"redis://:first@a:6379,redis://:{PASSWORD}@b:6379",
        f"redis://:{PASSWORD}/@h:6379/0",
        f"redis://:{PASSWORD}#@h:6379/0",
        f"redis://:{PASSWORD}?@h:6379/0",
        f"redis://:{PASSWORD}[@h:6379/0",
        f"token://{PASSWORD}",
    ],
)
def test_a_secret_that_is_not_a_proper_url_is_not_shown_either(value):
    assert PASSWORD not in shown(value, secret=True)


def test_json_of_a_value_that_is_shown_can_be_read_again():
    assert read("strings", shown({"X-Team": "a, b"})) == json.loads('{"X-Team": "a, b"}')
