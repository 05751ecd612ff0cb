#!/usr/bin/env python3
"""Makes the first tables of docs/results/processes.md: many programs at once and many short ones, with and without the
table.

usage: lab/bench/processes.py STOCK DROP-IN [--rounds N] [--before DROP-IN]
STOCK and DROP-IN are `rayon-programs` as lab/bench/drop-in.sh builds them; --before takes one of an earlier state of
Comity. Keep the machine quiet meanwhile: some ten minutes on two cores. In Markdown, medians (quartiles): the time
until all have ended, and their processor time, over the first contestant's of the same round.
"""

import argparse
import os
import resource
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles

# Name, arguments, threads, processes, so many at a time, the contestant that the others are compared with.
SHAPES = [
    ("30 programs at once", ["sort", "--rounds", "8"], 4, 30, 30, "off"),
    ("80 programs at once", ["sort", "--rounds", "3"], 4, 80, 80, "off"),
    ("200 of 30 ms, 16 at a time", ["chunks:700", "--rounds", "2"], 8, 200, 16, "stock"),
    ("200 of 12 loops of 45 us, 16 at a time", ["chunks:300", "--rounds", "12"], 8, 200, 16, "stock"),
    ("1000 of one small loop, 8 at a time", ["map-reduce:10000"], 2, 1000, 8, "stock"),
]


def play(program, arguments, threads, processes, at_a_time, table):
    """The seconds until all have ended, and their processor time."""
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), COMITY_TABLE=table)
    command = [program, "run", *arguments, "--no-aftermath"]
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    before, begin = used(), time.monotonic()
    with ThreadPoolExecutor(at_a_time) as starters:
        start = lambda _: subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        list(starters.map(start, range(processes)))
    return time.monotonic() - begin, used() - before


def cell(values):
    if len(values) < 3:
        return " ".join(f"{value:.3f}" for value in values)
    low, _, high = quantiles(values, n=4, method="inclusive")
    return f"{median(values):.3f} ({low:.3f}–{high:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stock")
    parser.add_argument("drop_in")
    parser.add_argument("--before")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    contestants = {"comity": arguments.drop_in, "off": arguments.drop_in, "stock": arguments.stock}
    if arguments.before:
        contestants["before"] = arguments.before
    with tempfile.TemporaryDirectory() as folder:
        tables = {name: folder + "/" + name for name in contestants} | {"off": "off"}
        print("| shape | contestant | time, s | processor time, s | time, ratio | processor time, ratio |")
        print("|---|---|---|---|---|---|")
        for name, run, threads, processes, at_a_time, base in SHAPES:
            took = {who: [] for who in contestants}
            for _ in range(arguments.rounds):
                for who, program in contestants.items():
                    took[who].append(play(program, run, threads, processes, at_a_time, tables[who]))
            for who, own in took.items():
                wall, cpu = zip(*own)
                ratios = [cell([mine[part] / theirs[part] for mine, theirs in zip(own, took[base])]) for part in (0, 1)]
                print(f"| {name} | {who} | {median(wall):.2f} | {median(cpu):.2f} | {' | '.join(ratios)} |", flush=True)


main()
