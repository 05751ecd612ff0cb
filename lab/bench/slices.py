#!/usr/bin/env python3
"""Makes the table of docs/results/slices.md: what shorter time slices for thieves that yield do.

usage: lab/bench/slices.py COMITY_LAB [--rounds N]
COMITY_LAB is a release binary (`cargo build --release -p comity-lab`). Keep the machine quiet meanwhile: a quarter
of an hour on two cores. Each measurement runs under comity:slice_us=0 and under comity in turns. Printed are medians
(quartiles) over the rounds. The neighbour is a thread for each core that never rests, bound to it, in the task group
of the program or in one of its own.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import tempfile
from statistics import quantiles


def switches():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_nvcsw + used.ru_nivcsw


def run(command, slices):
    """The JSON that the command prints, and the switches of its processes."""
    command = [*command, "--policy", "comity" if slices else "comity:slice_us=0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COMITY")}
    environment |= {"COMITY_TABLE": str(pathlib.Path(tempfile.gettempdir(), "slices-table"))}
    before = switches()
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout), switches() - before


def wakes(lab):
    command = [lab, "bench", "wake", "--samples", "60", "--json"]

    def measure(slices):
        rows = [row for row in run(command, slices)[0]["rows"] if row["backend"].startswith("comity")]
        return {f"wake by {row['submitted_by']}, {p}, µs": row[f"{p}_us"] for row in rows for p in ["p50", "p90"]}

    return measure


def kernel(lab, program, workers):
    command = [lab, "kernel", program, "--workers", str(workers), "--rounds", "3", "--json"]

    def measure(slices):
        report, switched = run(command, slices)
        seconds = sorted(one["seconds"] for one in report["rounds"])[1]
        return {f"{program}, {workers} workers, s": seconds, f"{program}, {workers} workers, switches": switched}

    return measure


def pair(lab, programs, workers, group):
    command = [lab, "corun", *programs, "--workers", str(workers), "--group", group]
    command += ["--rounds", "5", "--json", "-"]

    def measure(slices):
        one = run(command, slices)[0]["coruns"][0]
        name = f"{' + '.join(programs)}, {workers} workers"
        return {
            f"{name}: unfairness": one["unfairness"],
            f"{name}: weighted speedup": one["weighted_speedup"],
            f"{name}: switches/s": one["switches_per_s"],
        }

    return measure


def show(title, measure, rounds):
    found = {}
    for nth in range(rounds):
        for slices in (False, True) if nth % 2 == 0 else (True, False):
            for what, value in measure(slices).items():
                found.setdefault(what, ([], []))[slices].append(value)
    for what, values in found.items():
        cells = []
        for of in values:
            lower, median, upper = quantiles(of, n=4)
            digits = 0 if median >= 1000 else 1 if median >= 10 else 3
            cells.append(f"{median:.{digits}f} ({lower:.{digits}f}–{upper:.{digits}f})")
        ratio = quantiles([b / a for a, b in zip(*values) if a > 0], n=4)
        print(f"| {title} | {what} | {cells[0]} | {cells[1]} | {ratio[1]:.2f} ({ratio[0]:.2f}–{ratio[2]:.2f}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    lab, rounds = arguments.lab, arguments.rounds
    print("| neighbour | | without | with slices | ratio |\n|---|---|---|---|---|")
    for title, apart in ((None, None), ("same group", False), ("own group", True)):
        spins = ["sh", "-c", "while :; do :; done"]
        cores = sorted(os.sched_getaffinity(0)) if title else []
        hogs = [subprocess.Popen(["taskset", "-c", str(core), *spins], start_new_session=apart) for core in cores]
        try:
            for measure in (wakes(lab), kernel(lab, "cg:class=W", 2), kernel(lab, "mi", 2), kernel(lab, "cg:class=W", 8)):
                show(title or "none", measure, rounds)
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
    for group in ("same", "separate"):
        for programs in (["cg:class=W", "ep:class=S"], ["cg:class=W", "mi"], ["mergesort", "fib:n=38"]):
            show(group, pair(lab, programs, 8, group), rounds)


if __name__ == "__main__":
    main()
