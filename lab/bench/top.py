#!/usr/bin/env python3
"""Makes a part of docs/results/costs.md: what `comity top` costs, and what it does to two programs that share cores.

usage: lab/bench/top.py COMITY COMITY-LAB [--rounds N]
mergesort and cg run at once with eight workers each, in turns with `comity top` and without. It runs in a terminal
of its own (tmux, 120 columns, 30 lines, four looks a second). Prints its processor time, and each program's median
time with it over that without. Two minutes or so.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from statistics import median, quantiles

PROGRAMS = {"mergesort:n=8000000": 12, "cg:class=W": 40}


def play(lab):
    """The seconds of each program's rounds, the two at once. Rounds in which the other has ended are left out."""
    start = lambda kernel, rounds: subprocess.Popen(
        [lab, "kernel", kernel, "--workers", "8", "--rounds", str(rounds), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    running = {kernel: start(kernel, rounds) for kernel, rounds in PROGRAMS.items()}
    told = {kernel: json.loads(process.communicate()[0])["rounds"] for kernel, process in running.items()}
    times = {kernel: [one["seconds"] for one in rounds] for kernel, rounds in told.items()}
    shortest = min(sum(rounds) for rounds in times.values())
    kept = {}
    for kernel, rounds in times.items():
        began = 0
        kept[kernel] = [took for took in rounds if (began := began + took) <= shortest]
    return kept


def used(process):
    with open(f"/proc/{process}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comity")
    parser.add_argument("lab")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    ratios = {kernel: [] for kernel in PROGRAMS}
    cost, lasted = 0, 0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["COMITY_TABLE"] = f"{folder}/table"
        tmux = ["tmux", "-S", f"{folder}/tmux"]
        for _ in range(arguments.rounds):
            without = play(arguments.lab)
            subprocess.run([*tmux, "new-session", "-d", "-s", "top", "-x", "120", "-y", "30", f"exec {arguments.comity} top"], check=True)
            pane = [*tmux, "list-panes", "-t", "top", "-F", "#{pane_pid}"]
            top = int(subprocess.run(pane, capture_output=True, text=True, check=True).stdout)
            began, before = time.monotonic(), used(top)
            beside = play(arguments.lab)
            cost += used(top) - before
            lasted += time.monotonic() - began
            subprocess.run([*tmux, "kill-server"], check=True)
            for kernel in PROGRAMS:
                ratios[kernel].append(median(beside[kernel]) / median(without[kernel]))
    print(f"comity top: {cost:.2f} s of processor time in {lasted:.0f} s, {100 * cost / lasted:.2f} % of a core")
    for kernel, values in ratios.items():
        low, _, high = quantiles(values, n=4)
        print(f"{kernel}: {median(values):.3f} ({low:.3f}–{high:.3f}) of the time without it")


if __name__ == "__main__":
    main()
