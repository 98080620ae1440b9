"""What wakes a thread that sleeps: any other thread, and signals."""

import os
from contextlib import suppress


class Bell:
    """A pipe: whoever sleeps until `reader` can be read wakes when it rings."""

    def __init__(self) -> None:
        self.rung = False
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self.writer, False)

    def ring(self) -> None:
        """From any thread; once is enough however often."""
        if not self.rung:
            self.rung = True
            with suppress(OSError):  # full: it wakes anyway; closed: nobody sleeps
                os.write(self.writer, b"\0")

    def hush(self) -> bytes:
        """What was said by now; whoever wakes looks for what there is to do after this."""
        said = b""
        with suppress(BlockingIOError):
            said = os.read(self.reader, 65536)
        # Not before that: of a ring in between the byte would be gone, and all later ones with it.
        self.rung = False
        return said

    def close(self) -> None:
        os.close(self.reader)
        writer, self.writer = self.writer, -1  # a late ring must not reach another file
        os.close(writer)
