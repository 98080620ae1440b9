"""How early a scheduler does what is due, so that nothing is left but to call."""

from datetime import timedelta
from typing import NamedTuple, Self


class Lead(NamedTuple):
    """How early something is done: at the `least` by itself, at the `most` along with others."""

    least: timedelta
    most: timedelta

    @property
    def pause(self) -> float:
        """Seconds until something comes that did not go along."""
        return (self.most - self.least).total_seconds()

    def of(self, lasts: float) -> Self:
        """For rounds that last so long: what comes within one would be late in the next."""
        if not self.most:
            return self
        more = timedelta(seconds=lasts)
        return type(self)(self.least + more, self.most + 2 * more)


TO_MAKE = Lead(timedelta(seconds=0.03), timedelta(seconds=0.06))  # runs of tasks
TO_CLAIM = Lead(timedelta(seconds=0.01), timedelta(seconds=0.03))  # runs, which start in time
TO_BEGIN = Lead(timedelta(seconds=0.03), timedelta(seconds=0.08))  # both at once
IN_TIME = Lead(timedelta(0), timedelta(0))
