#!/usr/bin/env python3
"""Makes the last table of docs/results/processes.md: how long a program with very many threads takes to begin.

usage: lab/bench/threads.py STOCK DROP-IN [--rounds N] [--before DROP-IN]
STOCK and DROP-IN are `rayon-programs` as lab/bench/drop-in.sh builds them; --before takes one of an earlier state of
Comity. A process starts its global pool, runs one small loop on it and ends. Printed in Markdown: seconds, and
processor time, median (least to most). It takes some minutes on two cores.
"""

import argparse
import os
import resource
import subprocess
import tempfile
import time
from statistics import median

THREADS = [64, 256, 1024, 4096]


def play(program, threads, table):
    """The seconds until it has ended, and its processor time."""
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), COMITY_TABLE=table)
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    before, begin = used(), time.monotonic()
    subprocess.run([program, "run", "map-reduce:10000", "--no-aftermath"], env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begin, used() - before


def cell(values):
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stock")
    parser.add_argument("drop_in")
    parser.add_argument("--before")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    contestants = {"stock": arguments.stock, "comity": arguments.drop_in}
    if arguments.before:
        contestants["before"] = arguments.before
    print("| threads | contestant | time, s | processor time, s | over stock |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for threads in THREADS:
            took = {who: [] for who in contestants}
            for _ in range(arguments.rounds):
                for who, program in contestants.items():
                    took[who].append(play(program, threads, f"{folder}/{who}"))
            stock = median(seconds for seconds, _ in took["stock"])
            for who, played in took.items():
                seconds, used = zip(*played)
                print(f"| {threads} | {who} | {cell(seconds)} | {cell(used)} | {median(seconds) / stock:.2f} |", flush=True)


main()
