"""Random uuids, as `uuid.uuid4` makes them, but many at a time: to ask the system for each of them
lets another thread take its turn each time, which takes longer than all the rest of a new run.
"""

import os
from uuid import UUID

SIZE = 16
MANY = 256

_unused: list[UUID] = []
os.register_at_fork(after_in_child=_unused.clear)  # they are the parent's


def fresh() -> UUID:
    while True:
        try:
            return _unused.pop()
        except IndexError:
            random = os.urandom(SIZE * MANY)
            parts = (random[n : n + SIZE] for n in range(0, len(random), SIZE))
            _unused.extend(UUID(bytes=part, version=4) for part in parts)
