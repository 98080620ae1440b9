"""Log lines: JSON for machines, text for a terminal, both with the ids that belong together."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from select import PIPE_BUF
from time import gmtime, strftime
from typing import TextIO

from cronjob.lib import masking

request_id: ContextVar[str] = ContextVar("request_id", default="")

# What a caller may hand over in `extra`; anything else stays out of the line.
FIELDS = (
    "action", "trace_id", "task_id", "run_id", "attempt", "status", "err", "latency_ms",
    "target_url", "method", "path", "user",
)  # fmt: skip

ENCODE = json.JSONEncoder(ensure_ascii=False, default=str).encode  # made once, for every line
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def fields(record: logging.LogRecord) -> dict[str, object]:
    known = record.__dict__
    found = {name: known[name] for name in FIELDS if name in known}
    if request_id.get():
        found["request_id"] = request_id.get()
    return found


@lru_cache(maxsize=4)
def second(at: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(at))


class Lines(logging.StreamHandler[TextIO]):
    """To standard error: each line at once, or those that belong together `together`."""

    def emit(self, record: logging.LogRecord) -> None:
        held = held_back.get()
        if held is None:
            return super().emit(record)
        try:
            held.setdefault(self, []).append(self.format(record) + self.terminator)
        except Exception:
            self.handleError(record)

    def write(self, lines: list[str]) -> None:
        """So many at once that no other process's line can get into the middle of one."""
        self.acquire()
        try:
            for piece in pieces(lines):
                self.stream.write(piece)
                self.flush()
        except Exception:
            pass  # nobody can read it any more; whoever logs does not fail for that
        finally:
            self.release()


def pieces(lines: list[str]) -> Iterator[str]:
    """Whole lines, together no longer than what a pipe takes at once."""
    piece, size = "", 0
    for line in lines:
        length = len(line.encode(errors="replace"))
        if piece and size + length > PIPE_BUF:
            yield piece
            piece, size = "", 0
        piece, size = piece + line, size + length
    if piece:
        yield piece


held_back: ContextVar[dict[Lines, list[str]] | None] = ContextVar("held_back", default=None)


@contextmanager
def together() -> Iterator[None]:
    """What is logged in here is written when it is over: to write takes as long as to make a line,
    and each time another thread takes its turn.
    """
    if held_back.get() is not None:  # it is together with more
        yield
        return
    held: dict[Lines, list[str]] = {}
    token = held_back.set(held)
    try:
        yield
    finally:
        held_back.reset(token)
        for handler, lines in held.items():
            handler.write(lines)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": f"{second(int(record.created))}.{int(record.created % 1 * 1000):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": masking.path(record.getMessage()),
            **fields(record),
        }
        if record.exc_info:
            line["err"] = self.formatException(record.exc_info)
        return ENCODE(line)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        extra = " ".join(f"{name}={value}" for name, value in fields(record).items())
        said = masking.path(record.getMessage())
        line = f"{stamp} {record.levelname.lower():<7} {said}  {extra}".rstrip()
        line = CONTROL.sub(lambda found: repr(found[0])[1:-1], line)  # one record, one line
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


# Nothing of this is in a line, and to find it out takes longer than to write one.
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
logging._srcfile = None  # where in the code: as logging's manual says


def config(*, level: str, as_json: bool) -> dict[str, object]:
    """Django's LOGGING: everything to standard error, since standard output is for answers."""
    formatter = JsonFormatter if as_json else TextFormatter
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": formatter}},
        "handlers": {"stderr": {"class": "cronjob.lib.log.Lines", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        # Django's own handlers mail administrators or stay silent; errors belong in the log.
        "loggers": {
            "django": {"handlers": [], "level": level.upper(), "propagate": True},
            "django.request": {"level": "ERROR"},  # 4xx are in the access line already
            "django.security.DisallowedHost": {"level": "ERROR"},
        },
    }
