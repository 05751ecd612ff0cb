#!/usr/bin/env python3
"""Makes a table of docs/results/costs.md: how much a program is slowed by its neighbour before, while and after `comity
set`.

usage: lab/bench/set.py COMITY [--rounds N]
COMITY is the release binary, with `comity-lab` beside it. Keep the machine quiet meanwhile: some three minutes.
Times over those alone in the same round, median (quartiles) over the rounds, in Markdown.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time
from statistics import median, quantiles

NEIGHBOUR = ["kernel", "fib:n=38", "--workers", "2", "--policy", "comity", "--rounds", "7", "--json"]
OTHER = ["kernel", "fib:n=32", "--workers", "2", "--policy", "comity", "--rounds", "1000000"]
BURN = "for i in 1 2; do while :; do :; done & done; wait"
STEPS = [
    ("before", None),
    ("`--cores 1`", ["--cores", "1"]),
    ("`--cores auto --pause 10m`", ["--cores", "auto", "--pause", "10m"]),
    ("`--resume`", ["--resume"]),
]


class Other:
    """A program that computes on both cores: a pool, or a command of `comity run`."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)

    def __enter__(self):
        time.sleep(0.5)
        return self.process.pid

    def __exit__(self, *_):
        os.killpg(self.process.pid, 9)
        self.process.wait()


def slot_of(comity, environment):
    """The one slot of the table, of whatever process."""
    table = json.loads(subprocess.run([comity, "table", "--json"], env=environment, check=True, capture_output=True).stdout)
    slots = [program["slot"] for program in table["programs"]]
    assert len(slots) == 1, f"a program alone in its table, but there are {slots}"
    return f"#{slots[0]}"


def neighbour(lab, environment):
    """Seconds of its runs but the first, the median."""
    ran = json.loads(subprocess.run([lab, *NEIGHBOUR], env=environment, check=True, capture_output=True).stdout)
    return median(run["seconds"] for run in ran["rounds"][1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comity", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    comity = arguments.comity.resolve()
    lab = comity.with_name("comity-lab")
    others = {
        "a pool of two workers": [lab, *OTHER],
        "`comity run sh`, two processes": [comity, "run", "sh", "-c", BURN],
    }
    print("| the other program | " + " | ".join(name for name, _ in STEPS) + " |")
    print("|---" * (len(STEPS) + 1) + "|")
    for name, command in others.items():
        slowdowns = [[] for _ in STEPS]
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as folder:
                environment = dict(os.environ, COMITY_TABLE=str(pathlib.Path(folder, "table")))
                alone = neighbour(lab, environment)
                with Other(command, environment):
                    slot = slot_of(comity, environment)
                    for (_, order), times in zip(STEPS, slowdowns):
                        if order:
                            subprocess.run([comity, "set", slot, *order], env=environment, check=True, stdout=subprocess.DEVNULL)
                            time.sleep(0.5)
                        times.append(neighbour(lab, environment) / alone)
        cells = []
        for times in slowdowns:
            low, _, high = quantiles(times, n=4, method="inclusive")
            cells.append(f"{median(times):.2f} ({low:.2f}–{high:.2f})")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
