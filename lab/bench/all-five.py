#!/usr/bin/env python3
"""Makes the tables of docs/results/all-five.md from what `comity-lab reproduce all-five` has written.

usage: lab/bench/all-five.py [--measure efficiency,unfairness,…] RESULT.json…
Each is DIR/result.json of `comity-lab reproduce all-five --out DIR`, or what `--json` printed. Printed in Markdown:
a median over the runs, the least and the largest in parentheses where they differ, and the best of a row in bold.
"""

import argparse
import json
import math

GROUNDS = {"bare": "on a host", "virtual": "in virtual machines"}
ROWS = ["comity", "bws", "dws", "a-steal", "robinhood", "ws-last", "equipartition", "co-scheduling", "abp", "plain"]
LESS = ["unfairness", "waste", "idle", "switches", "delay", "burst"]
WHAT = {
    "efficiency": "Efficiency",
    "unfairness": "Unfairness",
    "waste": "Waste: part of the used time that went into looking for work or for flags",
    "idle": "Idle: part of the cores' time in which they idled beside work",
    "switches": "Switches of a core per second",
    "delay": "Microseconds until a program that comes has a core",
    "burst": "Times as long as alone that a burst of the server takes",
}


def told(quantity, value):
    if value is None or math.isnan(value):
        return ""
    return f"{value:.0f}" if quantity in ("switches", "delay") else f"{value:.2f}"


def cell(quantity, one):
    values = [run[quantity] for run in one["runs"]]
    if any(value is None for value in values):
        return ""
    ends = [told(quantity, end) for end in (min(values), max(values))]
    mark = "*" if one["median"]["unfinished"] else ""
    spread = "" if ends[0] == ends[1] else f" ({ends[0]}–{ends[1]})"
    return told(quantity, one["median"][quantity]) + mark + spread


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    parser.add_argument("--measure", type=lambda text: text.split(","), default=list(WHAT))
    arguments = parser.parse_args()
    unknown = [quantity for quantity in arguments.measure if quantity not in WHAT]
    if unknown:
        parser.error(f"no measure is called {unknown[0]}. The measures are {', '.join(WHAT)}")
    cells = [one for name in arguments.results for one in json.load(open(name))["cells"]]
    policies, mixes = [], []
    for one in cells:
        for value, known in ((one["policy"], policies), (one["mix"], mixes)):
            if value not in known:
                known.append(value)
    policies.sort(key=ROWS.index)
    places = sorted({(one["ground"], one["cores"]) for one in cells})
    of = {(one["ground"], one["cores"], one["mix"], one["policy"]): one for one in cells}
    for quantity in arguments.measure:
        for ground, cores in places:
            rows = []
            for mix in mixes:
                row = [of.get((ground, cores, mix, policy)) for policy in policies]
                values = [one["median"][quantity] for one in row if one]
                values = [value for value in values if value is not None]
                if not values:
                    continue
                best = told(quantity, min(values) if quantity in LESS else max(values))
                text = []
                for one in row:
                    if not one:
                        text.append("–")
                        continue
                    is_best = told(quantity, one["median"][quantity]) == best
                    text.append(f"**{cell(quantity, one)}**" if is_best else cell(quantity, one))
                rows.append(f"| {mix} | {' | '.join(text)} |")
            if rows:
                print(f"{WHAT[quantity]} {GROUNDS[ground]}, {cores} cores:\n")
                print(f"| mix | {' | '.join(policies)} |\n|{'---|' * (len(policies) + 1)}")
                print("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
