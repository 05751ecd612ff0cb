#!/usr/bin/env python3
"""Makes docs/results/slowdown.md: how evenly programs are slowed under equal shares, equal slowdown and all cores in
turn.

usage: lab/bench/slowdown.py COMITY_LAB [--rounds N] [--lead-in N] [--only 8-same,…] [--policy P,…] [--programs "P …"]
COMITY_LAB is the release binary (`cargo build --release -p comity-lab`). Keep the machine quiet meanwhile: two hours
on two cores.

Every pair of four programs, each with itself too, the four sets of three and the one of four, beside stock rayon.
Each contestant runs each set in turns, with its own runs alone. Before a set runs together each program runs alone
for the rounds of the lead-in, so that it knows how fast it is then. Unfairness is the largest slowdown of a set less
the smallest. Printed in Markdown: mean (worst) over the sets.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import tempfile
from statistics import geometric_mean, mean

PROGRAMS = ["ep:class=S", "mergesort:class=paper", "cg:class=W", "fib:n=38"]
POLICIES = "comity,comity:share=slowdown,comity:share=time"
PAIRS = ["8-same", "16-separate", "8-separate", "16-same", "2-same", "2-separate"]
CROWDS = ["crowds-8-same", "crowds-8-separate"]


def corun(lab, words, rounds, lead_in, policies, name):
    """The co-runs of one command, by contestant."""
    workers, group = name.split("-")[-2:]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out.json")
        command = [lab, "corun", *words, "--rounds", str(rounds), "--lead-in", str(lead_in)]
        command += ["--workers", workers, "--group", group]
        command += ["--policy", policies, "--backend", "rayon", "--json", str(out), "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        coruns = json.loads(out.read_text())["coruns"]
    by_contestant = {}
    for one in coruns:
        who = one["policy"] if one["backend"] == "comity" else one["backend"]
        by_contestant.setdefault(who, []).append(one)
    return by_contestant


def row(name, who, coruns, equal):
    """One contestant in one setting, as a line of the table."""

    def times(of):
        return geometric_mean(program["corun_s"] for one in of for program in one["programs"])

    unfair = [one["unfairness"] for one in coruns]
    cells = [
        name,
        f"`{who}`",
        f"{mean(unfair):.2f} ({max(unfair):.2f})",
        f"{mean(one['cpu_unfairness'] for one in coruns):.2f}",
        f"{mean(one['weighted_speedup'] for one in coruns):.3f}",
        f"{times(coruns) / times(equal):.3f}",
        f"{mean(program['cv'] for one in coruns for program in one['programs']):.3f}",
        f"{mean(one['switches_per_s'] for one in coruns):.0f}",
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--lead-in", type=int, default=5)
    parser.add_argument("--only", default=",".join(PAIRS + CROWDS))
    parser.add_argument("--policy", default=POLICIES)
    parser.add_argument("--programs", default=" ".join(PROGRAMS), help="in quotes, with blanks between them")
    arguments = parser.parse_args()
    print("| workers, task groups | contestant | unfairness | of processor time | weighted speedup | times over equal | cv | switches/s |")
    print("|---|---|---|---|---|---|---|---|")
    programs = arguments.programs.split()
    for name in arguments.only.split(","):
        how = (arguments.rounds, arguments.lead_in, arguments.policy, name)
        if name.startswith("crowds"):
            sets = [*itertools.combinations(programs, 3), tuple(programs)]
            done = [corun(arguments.lab, words, *how) for words in sets]
        else:
            done = [corun(arguments.lab, [*programs, "--pairs=all"], *how)]
        contestants = {who: [one for part in done for one in part[who]] for who in done[0]}
        equal = next(iter(contestants.values()))
        for who, coruns in contestants.items():
            row(name, who, coruns, equal)


if __name__ == "__main__":
    main()
