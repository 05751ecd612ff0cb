#!/usr/bin/env python3
"""Makes a table of docs/results/shares.md: what two programs get if one is at a lower priority, by the kernel alone and
with Comity.

usage: lab/bench/nice.py COMITY [--seconds S] [--rounds N] [--only TEXT]
COMITY is the release binary, with `comity-lab` beside it. Keep the machine quiet meanwhile. Needs root for control
groups. A command is a shell with a process that computes for each processor; a pool is `comity-lab kernel fib:n=32`.
By the kernel alone: plain commands, and pools without a table. The figure is the part of both programs' processor time
that the first one got, median (lowest–highest) of the rounds, in Markdown.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile
import time
from statistics import median

from shares import PROCESSORS, Program, used

SHELL = ["sh", "-c", f"for i in $(seq {PROCESSORS}); do while :; do :; done & done; wait"]
GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")
# What is put before the words of the first program.
CASES = {
    "nice 19": ["nice", "-n", "19"],
    "nice 5": ["nice", "-n", "5"],
    "SCHED_IDLE": ["chrt", "-i", "0"],
    "renice to 19 after the start": [],
    "control groups, 1 : 9": [],
    "weight 10 beside a plain program": [],
}


def in_group(folder, shares, words):
    folder.mkdir()
    (folder / "cpu.shares").write_text(str(shares))
    return ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh", *words]


def start(case, comity, kind, apart, table, nth, base):
    """Starts the first or second program of a case, by the kernel alone if there is no `comity`."""
    is_plain = case == "weight 10 beside a plain program" and nth == 1
    weight = 10 if case == "weight 10 beside a plain program" and nth == 0 else None
    if kind == "pool":
        words = [str(base.with_name("comity-lab")), "kernel", "fib:n=32", "--workers", str(PROCESSORS), "--rounds", "1000000", "-q"]
    else:
        words = SHELL if is_plain or not comity else [str(comity), "run", *SHELL]
    if case == "control groups, 1 : 9":
        words = in_group(GROUPS / f"comity-{os.getpid()}-{nth}", [102, 921][nth], words)
    elif nth == 0:
        words = CASES[case] + words
        # What the kernel makes of the same wish.
        words = ["nice", "-n", "10"] + words if weight and not comity else words
    environment = dict(os.environ, COMITY_TABLE=str(table) if comity and not is_plain else "off")
    return Program(words, weight if comity else None, environment, apart)


def measure(case, comity, kind, apart, seconds, base):
    with tempfile.TemporaryDirectory() as folder:
        programs = [start(case, comity, kind, apart, pathlib.Path(folder, "table"), nth, base) for nth in (0, 1)]
        try:
            time.sleep(1)
            if case.startswith("renice"):
                subprocess.run(["renice", "-n", "19", "-p", *map(str, programs[0].pids())],
                               stdout=subprocess.DEVNULL, check=True)
                if kind == "pool":
                    # The threads of a process that runs have nice values of their own.
                    threads = os.listdir(f"/proc/{programs[0].process.pid}/task")
                    subprocess.run(["renice", "-n", "19", "-p", *threads], stdout=subprocess.DEVNULL, check=True)
            time.sleep(1.5)
            pids = [program.pids() for program in programs]
            before = [used(own) for own in pids]
            time.sleep(seconds)
            got = [used(own) - start for own, start in zip(pids, before)]
            return got[0] / sum(got)
        finally:
            for program in programs:
                program.end()
            for folder in GROUPS.glob(f"comity-{os.getpid()}-*"):
                while True:
                    try:
                        folder.rmdir()
                        break
                    except OSError:
                        time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comity", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    comity = arguments.comity.resolve()
    print("| the first is | programs | task groups | by the kernel | with Comity | difference |\n|---|---|---|---|---|---|")
    for case in (case for case in CASES if arguments.only in case):
        for kind in ("command", "pool"):
            for apart in (False, True):
                rounds = [[measure(case, by, kind, apart, arguments.seconds, comity) for by in (None, comity)] for _ in range(arguments.rounds)]
                kernel, with_comity = zip(*rounds)
                shown = [f"{median(parts):.3f} ({min(parts):.3f}–{max(parts):.3f})" for parts in (kernel, with_comity)]
                difference = abs(median(kernel) - median(with_comity))
                print(f"| {case} | {kind}s | {'separate' if apart else 'one'} | {' | '.join(shown)} | {difference:.3f} |", flush=True)


main()
