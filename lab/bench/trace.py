#!/usr/bin/env python3
"""Makes a table of docs/results/costs.md: what COMITY_TRACE costs.

usage: lab/bench/trace.py COMITY-LAB [--rounds N] [KERNEL...]
Each kernel runs in a process of its own, traced and not traced in turns (off, on, on, off, so that a drift of the
machine falls on both). Printed are medians over the rounds with quartiles: the time of a traced run over that of the
untraced one beside it, and of two untraced ones as a control. Some minutes on two cores.
"""

import argparse
import json
import os
import subprocess
import tempfile
from statistics import median, quantiles

KERNELS = ["fib:n=40", "nqueens:n=13", "mergesort:n=8000000", "cg:class=W", "mm:n=1000", "raytrace", "uts", "loop"]


def play(program, kernel, trace):
    """The seconds of a run."""
    environment = {name: value for name, value in os.environ.items() if name != "COMITY_TRACE"}
    if trace:
        environment["COMITY_TRACE"] = trace
    told = subprocess.run([program, "kernel", kernel, "--json"], env=environment, capture_output=True, check=True)
    return json.loads(told.stdout)["rounds"][0]["seconds"]


def cell(ratios):
    low, _, high = quantiles(ratios, n=4)
    return f"{median(ratios):.3f} ({low:.3f}–{high:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("kernels", nargs="*", default=KERNELS)
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_intermixed_args()
    print("| kernel | time, s | traced over untraced | control | events per second |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/t.json"
        for kernel in arguments.kernels:
            times, ratios, control, rates = [], [], [], []
            for _ in range(arguments.rounds):
                off, on, on_again, off_again = (play(arguments.program, kernel, to) for to in (None, trace, trace, None))
                with open(trace) as events:
                    rates.append(len(json.load(events)) / on_again)
                times += [off, off_again]
                ratios.append((on + on_again) / (off + off_again))
                control.append(off_again / off)
            print(f"| `{kernel}` | {median(times):.2f} | {cell(ratios)} | {cell(control)} | {median(rates):.0f} |", flush=True)


if __name__ == "__main__":
    main()
