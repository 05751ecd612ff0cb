#!/usr/bin/env python3
"""Makes the tables of claims in docs/results: the claims of a paper beside the numbers here.

usage: comity-lab reproduce bws --full --out FOLDER
       lab/bench/claims.py FOLDER/result.json

A claim holds if its number is in the accepted interval with every value that is swept. lab/papers/README.md says when
a number has the paper's order of magnitude. "Five seeds" is the least and the largest number with five seeds and
otherwise the chosen values.
"""

import json
import sys

KINDS = ["calibrated", "known", "held-out"]


def told(value):
    if value is None:
        return "none"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def over(claim, counts):
    """The least and the largest number of a claim at the settings that count, in parentheses."""
    values = [at["here"]["value"] for at in claim["at"] if counts(at["setting"])]
    values = [value for value in values if value is not None]
    return f" ({told(min(values))} to {told(max(values))})" if len(values) > 1 else ""


def main():
    report = json.load(open(sys.argv[1]))
    print("| claims | all | hold | accepted with the chosen values | order of magnitude | cannot fail |")
    print("|---|---|---|---|---|---|")
    for share in report["shares"]:
        counts = [share[key] for key in ("claims", "hold", "within", "order", "cannot_fail")]
        print(f"| {share['of']} | {' | '.join(map(str, counts))} |")
    for kind in KINDS:
        own = [claim for claim in report["claims"] if claim["kind"] == kind]
        if not own:
            continue
        print(f"\n**{kind.capitalize().replace('-', ' ')}**\n")
        print("| claim | the paper | here (five seeds) | over the sweep | accepted | |\n|---|---|---|---|---|---|")
        for claim in own:
            seeds = over(claim, lambda setting: setting == "chosen" or setting.startswith("seed="))
            here = f"{told(claim['here'])}{seeds} | {over(claim, lambda _: True).strip(' ()')}"
            least, most = claim["accepted"]
            verdict = "**holds**" if claim["holds"] else "order" if claim["has_order"] else "no"
            if claim.get("cannot_fail"):
                verdict += ", cannot fail"
            star = " *" if claim["headline"] else ""
            if most is None:
                accepted = f"{told(least)} or more"
            else:
                accepted = told(least) if least == most else f"{told(least)} to {told(most)}"
            print(f"| `{claim['what']}`{star} | {claim['section']}: {claim['paper']} | {here} | {accepted} | {verdict} |")


main()
