#!/usr/bin/env python3
"""Makes a table of docs/results/shares.md: the processor time that the kernel's own weights get two commands, beside
`comity run`.

usage: lab/bench/kernel-weights.py COMITY [--seconds S] [--rounds N]
COMITY is the release binary. Keep the machine quiet meanwhile. A control group of the cpu controller is tried where
one can be made: as root, or where it is delegated.

Each command is a shell with a process that computes for each processor. Nice values are 1.25 apart for each level,
and of 0 to 19. Median (worst) of the rounds, in Markdown.
"""

import argparse
import math
import os
import pathlib
import subprocess
import tempfile
import time
from statistics import median

from shares import PROCESSORS, Program, used

WEIGHTS = [(100, 100), (100, 300), (100, 1000), (10, 1000)]
BURN = f"for i in $(seq {PROCESSORS}); do while :; do :; done & done; wait"
SHELL = ["sh", "-c", BURN]
# Version 1 and 2 of control groups, with what is the weight there, and its unit for a weight of 100.
CGROUPS = [("/sys/fs/cgroup/cpu", "cpu.shares", 1024), ("/sys/fs/cgroup", "cpu.weight", 100)]


def level(weight, heaviest):
    """The nice value of a program beside the heaviest, which has 0."""
    return min(19, round(math.log(heaviest / weight) / math.log(1.25)))


class Comity:
    name = "`comity run`"

    def __init__(self, comity, table, apart):
        self.comity, self.environment, self.apart = comity, dict(os.environ, COMITY_TABLE=str(table)), apart

    def start(self, weight, _):
        return Program([self.comity, "run", "--weight", str(weight), *SHELL], weight, self.environment, self.apart)

    def end(self):
        pass


class Nice:
    """The nice value of the command's threads; or, with a group for each command, that of the group."""

    name = "nice values"

    def __init__(self, apart):
        self.apart = apart

    def start(self, weight, heaviest):
        nice = level(weight, heaviest)
        words = SHELL if self.apart else ["nice", "-n", str(nice), *SHELL]
        program = Program(words, weight, os.environ, self.apart)
        try:
            if self.apart:
                time.sleep(0.1)
                pathlib.Path(f"/proc/{program.process.pid}/autogroup").write_text(str(nice))
        except OSError:
            program.end()
            raise
        return program

    def end(self):
        pass


class Cgroup:
    name = "control groups"

    def __init__(self, apart):
        self.apart, self.folders = apart, []

    def start(self, weight, _):
        root, word, unit = next(of for of in CGROUPS if pathlib.Path(of[0]).is_dir())
        folder = pathlib.Path(root, f"comity-{os.getpid()}-{len(self.folders)}")
        folder.mkdir()
        self.folders.append(folder)
        (folder / word).write_text(str(weight * unit // 100))
        program = Program(["sh", "-c", f"echo $$ > {folder}/cgroup.procs && {{ {BURN}; }}"], weight, os.environ, self.apart)
        time.sleep(0.1)
        if str(program.process.pid) not in (folder / "cgroup.procs").read_text().split():
            program.end()
            raise PermissionError(f"{folder}/cgroup.procs takes no process")
        return program

    def end(self):
        for folder in self.folders:
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)


def measure(way, weights, seconds):
    """For each command what it got, as a part of the machine."""
    programs = []
    try:
        for weight in weights:
            programs.append(way.start(weight, max(weights)))
        time.sleep(2)
        all_pids = [program.pids() for program in programs]
        before, began = [used(pids) for pids in all_pids], time.monotonic()
        time.sleep(seconds)
        lasted = time.monotonic() - began
        return [(used(pids) - start) / (lasted * PROCESSORS) for pids, start in zip(all_pids, before)]
    finally:
        for program in programs:
            program.end()
        way.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comity", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    print("| two commands | task groups | by | got | error | used of the machine |")
    print("|---|---|---|---|---|---|")
    for weights in WEIGHTS:
        due = [weight / sum(weights) for weight in weights]
        for apart in [False, True]:
            with tempfile.TemporaryDirectory() as folder:
                table = pathlib.Path(folder, "table")
                for make in [lambda: Comity(arguments.comity.resolve(), table, apart), lambda: Nice(apart), lambda: Cgroup(apart)]:
                    try:
                        rounds = [measure(make(), weights, arguments.seconds) for _ in range(arguments.rounds)]
                    except OSError as error:
                        print(f"| {weights[0]} : {weights[1]} | | {make().name} | cannot be had: {error} | | |", flush=True)
                        continue
                    errors = [max(abs(part - own) for part, own in zip(got, due)) for got in rounds]
                    got = ", ".join(f"{median(parts):.2f}" for parts in zip(*rounds))
                    print(
                        f"| {weights[0]} : {weights[1]} | {'separate' if apart else 'same'} | {make().name} | {got} "
                        f"| {median(errors):.2f} ({max(errors):.2f}) | {median(sum(got) for got in rounds):.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
