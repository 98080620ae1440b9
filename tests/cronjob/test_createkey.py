"""`createkey` prints a new key, alone, and keeps only its hash."""

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from cronjob.api.models import SCOPES, ApiKey
from cronjob.lib import clock
from tests import marks
from tests.factories import Api

pytestmark = marks.both


def create(*arguments):
    """What was printed on standard output, and on standard error."""
    out, err = io.StringIO(), io.StringIO()
    call_command("createkey", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def refused(*arguments):
    """Why it was refused, in one line; nothing was made and nothing printed."""
    before = ApiKey.objects.count()
    out = io.StringIO()
    with pytest.raises(CommandError) as caught:
        call_command("createkey", *arguments, stdout=out)
    assert (out.getvalue(), ApiKey.objects.count()) == ("", before)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_key_is_alone_on_standard_output_and_it_opens():
    out, err = create("ci")
    text = out.removesuffix("\n")
    assert (err, text.split()) == ("", [text])
    assert Api(text).get("tasks").status_code == 200
    key, _ = ApiKey.objects.find(text)
    assert key.name == "ci"


def test_only_the_hash_of_the_key_is_kept():
    text = create("ci")[0].strip()
    secret = text.split("_", 2)[2]
    (kept,) = ApiKey.objects.values()
    assert not [name for name, value in kept.items() if secret in str(value)]


def test_every_key_is_another():
    assert len({create(f"ci {number}")[0] for number in range(5)}) == 5


def test_without_a_scope_it_may_read_and_nothing_else():
    api = Api(create("ci")[0].strip())
    key = ApiKey.objects.get()
    assert (key.scopes, key.queues, key.nodes, key.expires_at) == (["read"], [], [], None)
    assert api.post("tasks", {}).status_code == 403


def test_it_has_the_scopes_that_are_named():
    create("ci", "--scope", "read", "--scope", "operate")
    assert ApiKey.objects.get().scopes == ["read", "operate"]


@pytest.mark.parametrize("scope", SCOPES)
def test_every_scope_may_be_named(scope):
    create("ci", "--scope", scope)
    assert ApiKey.objects.get().scopes == [scope]


def test_a_worker_is_bound_to_the_queues_and_a_node_to_the_ids_that_are_named():
    create("ci", "--scope", "worker", "--queue", "a", "--queue", "b", "--node", "n1")
    key = ApiKey.objects.get()
    assert (key.queues, key.nodes) == (["a", "b"], ["n1"])


@pytest.mark.parametrize(
    ("text", "life"),
    [
        ("90d", timedelta(days=90)),
        ("12h", timedelta(hours=12)),
        ("1h30m", timedelta(minutes=90)),
        ("45s", timedelta(seconds=45)),
    ],
)
def test_it_lives_as_long_as_is_said(text, life):
    create("ci", "--expires", text)
    key = ApiKey.objects.get()
    assert key.expires_at - key.created_at == life
    assert key.usable(key.created_at)
    assert not key.usable(key.expires_at)


def test_it_is_made_at_the_time_of_the_database():
    before = clock.now()
    create("ci")
    assert before <= ApiKey.objects.get().created_at <= clock.now()


@pytest.mark.parametrize("text", ["soon", "0d", "-1d", "90 days", "20y", "4000d"])
def test_a_life_that_cannot_be_read_is_refused(text):
    assert refused("ci", f"--expires={text}").startswith("--expires: ")


# Or else `--expires "$DAYS"` without DAYS makes a key that lives for ever.
def test_a_life_that_is_left_empty_is_refused():
    assert refused("ci", "--expires=").startswith("--expires: ")


def test_a_scope_that_there_is_not_is_refused_with_those_there_are():
    told = refused("ci", "--scope", "everything")
    assert "everything" in told
    assert all(scope in told for scope in SCOPES)


def test_a_name_is_given_once():
    first = create("ci")[0].strip()
    assert "already exists" in refused("ci", "--scope", "write")
    assert ApiKey.objects.get().scopes == ["read"]
    assert Api(first).get("tasks").status_code == 200


@pytest.mark.parametrize("name", ["", "x" * 129])
def test_a_name_that_cannot_be_kept_is_refused(name):
    assert refused(name)


def test_a_name_is_required():
    assert "name" in refused()
