"""Named places at which a test can make a process fail; nothing happens unless one is armed.

FAILPOINTS="settle.committed=exit,claim.committed=raise:0.1" kills the process at the one, and
raises at the other one time in ten. What is armed for a test is never armed in production.
"""

import os
import random
import signal
import threading

NAMES = (
    "materialise.read", "materialise.advanced", "materialise.committed",
    "claim.locked", "claim.committed",
    "call.before", "call.sent",
    "settle.before", "settle.written", "settle.committed",
    "rescue.written", "drain.released",
    "callback.judged", "callback.written", "expire.committed", "pause.ended",
)  # fmt: skip


class Failpoint(Exception):
    """Raised where a test wants something to go wrong."""


def parse(text: str) -> dict[str, tuple[str, float]]:
    found = {}
    for part in filter(None, text.split(",")):
        name, _, action = part.partition("=")
        verb, _, share = action.partition(":")
        if name not in NAMES or verb not in ("exit", "raise", "stop", "hang"):
            raise ValueError(f"FAILPOINTS: {part!r} is not <name>=exit|raise|stop|hang[:share].")
        found[name] = verb, float(share or 1)
    return found


ARMED = parse(os.environ.get("FAILPOINTS", ""))


def failpoint(name: str) -> None:
    if name not in ARMED:
        return
    verb, share = ARMED[name]
    if random.random() >= share:
        return
    if verb == "raise":
        raise Failpoint(name)
    if verb == "hang":
        threading.Event().wait()
    os.kill(os.getpid(), signal.SIGKILL if verb == "exit" else signal.SIGSTOP)
