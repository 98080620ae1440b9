"""What all peers share: what they are started for, and the call they make with requests."""

import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import requests

VERB, *GIVEN = sys.argv[1:] or ["worker"]
COUNT = int(GIVEN[0]) if GIVEN else 0
URL = GIVEN[-1] if GIVEN else ""

local = threading.local()


def call(url: str) -> int:
    """One GET, on a session that its thread keeps."""
    session = getattr(local, "session", None)
    if session is None:
        session = local.session = requests.Session()
    return session.get(url, timeout=15).status_code


def jobs() -> Iterator[tuple[datetime, str]]:
    """When each planted job is due, and what it calls."""
    due, step = int(GIVEN[1]), int(GIVEN[2])
    for number in range(COUNT):
        at = due + number * step
        yield datetime.fromtimestamp(at / 1e6, UTC), f"{URL}{at}/{number}"
