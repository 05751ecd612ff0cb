#!/usr/bin/env python3
"""Makes docs/results/many-cores.md: what a machine of more than two cores does.

usage: lab/bench/many-cores.py COMITY PART [--seconds S] [--strace COMMAND…]
COMITY is the release binary, with `comity-lab` beside it. Keep the machine quiet meanwhile. The parts, each in
Markdown:

speedups   programs alone with 1, 2, 4, … workers: their time over that of one worker of stock rayon
barriers   calls of membarrier, and the interrupts that cores send each other, in phases with 2, 4, … workers
commands   `make -j` under `comity run` beside a program that computes, and both without Comity

The file's other parts are made by shares.py, slices.py and `comity-lab corun` on the same machine.
"""

import argparse
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from statistics import geometric_mean, mean, median

CORES = len(os.sched_getaffinity(0))
SPEEDUPS = ["fib:n=40", "nqueens:n=14", "mm:n=1600", "uts", "mergesort:class=large", "cg:class=A", "ep:class=W", "bfs"]


class Kernel:
    """One that runs again and again until it is asked for what it measured."""

    def __init__(self, lab, kernel, who, workers, environment):
        backend = ["--backend", who] if who in ("rayon", "serial") else ["--policy", who]
        command = [lab, "kernel", kernel, *backend, "--workers", str(workers), "--rounds", "1000000", "--json", "--quiet"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def result(self):
        """Seconds of its rounds but the warm-up; their processor seconds; their switches. None if none was done."""
        self.process.send_signal(signal.SIGINT)
        printed = self.process.communicate()[0]
        if not printed:
            return None
        rounds = json.loads(printed)["rounds"]
        assert all(each["verified"] for each in rounds), "a result is wrong"
        rounds = rounds[1:] or rounds
        return (
            [each["seconds"] for each in rounds],
            [each["cpu_s"] for each in rounds],
            sum(each["voluntary_switches"] + each["involuntary_switches"] for each in rounds),
        )


def has_begun(kernel):
    """Once it has used processor time: its input is made by then, or nearly."""
    while kernel.process.poll() is None and time.clock_gettime((~kernel.process.pid << 3) | 2) < 0.05:
        time.sleep(0.01)


def together(lab, kernels, who, workers, environment, seconds):
    running = [Kernel(lab, kernel, who, workers, environment) for kernel in kernels]
    for kernel in running:
        has_begun(kernel)
    time.sleep(seconds)
    results = [kernel.result() for kernel in running]
    return results if None not in results else together(lab, kernels, who, workers, environment, 2 * seconds)


def table(*columns):
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns), flush=True)


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def of_speedups(lab, seconds, environment):
    """Alone, the contestants in turns."""
    counts = [1 << bit for bit in range(CORES.bit_length()) if 1 << bit <= CORES]
    table("program", "contestant", *[f"{count} workers" for count in counts])
    over = {}
    for kernel in SPEEDUPS:
        times = {}
        for workers, who in itertools.product(counts, ["comity", "bws", "rayon"]):
            times[who, workers] = median(together(lab, [kernel], who, workers, environment, seconds / 2)[0][0])
        for who in ["comity", "bws", "rayon"]:
            speedups = [times["rayon", 1] / times[who, workers] for workers in counts]
            row(kernel, who, *[f"{each:.2f}" for each in speedups])
            over.setdefault(who, []).append([times[who, each] / times["rayon", each] for each in counts])
    for who in ["comity", "bws"]:
        row("time over rayon's, geometric mean", who, *[f"{geometric_mean(each):.2f}" for each in zip(*over[who])])


def interrupts():
    """Those that cores send each other: calls of functions, and rescheduling."""
    lines = pathlib.Path("/proc/interrupts").read_text().splitlines()
    kinds = {line.split()[0]: line.split()[1 : 1 + CORES] for line in lines if line.split()[0] in ("CAL:", "RES:")}
    return {kind: sum(map(int, counts)) for kind, counts in kinds.items()}


def of_barriers(lab, seconds, environment, strace):
    """Phases of some tens of microseconds; barriers are counted in runs of their own, under strace."""
    kernel = "cg:class=W"
    table("workers", "contestant", "membarrier calls a run", "function-call interrupts a run", "rescheduling interrupts a run", "ms a run")
    counts = [1 << bit for bit in range(1, CORES.bit_length()) if 1 << bit <= CORES]
    for workers, who in itertools.product(counts, ["comity", "bws", "rayon"]):
        before = interrupts()
        times, _, _ = together(lab, [kernel], who, workers, environment, seconds)[0]
        after = interrupts()
        calls = "not counted"
        if strace:
            each = []
            backend = ["--backend", "rayon"] if who == "rayon" else ["--policy", who]
            for _ in range(5):
                with tempfile.NamedTemporaryFile("r") as log:
                    run = [lab, "kernel", kernel, *backend, "--workers", str(workers), "--quiet"]
                    subprocess.run([*strace, "-f", "-e", "trace=membarrier", "-o", log.name, *run], env=environment, check=True, capture_output=True)
                    each.append(sum("membarrier(" in line for line in log))
            calls = f"{median(each):.0f} ({min(each)}–{max(each)})"
        per_run = {kind: (after[kind] - before[kind]) / (len(times) + 1) for kind in after}
        row(workers, who, calls, f"{per_run.get('CAL:', 0):.0f}", f"{per_run.get('RES:', 0):.0f}", f"{1e3 * median(times):.1f}")


SOURCE = """
#include <algorithm>
#include <map>
#include <string>
#include <vector>
template <int N> struct Deep { std::map<int, std::vector<std::string>> held; int sum() { return held.size() + Deep<N - 1>().sum(); } };
template <> struct Deep<0> { int sum() { return 0; } };
int f%d(std::vector<int> v) { std::sort(v.begin(), v.end()); return Deep<40>().sum() + v[0]; }
"""


def of_commands(comity, lab, environment):
    """A build of 200 files beside `fib` with a worker for each core: how long both take."""
    with tempfile.TemporaryDirectory() as folder:
        for nth in range(200):
            pathlib.Path(folder, f"f{nth}.cc").write_text(SOURCE % nth)
        objects = " ".join(f"f{nth}.o" for nth in range(200))
        pathlib.Path(folder, "Makefile").write_text(f"all: {objects}\n%.o: %.cc\n\tg++ -O1 -c $< -o $@\n")
        make = ["make", "--silent", f"-j{CORES}", "-C", folder]
        clean = lambda: [path.unlink() for path in pathlib.Path(folder).glob("*.o")]

        def build(command):
            began = time.monotonic()
            subprocess.run(command, env=environment, check=True, capture_output=True)
            clean()
            return time.monotonic() - began

        build(make)
        alone = build(make)
        table("who shares", "build, s", "over alone", "fib's rounds, s", "over alone", "unfairness")
        for who, command in [("rayon", make), ("comity", [comity, "run", *make]), ("rayon", make), ("comity", [comity, "run", *make])]:
            fib_alone = mean(together(lab, ["fib:n=40"], who, CORES, environment, 1)[0][0])
            beside = Kernel(lab, "fib:n=40", who, CORES, environment)
            has_begun(beside)
            lasted = build(command)
            times = beside.result()[0]
            slowed = lasted / alone, mean(times) / fib_alone
            name = "plain make, stock rayon" if who == "rayon" else "comity run make, comity"
            row(name, f"{lasted:.1f}", f"{slowed[0]:.2f}", f"{mean(times):.3f}", f"{slowed[1]:.2f}", f"{abs(slowed[0] - slowed[1]):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comity", type=pathlib.Path)
    parser.add_argument("part", choices=["speedups", "barriers", "commands"])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--strace", nargs="+", help="a command that is strace")
    arguments = parser.parse_args()
    comity = arguments.comity.resolve()
    lab = comity.with_name("comity-lab")
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, COMITY_TABLE=str(pathlib.Path(folder, "table")))
        began = time.monotonic()
        match arguments.part:
            case "speedups":
                of_speedups(lab, arguments.seconds, environment)
            case "barriers":
                of_barriers(lab, arguments.seconds, environment, arguments.strace)
            case "commands":
                of_commands(comity, lab, environment)
        print(f"\n{arguments.part}: {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
