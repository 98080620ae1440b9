"""All comparisons, ours and the others in the same run: `python bench/run.py [CLAIM …]`.

Makes a virtualenv for the peers in var/bench the first time, and a folder of packages for those on
Node.js. The results go to bench/results/: for each claim a table in Markdown and a plot. Needs the
`test` extra; npm with Node.js 20; a redis-server for Celery, huey and BullMQ; wrk for API and web.
`--quick` is ours and the bare limit, and needs no other scheduler.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import claims, ground
from bench.results import write


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ", ".join(claims.ALL)
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help=f"of {names}; all by default")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many is told")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a short form, ours and the limit only; nothing is kept",
    )
    parser.add_argument(
        "--only", metavar="WORD", default="", help="contenders with it in their name"
    )
    chosen = parser.parse_args()
    unknown = set(chosen.claims) - set(claims.ALL)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {names}")
    if not chosen.quick:
        ground.virtualenv()
    ground.say(ground.machine())
    for name in chosen.claims or claims.ALL:
        scale = claims.Scale(quick=chosen.quick, rounds=1 if chosen.quick else chosen.rounds)
        before = ground.pace()
        found = claims.ALL[name](scale, only=chosen.only)
        found.pace = f"{before:.1f} times as long as usual before, {ground.pace():.1f} after"
        write(name, found, keep=not (chosen.quick or chosen.only))


if __name__ == "__main__":
    main()
