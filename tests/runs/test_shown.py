"""What of a message may be kept: nothing secret, however it is said."""

import pytest

from cronjob.lib.instances import loaded
from cronjob.lib.masking import MASK
from runs.shown import HEADER_MAX, NAME_MAX, shown_headers

SECRET = "supersecret-value-123456"


def test_plain_headers_are_kept_as_they_are():
    given = {"Content-Type": "text/plain", "X-A": "b" * 100}
    assert shown_headers(given, (), ()) == given


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"Authorization": "x"}, {"Authorization": MASK}),
        ({"My-Pass": "x"}, {"My-Pass": MASK}),
        ({"X-A": f"see {SECRET}"}, {"X-A": f"see {MASK}"}),
        ({f"X-{SECRET}": "a"}, {f"X-{MASK}": "a"}),
        ({"Location": "http://a/?token=x"}, {"Location": f"http://a/?token={MASK}"}),
        ({"X-A": "a\x00b"}, {"X-A": "ab"}),
        ({"X-A": "ü"}, {"X-A": "ü"}),
        ({"X-A": "a" * 9000}, {"X-A": "a" * (HEADER_MAX - 1) + "…"}),
        ({"n" * 300: "a"}, {"n" * NAME_MAX: "a"}),
        ({"a" * 300 + "-token": "x"}, {"a" * NAME_MAX: MASK}),
        ({"x" * 240 + SECRET: "a"}, {"x" * 240 + MASK: "a"}),  # masked, and only then cut
    ],
)
@pytest.mark.parametrize("beside", [{}, {"Date": "today"}])
def test_nothing_secret_and_nothing_too_long_is_kept_of_headers(given, kept, beside):
    assert shown_headers(beside | given, ("my-pass",), (SECRET,)) == beside | kept


@pytest.mark.parametrize("text", ['{"a": [1]}', ' {"a": [1]}', '\n{"a": [1]} '])
def test_json_is_read_however_it_was_written(text):
    assert loaded(text) == {"a": [1]}
