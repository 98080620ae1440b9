"""Whether a failed attempt is made again, and when: pure, so that tests know it to the second."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from runs.states import ErrorKind
from tasks import rules

if TYPE_CHECKING:
    from runs.calls import Outcome

PASSING = (408, 425, 429)  # of the 4xx, those that may be over soon
UNHEARD = (ErrorKind.CONNECT, ErrorKind.TIMEOUT, ErrorKind.BODY)
JITTER = 0.2
DOUBLINGS_MAX = 64  # more than any delay has room for, and no float overflows


def retryable(outcome: "Outcome") -> bool:
    """Whether another try may end better. A status that came decides, also if its body did not."""
    if outcome.code is not None and not 200 <= outcome.code < 300:
        heard = outcome.kind in (ErrorKind.HTTP, *UNHEARD)
        return heard and (outcome.code in PASSING or 500 <= outcome.code < 600)
    return outcome.kind in UNHEARD


def next_try(
    outcome: "Outcome", retries_done: int, *, policy: Mapping[str, Any], now: datetime, key: str
) -> datetime | None:
    """When it is tried again; None if it is not. A target may ask for more patience, not less."""
    policy = rules.RETRY_DEFAULTS | dict(policy)
    again = retryable(outcome)
    if outcome.kind == ErrorKind.CALLBACK:
        again = policy["retry_on_callback_failure"]
    if not again or retries_done >= policy["max_retries"]:
        return None
    wait = max(delay(policy, retries_done + 1, key=key), outcome.retry_after or 0)
    return now + timedelta(seconds=wait)


def delay(policy: Mapping[str, Any], retry: int, *, key: str) -> float:
    """Seconds before retry 1, 2, 3…; the same key and retry always wait the same."""
    policy = rules.RETRY_DEFAULTS | dict(policy)
    wait = float(policy["initial_delay"])
    if policy["strategy"] == "exponential":
        wait = min(wait * 2.0 ** min(retry - 1, DOUBLINGS_MAX), float(policy["max_delay"]))
    if policy["jitter"]:
        wait *= 1 + JITTER * (2 * share(f"{key}:{retry}") - 1)
    return wait


def share(key: str) -> float:
    """A number from 0 to 1 that looks like chance."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) / 2**64


def asked_for(headers: Mapping[str, str], *, seen: datetime, most: float) -> float | None:
    """Seconds that an answer asks to be left alone for; its header names are in lower case."""
    told = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]+", told):
        return min(float(told), most)
    until = time_of(told)
    if until is None:
        return None
    # By the clock of who wrote it, if that can be known.
    wait = until - (time_of(headers.get("date", "")) or seen)
    return min(max(wait.total_seconds(), 0.0), most)


def time_of(text: str) -> datetime | None:
    """An HTTP date, in any of its three forms."""
    try:
        told = parsedate_to_datetime(text[:64])
        return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
