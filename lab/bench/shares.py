#!/usr/bin/env python3
"""Makes docs/results/shares.md: the processor time that programs of different weight get, beside what they are due.

usage: lab/bench/shares.py COMITY [--seconds S] [--rounds N] [--workers W] [--kernel K] [--only NAME]
COMITY is the release binary, with `comity-lab` beside it. Keep the machine quiet meanwhile.

Each program could use the whole machine. One is a pool that computes (`comity-lab kernel fib:n=32`, or another with
--kernel), or a command of `comity run`: a shell with a process that computes for each processor. Their due is the
machine's processor time, by weight; the error of a program is |got - due| over the processor time of the machine.
The longest wait is how long a program had no processor time but for its coordinator, sampled every 20 ms, over all
programs. Median (worst) of the rounds, in Markdown.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from statistics import median

SAMPLE_S = 0.02
# A program out of turn has its coordinator's looks.
LOOKS_S = 0.001
PROCESSORS = len(os.sched_getaffinity(0))

# Weights of pools, and of commands.
MIXES = {
    "two pools, 1 : 1": ([100, 100], []),
    "two pools, 1 : 2": ([100, 200], []),
    "two pools, 1 : 3": ([100, 300], []),
    "two pools, 10 : 190": ([10, 190], []),
    "two pools, 1 : 100": ([10, 1000], []),
    "three pools, 1 : 1 : 1": ([100, 100, 100], []),
    "three pools, 1 : 2 : 3": ([100, 200, 300], []),
    "five pools, alike": ([100] * 5, []),
    "five pools, one 4": ([100] * 4 + [400], []),
    "16 pools, alike": ([100] * 16, []),
    "16 pools, one 15": ([100] * 15 + [1500], []),
    "two commands, 1 : 1": ([], [100, 100]),
    "two commands, 1 : 3": ([], [100, 300]),
    "two commands, 1 : 10": ([], [100, 1000]),
    "a pool and a command, 1 : 1": ([100], [100]),
    "a pool and a command, 3 : 1": ([300], [100]),
    "a pool and a command, 1 : 3": ([100], [300]),
}


class Program:
    """One that computes until it is left, in the task group of this script or in its own."""

    def __init__(self, command, weight, environment, apart):
        if weight is not None:
            environment = dict(environment, COMITY_WEIGHT=str(weight))
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet, start_new_session=apart)

    def pids(self):
        """Its processes, and theirs."""
        pids = [self.process.pid]
        for pid in pids:
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    pids += map(int, pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split())
            except FileNotFoundError:
                pass
        return pids

    def end(self):
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def used(pids):
    """Seconds of processor time that processes have had: their clocks, by the numbers of clock_getcpuclockid(3)."""
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def changes(comity, environment):
    """How often cores changed hands, as the table has counted."""
    table = subprocess.run([comity, "table", "--json"], env=environment, check=True, capture_output=True)
    return sum(program["claimed"] + program["taken_back"] for program in json.loads(table.stdout)["programs"])


def measure(comity, pools, commands, apart, seconds, workers, kernel):
    """For each program what it got, as a part of the machine; the longest wait; hand-overs a second."""
    computes = ["kernel", kernel, "--workers", str(workers), "--policy", "comity", "--rounds", "1000000"]
    burn = f"for i in $(seq {PROCESSORS}); do while :; do :; done & done; wait"
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, COMITY_TABLE=str(pathlib.Path(folder, "table")))
        programs = [Program([comity.with_name("comity-lab"), *computes], weight, environment, apart) for weight in pools]
        for weight in commands:
            run = [comity, "run", "--weight", str(weight), "sh", "-c", burn]
            programs.append(Program(run, weight, environment, apart))
        try:
            time.sleep(2)
            all_pids = [program.pids() for program in programs]
            before, began, handed = [used(pids) for pids in all_pids], time.monotonic(), changes(comity, environment)
            last, since, longest = list(before), [began] * len(programs), 0.0
            while (now := time.monotonic()) < began + seconds:
                for nth, pids in enumerate(all_pids):
                    if (by_now := used(pids)) > last[nth] + LOOKS_S:
                        last[nth], since[nth] = by_now, now
                    longest = max(longest, now - since[nth])
                time.sleep(SAMPLE_S)
            lasted = time.monotonic() - began
            got = [(used(pids) - start) / (lasted * PROCESSORS) for pids, start in zip(all_pids, before)]
            return got, longest, (changes(comity, environment) - handed) / lasted
        finally:
            for program in programs:
                program.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comity", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kernel", default="fib:n=32")
    parser.add_argument("--only", default="", help="mixes whose names hold this")
    arguments = parser.parse_args()
    comity = arguments.comity.resolve()
    print("| programs | task groups | due | got | error | used of the machine | longest wait, ms | cores handed over a second |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (pools, commands) in MIXES.items():
        if arguments.only not in name:
            continue
        weights = pools + commands
        due = [weight / sum(weights) for weight in weights]
        for apart in [False, True]:
            rounds = [
                measure(comity, pools, commands, apart, arguments.seconds, arguments.workers, arguments.kernel)
                for _ in range(arguments.rounds)
            ]
            errors = [max(abs(part - own) for part, own in zip(got, due)) for got, _, _ in rounds]
            middle = [median(parts) for parts in zip(*(got for got, _, _ in rounds))]
            # Of programs that are alike the least and the most.
            alike = [sorted(part for part, own in zip(middle, due) if own == one) for one in dict.fromkeys(due)]
            shown = [f"{parts[0]:.2f}" if len(parts) == 1 else f"{parts[0]:.2f}–{parts[-1]:.2f}" for parts in alike]
            print(
                f"| {name} | {'separate' if apart else 'same'} "
                f"| {', '.join(f'{own:.2f}' for own in dict.fromkeys(due))} | {', '.join(shown)} "
                f"| {median(errors):.2f} ({max(errors):.2f}) | {median(sum(got) for got, _, _ in rounds):.2f} "
                f"| {1000 * median(wait for _, wait, _ in rounds):.0f} ({1000 * max(wait for _, wait, _ in rounds):.0f}) "
                f"| {median(handed for _, _, handed in rounds):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
