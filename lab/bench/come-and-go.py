#!/usr/bin/env python3
"""Makes a table of docs/results/all-five.md: programs that come and go beside one that stays, on threads.

usage: lab/bench/come-and-go.py LAB [--before LAB] [--rounds N]
LAB is the release binary `comity-lab`. --before takes that of an earlier state, and both are measured in turns. Keep
the machine quiet meanwhile: some two minutes. Medians (quartiles), in Markdown.
"""

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from statistics import median, quantiles

# Alone they take some 20, 50 and 120 ms on two cores.
COMERS = ["fib:n=33", "fib:n=35", "fib:n=37"]
STAYS = "fib:n=30"
LASTS = 4.0
AWAY = 0.05


def kernel(lab, name, table, *more, **how):
    environment = dict(os.environ, COMITY_TABLE=table, COMITY_POLICY="comity")
    return subprocess.Popen([lab, "-q", "kernel", name, "--json", *more], env=environment, stdout=subprocess.PIPE, **how)


def beside(lab, name):
    """Milliseconds of each that came, and rounds per second of the one that stayed."""
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "table")
        stays = kernel(lab, STAYS, table, "--rounds", "1000000", stderr=subprocess.DEVNULL)
        began = time.perf_counter()
        time.sleep(0.3)
        took = []
        while time.perf_counter() - began < LASTS:
            begin = time.perf_counter()
            if kernel(lab, name, table).wait() != 0:
                raise SystemExit(f"{name} failed")
            took.append((time.perf_counter() - begin) * 1e3)
            time.sleep(AWAY)
        stays.send_signal(signal.SIGTERM)
        rounds = json.loads(stays.communicate()[0])["rounds"]
        return took, len(rounds) / (time.perf_counter() - began)


def alone(lab, name):
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        kernel(lab, name, os.path.join(folder, "table")).wait()
        return (time.perf_counter() - begin) * 1e3


def cell(values):
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else 3 * values
    return f"{median(values):.0f} ({low:.0f}–{high:.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("--before")
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    labs = {"now": arguments.lab} | ({"before": arguments.before} if arguments.before else {})
    print("| comes | | alone, ms | beside the one that stays, ms | longest, ms | rounds/s of that |\n|---|---|---|---|---|---|")
    for name in COMERS:
        took, stayed, by_itself = ({who: [] for who in labs} for _ in range(3))
        for _ in range(arguments.rounds):
            for who, lab in labs.items():
                times, rate = beside(lab, name)
                took[who] += times
                stayed[who].append(rate)
                by_itself[who] += [alone(lab, name) for _ in range(5)]
        for who in labs:
            print(f"| `{name}` | {who} | {cell(by_itself[who])} | {cell(took[who])} | {max(took[who]):.0f} | {cell(stayed[who])} |")


if __name__ == "__main__":
    main()
