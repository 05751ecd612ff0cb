#!/usr/bin/env python3
"""Makes a table of docs/results/use.md: what `comity run` costs a command.

That is its start, alone and beside a program that computes, a build of many small compilations, and the
coordinator's own processor time.

usage: lab/bench/commands.py COMITY [--before COMITY] [--rounds N]
COMITY is the release binary, with `comity-lab` beside it; --before takes that of an earlier state. Needs `make` and
`gcc`. Keep the machine quiet meanwhile: some five minutes on two cores. Medians (quartiles), in Markdown.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile
import threading
import time
from statistics import median, quantiles

FILES = 400
STARTS = 100
TICKS = os.sysconf("SC_CLK_TCK")


def cell(values, digits=2):
    low, _, high = quantiles(values, n=4, method="inclusive")
    return f"{median(values):.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def environment(table):
    return dict(os.environ, COMITY_TABLE=table)


def starts(contestants):
    """Milliseconds of a command that ends at once, in turns."""
    took = {who: [] for who in contestants}
    for _ in range(STARTS):
        for who, (prefix, table) in contestants.items():
            begin = time.perf_counter()
            subprocess.run([*prefix, "/usr/bin/true"], env=environment(table), check=True)
            took[who].append((time.perf_counter() - begin) * 1e3)
    return took


class Fib:
    """A program on both cores that shares by `table`, while the block lasts."""

    def __init__(self, comity, table):
        self.process = subprocess.Popen(
            [comity.with_name("comity-lab"), "kernel", "fib:n=32", "--workers", "2", "--rounds", "1000000", "--policy", "comity"],
            env=environment(table), stdout=subprocess.DEVNULL, start_new_session=True)

    def __enter__(self):
        time.sleep(0.5)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def coordinator_of(process):
    """The process that takes part for a command: its name says for which."""
    name = f"comity:{process}"[:15]
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "comm").read_text().strip() == name:
                    return entry
            except OSError:
                pass
    return None


class Cost:
    """Processor time and switches of a coordinator, looked at until its command has ended."""

    def __init__(self, process):
        self.process, self.cpu_s, self.switches = process, 0.0, 0
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        entry = None
        while self.process.poll() is None:
            time.sleep(0.05)
            entry = entry or coordinator_of(self.process.pid)
            if entry is None:
                continue
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                self.cpu_s = (int(fields[11]) + int(fields[12])) / TICKS
                self.switches = sum(
                    int(line.split()[1])
                    for task in (entry / "task").iterdir()
                    for line in (task / "status").read_text().splitlines() if "ctxt_switches" in line)
            except OSError:
                pass


def build(prefix, table, folder):
    """Seconds of the build, of which the coordinator's processor time, and its switches per second."""
    subprocess.run(["make", "-s", "clean"], cwd=folder, check=True)
    begin = time.monotonic()
    process = subprocess.Popen([*prefix, "make", "-s", "-j4"], cwd=folder, env=environment(table))
    cost = Cost(process) if prefix else None
    assert process.wait() == 0
    took = time.monotonic() - begin
    if cost:
        cost.thread.join()
    return took, cost.cpu_s / took if cost else 0, cost.switches / took if cost else 0


def sources(folder):
    for nth in range(FILES):
        lines = "\n".join(f"int f{nth}_{line}(int x) {{ return x * {line} + {nth}; }}" for line in range(40))
        (folder / f"f{nth}.c").write_text(f"#include <stdio.h>\n{lines}\n")
    (folder / "Makefile").write_text(
        "OBJECTS := $(patsubst %.c,%.o,$(wildcard *.c))\nall: $(OBJECTS)\n%.o: %.c\n\tgcc -O1 -c $< -o $@\n"
        "clean:\n\trm -f *.o\n")


def idle(comity, table, seconds):
    """The coordinator's part of a core, and its switches per second, beside a command that sleeps."""
    process = subprocess.Popen([comity, "run", "sleep", str(seconds)], env=environment(table))
    cost = Cost(process)
    assert process.wait() == 0
    cost.thread.join()
    return cost.cpu_s / seconds, cost.switches / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comity", type=pathlib.Path)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    binaries = {"since": arguments.comity.absolute()}
    if arguments.before:
        binaries["before"] = arguments.before.absolute()
    with tempfile.TemporaryDirectory() as folder:
        tables = {who: f"{folder}/{who}" for who in binaries}
        print("| | command | time, ms |\n|---|---|---|")
        contestants = {"": ([], "off")} | {who: ([binary, "run"], tables[who]) for who, binary in binaries.items()}
        for who, took in starts(contestants).items():
            print(f"| alone | {'`comity run true`, ' + who if who else '`true`'} | {cell(took)} |", flush=True)
        for who, binary in binaries.items():
            with Fib(binary, tables[who]):
                took = starts({"": ([], "off"), who: contestants[who]})
            print(f"| beside `fib` | `true` | {cell(took[''])} |")
            print(f"| beside `fib` | `comity run true`, {who} | {cell(took[who])} |", flush=True)

        work = pathlib.Path(folder) / "work"
        work.mkdir()
        sources(work)
        took = {who: [] for who in contestants}
        costs = {who: [] for who in contestants}
        for _ in range(arguments.rounds):
            for who, (prefix, table) in contestants.items():
                seconds, *cost = build(prefix, table, work)
                took[who].append(seconds)
                costs[who].append(cost)
        print(f"\n| `make -j4`, {FILES} files | time, s | over plain `make`, round by round | coordinator, of a core | switches/s |\n|---|---|---|---|---|")
        for who in contestants:
            over = [own / plain for own, plain in zip(took[who], took[""])]
            part, switches = (median(values) for values in zip(*costs[who]))
            rest = f"{part:.2%} | {switches:.0f}" if who else "– | –"
            print(f"| {'`comity run`, ' + who if who else 'plain'} | {cell(took[who])} | {cell(over, 3)} | {rest} |", flush=True)

        print("\n| beside a command that sleeps | coordinator, of a core | switches/s |\n|---|---|---|")
        for who, binary in binaries.items():
            part, switches = idle(binary, tables[who], 10)
            print(f"| {who} | {part:.2%} | {switches:.1f} |", flush=True)


main()
