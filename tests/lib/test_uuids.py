"""A uuid is random, and nobody else's: whichever thread or process asked for it."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from cronjob.lib import uuids

MANY = 10 * uuids.MANY


def test_each_is_a_random_uuid():
    made = [uuids.fresh() for _ in range(MANY)]
    assert {one.version for one in made} == {4}
    assert {one.variant for one in made} == {"specified in RFC 4122"}
    assert len({*made}) == MANY


def test_no_two_threads_get_the_same():
    with ThreadPoolExecutor(8) as threads:
        made = [one.result() for one in [threads.submit(uuids.fresh) for _ in range(MANY)]]
    assert len({*made}) == MANY


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_has_none_of_its_parents():
    uuids.fresh()  # from now on there are some that nobody got yet
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(writer, "".join(uuids.fresh().hex for _ in range(100)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    told = os.read(reader, 100 * 32).decode()
    os.close(reader)
    theirs = {told[n : n + 32] for n in range(0, len(told), 32)}
    assert len(theirs) == 100
    assert theirs.isdisjoint(uuids.fresh().hex for _ in range(uuids.MANY))
