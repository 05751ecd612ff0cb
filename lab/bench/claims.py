#!/usr/bin/env python3
"""Makes the tables of docs/results/bws.md, dws.md and robinhood.md: the claims of a paper beside what came out.

usage: comity-lab reproduce bws --full --out FOLDER
       lab/bench/claims.py FOLDER/result.json

A claim holds if what came out lies in its interval with every value that is swept. How many hold with the chosen
values alone stands beside it. Of each claim that does not hold, the last column says whether sign and order of
magnitude are the paper's. "order": with the chosen values what came out has the paper's sign and lies within a
factor of three of its number. Of a part of comparisons, it lies on the same side of a half, or of 50 %. "no" is all
else.
"""

import json
import sys

# Whose numbers are told from 1.
RATIOS = ("mix-", "t2-100-", "throughput-all", "selective-throughput", "threshold-32-t", "threshold-256-t", "threshold-4096-t")

KINDS = ["calibrated", "known", "held-out"]


def told(value):
    if value is None:
        return "none"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def bounds(claim):
    """What is accepted; a bound that there is not is none in JSON."""
    least, most = claim["accepted"]
    return (float("-inf") if least is None else least, float("inf") if most is None else most)


def is_within(claim):
    """Whether it lies in its interval with the chosen values."""
    least, most = bounds(claim)
    return claim["here"] is not None and least <= claim["here"] <= most


def is_order(claim):
    """Whether sign and order of magnitude are the paper's, with the chosen values."""
    here, (least, most) = claim["here"], bounds(claim)
    if here is None:
        return False
    if is_within(claim):
        return True
    number = claim.get("number")
    if number is None or (least, most) in ((1.0, 1.0), (100.0, 100.0)):
        # A part of comparisons, or words: the middle of what counts, or its bound.
        number = min(max((least + most) / 2, least), most) if most - least < float("inf") else max(least, -most)
        if most <= 1.0:
            return (here > 0.5) == (number > 0.5)
        if most == 100.0 and least >= 0.0:
            # The same in per cent.
            return (here > 50.0) == (number > 50.0)
    if claim["what"].startswith(RATIOS):
        here, number = here - 1, number - 1
    if number == 0:
        return False
    return here * number > 0 and 1 / 3 <= here / number <= 3


def main():
    report = json.load(open(sys.argv[1]))
    claims = report["claims"]
    print("| share of | claims | hold | with the chosen values | order too |\n|---|---|---|---|---|")
    groups = [(kind, [claim for claim in claims if claim["kind"] == kind]) for kind in KINDS]
    groups.append(("headlines", [claim for claim in claims if claim["headline"]]))
    for figure in sorted({claim["figure"] or 0 for claim in claims}):
        name = f"figure {figure}" if figure else "no figure"
        groups.append((name, [claim for claim in claims if (claim["figure"] or 0) == figure]))
    for name, own in groups:
        if own:
            hold = sum(claim["holds"] for claim in own)
            print(f"| {name} | {len(own)} | {hold} | {sum(map(is_within, own))} | {sum(map(is_order, own))} |")
    for kind in KINDS:
        own = [claim for claim in claims if claim["kind"] == kind]
        if not own:
            continue
        print(f"\n**{kind.capitalize().replace('-', ' ')}**\n")
        print("| claim | the paper | here (over the sweep) | accepted | |\n|---|---|---|---|---|")
        for claim in own:
            values = [at["here"]["value"] for at in claim["at"] if at["here"]["value"] is not None]
            here = told(claim["here"])
            if len(values) > 1:
                here += f" ({told(min(values))} to {told(max(values))})"
            least, most = claim["accepted"]
            verdict = "**holds**" if claim["holds"] else "order" if is_order(claim) else "no"
            star = " *" if claim["headline"] else ""
            if most is None:
                accepted = f"{told(least)} or more"
            else:
                accepted = told(least) if least == most else f"{told(least)} to {told(most)}"
            print(f"| `{claim['what']}`{star} | {claim['section']}: {claim['paper']} | {here} | {accepted} | {verdict} |")


main()
