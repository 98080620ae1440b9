"""What was found: a table for people, kept with the machine it was found on, and a plot."""

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from math import inf

from bench import ground

RESULTS = ground.ROOT / "bench" / "results"


@dataclass
class Found:
    """A claim, measured: rows of cells, and the bars of the plot."""

    title: str
    said: str  # how it was measured
    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    bars: list[tuple[str, float, float, float]] = field(default_factory=list)  # median, low, high
    unit: str = ""
    scale: str = "linear"  # of the plot
    pace: str = ""  # of the machine meanwhile

    def bar(self, name: str, numbers: Iterable[float]) -> None:
        ordered = sorted(numbers)
        if ordered[-1] < inf:  # what never came has no length
            self.bars.append((name, ground.middle(ordered), ordered[0], ordered[-1]))


def spread(numbers: Iterable[float], form: str = ",.0f") -> str:
    """The median of all rounds, and how far they lie apart."""
    ordered = sorted(numbers)
    least, most = format(ordered[0], form), format(ordered[-1], form)
    return f"{ground.middle(ordered):{form}}" + (f" ({least}–{most})" if ordered[1:] else "")


def write(name: str, found: Found, *, keep: bool) -> None:
    table = [f"| {' | '.join(found.head)} |", "|" + "---|" * len(found.head)]
    table += [f"| {' | '.join(row)} |" for row in found.rows]
    ground.say("\n".join(["", found.title, "", *table, "", f"A loop took {found.pace}.", ""]))
    if not keep:
        return
    RESULTS.mkdir(exist_ok=True)
    picture = [f"![{found.title}]({name}.svg)", ""] if found.bars else []
    lines = [
        f"# {found.title}",
        "",
        found.said,
        "",
        f"{ground.machine()}. A loop took {found.pace}.",
        "",
        *table,
        "",
        *picture,
    ]
    (RESULTS / f"{name}.md").write_text("\n".join(lines))
    if found.bars:
        drawn = [ground.python(), ground.ROOT / "bench/plot.py", RESULTS / f"{name}.svg"]
        subprocess.run(drawn, input=json.dumps(asdict(found)), text=True, check=True)
