#!/usr/bin/env python3
"""Unfairness and efficiency of `comity-lab corun --json` reports of one pair each, in Markdown. lab/bench/waiting-pairs.sh
calls it.

The first program of a pair is the one that waits; its name up to the `:` is the family over which means are taken.
"""

import json
import sys
from statistics import mean

MEASURES = {"unfairness": max, "cpu_unfairness": max, "efficiency": min}


def contestant(corun):
    return corun["policy"] if corun["backend"] == "comity" else corun["backend"]


def cores(corun):
    return " + ".join(f"{program['cores_used']:.2f} of {program['cores_due']:.2f}" for program in corun["programs"])


coruns = []
for path in sys.argv[1:]:
    with open(path) as file:
        coruns += json.load(file)["coruns"]
families = {}
for corun in coruns:
    family = corun["programs"][0]["name"].split(":")[0]
    families.setdefault((family, contestant(corun)), []).append(corun)

print("Mean over the pairs (worst pair):\n")
print("| pairs with | contestant | unfairness | of processor time | efficiency |\n|---|---|---|---|---|")
for (family, who), own in families.items():
    cells = []
    for measure, worst in MEASURES.items():
        values = [corun[measure] for corun in own]
        cells.append(f"{mean(values):.2f} ({worst(values):.2f})")
    print(f"| {family} ({len(own)}) | `{who}` | {' | '.join(cells)} |")

print("\nEach pair:\n")
print("| pair | contestant | T/B of each | cores used, of those due | unfairness | of processor time | efficiency |")
print("|---|---|---|---|---|---|---|")
for corun in coruns:
    pair = " + ".join(program["name"] for program in corun["programs"])
    ratios = ", ".join(f"{program['slowdown_ratio']:.2f}" for program in corun["programs"])
    values = " | ".join(f"{corun[measure]:.2f}" for measure in MEASURES)
    print(f"| {pair} | `{contestant(corun)}` | {ratios} | {cores(corun)} | {values} |")
