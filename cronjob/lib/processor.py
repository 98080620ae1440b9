"""What this process and its machine have computed by now."""

import os
import time
from typing import NamedTuple


class Times(NamedTuple):
    at: float
    ours: float  # seconds that this process computed
    idle: float  # seconds that some processor of this machine had nothing to do


def times() -> Times:
    return Times(time.monotonic(), time.process_time(), idle_seconds())


def idle_seconds() -> float:
    """0 where nobody tells."""
    try:
        with open("/proc/stat") as file:
            return int(file.readline().split()[4]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
