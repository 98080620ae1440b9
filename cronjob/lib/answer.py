"""The head of an answer, read by the standard library, or by one pattern where that is the same."""

import re
from collections.abc import Iterable
from http import client
from typing import Any, Self, cast

TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
TEXT = r"[\t -~\x80-\xff]*"
# A head as nearly all servers write it, whole and without anything that is read in several ways.
PLAIN = re.compile(
    rf"HTTP/1\.1 ([2-5]\d\d)(?: ({TEXT}))?\r\n((?:{TOKEN}:{TEXT}\r\n)*)\r\n".encode()
)
FRAMING = ("content-length", "transfer-encoding")
# Of a head, whatever else it says: where it ends, and what says where its body does.
HEAD_END = re.compile(rb"\r?\n\r?\n")
FRAME = re.compile(rb"(?i)\n(content-length|transfer-encoding|content-encoding):[ \t]*([^\r\n]*)")
HEAD_MOST = 8192  # bytes; who says so much in advance is given a thread
BODILESS = re.compile(rb"HTTP/1\.1 (?:204|304)")
DIGITS = re.compile("[0-9]{1,18}")
HEADERS_MAX = 100  # the standard library's; the empty line at the end is one
FOLD = re.compile(r"\r?\n[ \t]+")  # how a header went on in the next line, long ago


def length_of(data: bytes, *, method: str) -> int | None:
    """How many bytes an answer has that begins like this, at least; None if only reading tells."""
    end = HEAD_END.search(data, 0, HEAD_MOST)
    if not end:
        return len(data) + 1 if len(data) < HEAD_MOST else None
    if not PLAIN.match(data):
        return None
    if method == "HEAD" or BODILESS.match(data):
        return end.end()
    frames = FRAME.findall(data, 0, end.end())
    if len(frames) != 1 or frames[0][0].lower() != b"content-length":
        return None
    length = frames[0][1].decode("latin-1")
    return end.end() + int(length) if DIGITS.fullmatch(length) else None


class Head(list[tuple[str, str]]):
    """Names and values, as the standard library asks for them."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        super().__init__(pairs)
        self.known: dict[str, list[str]] = {}
        for name, value in self:
            self.known.setdefault(name.lower(), []).append(value)

    def items(self) -> Self:
        return self

    def get_all(self, name: str, default: Any = None) -> Any:
        return self.known.get(name.lower(), default)


class Answer(client.HTTPResponse):
    def begin(self) -> None:
        """Read the head of the answer proper, past what is only said in advance."""
        if self.begins_plainly():
            return
        super().begin()
        while self.status in (102, 103):
            cast(Any, self).headers = None  # to be asked for the next one
            super().begin()
        told = ",".join(self.headers.get_all("Content-Length", []))
        if "," in told and not self.chunked:
            (length,) = {int(length) for length in told.split(",")}  # of two, neither is right
            self.length = length if self.length is None else self.length

    def begins_plainly(self) -> bool:
        """Read a head that says but one length, or chunks, and that the connection stays open.

        For any other, and for what is not there yet, the standard library has its parser of mail,
        which takes longer than all the rest of the answer.
        """
        plain = PLAIN.match(self.fp.peek())
        if not plain or cast(Any, self)._method == "HEAD" or plain[1] in (b"204", b"304"):
            return False
        lines = plain[3].decode("latin-1").split("\r\n")[:-1]
        pairs = (line.partition(":") for line in lines)
        head = Head((name, value.lstrip(" \t")) for name, _, value in pairs)
        length, chunks = (head.known.get(name, []) for name in FRAMING)
        if len(lines) >= HEADERS_MAX or "connection" in head.known:
            return False
        if chunks:
            if length or len(chunks) > 1 or chunks[0].lower() != "chunked":
                return False
        elif len(length) != 1 or not DIGITS.fullmatch(length[0]):
            return False
        self.fp.read(plain.end())
        self.version, self.code = 11, int(plain[1])
        self.status, self.reason = self.code, (plain[2] or b"").decode("latin-1").strip()
        self.headers = self.msg = cast(client.HTTPMessage, head)
        self.chunked, self.chunk_left = bool(chunks), None
        self.length = None if chunks else int(length[0])
        self.will_close = False
        return True


def merged(response: Answer) -> dict[str, str]:
    """What a header says that comes several times, in one line."""
    found: dict[str, tuple[str, str]] = {}
    for name, value in response.headers.items():
        lower, value = name.lower(), FOLD.sub(" ", value) if "\n" in value else value
        known = found.get(lower)
        found[lower] = (known[0], f"{known[1]}, {value}") if known else (name, value)
    return dict(found.values())
