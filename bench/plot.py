"""Draws the bars of one claim; run in the virtualenv of the peers, which has matplotlib."""

import json
import sys

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "bench"
from matplotlib import pyplot  # noqa: E402

found = json.load(sys.stdin)
names = [name for name, *_ in found["bars"]][::-1]
middles = [middle for _, middle, _, _ in found["bars"]][::-1]
low = [middle - least for _, middle, least, _ in found["bars"]][::-1]
high = [most - middle for _, middle, _, most in found["bars"]][::-1]
colors = ["#7c3aed" if name.startswith("Cronjob") else "#94a3b8" for name in names]
figure, axes = pyplot.subplots(figsize=(8, 0.6 + 0.42 * len(names)))
axes.barh(names, middles, xerr=(low, high), color=colors, ecolor="#475569", capsize=3)
axes.margins(y=0.02)
if found["scale"] == "log":
    axes.set_xscale("log")
    axes.set_xlim(left=0.1)
axes.set_xlabel(found["unit"])
for side in ("top", "right"):
    axes.spines[side].set_visible(False)
figure.tight_layout()
figure.savefig(sys.argv[1], metadata={"Date": None})
