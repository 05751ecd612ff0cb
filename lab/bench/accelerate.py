#!/usr/bin/env python3
"""Makes docs/results/accelerate.md: co-runs of programs whose thieves accelerate peers, and their pictures.

usage: lab/bench/accelerate.py COMITY_LAB [--rounds N] [--only 2-same,…] [--policy P,…] [--programs "P …"]
                           [--out FOLDER]
COMITY_LAB is the release binary (`cargo build --release -p comity-lab`). Keep the machine quiet meanwhile: three
quarters of an hour on two cores. What has been measured is kept in FOLDER, and an interrupted command goes on there.

Every pair of five programs. Each contestant runs each pair in turns, with its own runs alone. Printed in Markdown:
how many times as long as alone each program takes, and in brackets how far the two are apart (unfairness). The last
lines of a setting are means over its pairs: unfairness, weighted speedup, and the least that a program has of the
processor time that it is due. What a program is due is an equal share, but no more than it uses alone.
"""

import argparse
import json
import pathlib
import subprocess
from statistics import mean

PROGRAMS = ["cg:class=W", "mi", "clip", "loop", "ep:class=S"]
POLICIES = "abp,bws:yield_to=plain,bws,robinhood,comity,comity:accelerate=yield,comity:accelerate=pull"
SETTINGS = ["2-same", "8-same", "2-separate", "8-separate"]


def coruns(lab, programs, rounds, policies, setting, folder):
    """The pairs of one setting, as lists by contestant."""
    workers, group = setting.split("-")
    out, picture = folder / f"{setting}.json", folder / f"{setting}.svg"
    command = [lab, "corun", *programs, "--pairs", "--rounds", str(rounds), "--workers", workers, "--group", group]
    command += ["--policy", policies, "--backend", "rayon", "--json", str(out), "--plot", str(picture)]
    command += ["--out", str(folder / setting), "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    by_contestant = {}
    for one in json.loads(out.read_text())["coruns"]:
        who = one["policy"] if one["backend"] == "comity" else one["backend"]
        by_contestant.setdefault(who, []).append(one)
    return by_contestant


def times(one):
    """How many times as long as alone each program takes."""
    return [1 + program["slowdown"] for program in one["programs"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default=",".join(SETTINGS))
    parser.add_argument("--policy", default=POLICIES)
    parser.add_argument("--programs", default=" ".join(PROGRAMS), help="in quotes, with blanks between them")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("accelerate"))
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    for setting in arguments.only.split(","):
        done = coruns(
            arguments.lab, arguments.programs.split(), arguments.rounds, arguments.policy, setting, arguments.out
        )
        print(f"\n| {setting} | " + " | ".join(f"`{who}`" for who in done) + " |")
        print("|---" * (1 + len(done)) + "|")
        for pair in zip(*done.values()):
            names = ", ".join(program["name"].split(":")[0] for program in pair[0]["programs"])
            cells = [", ".join(f"{time:.2f}" for time in times(one)) + f" ({one['unfairness']:.2f})" for one in pair]
            print(f"| {names} | " + " | ".join(cells) + " |")
        means = {
            "unfairness": lambda of: f"{mean(one['unfairness'] for one in of):.2f}",
            "weighted speedup": lambda of: f"{mean(one['weighted_speedup'] for one in of):.3f}",
            "least of what is due": lambda of: f"{min(p['cores_used'] / p['cores_due'] for one in of for p in one['programs']):.2f}",
        }
        for name, of in means.items():
            print(f"| *{name}* | " + " | ".join(of(pairs) for pairs in done.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
