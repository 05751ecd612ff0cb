#!/usr/bin/env python3
"""Makes tables of docs/results/use.md: tasks that wait for each other, alone and beside programs that compute.

usage: lab/bench/waits.py [alone] [beside] [waves] [--rounds N] [--before TARGET]
TARGET is the release folder of an earlier state, with the kernels and the example `barrier` of this one. Everything
else is built. Tables in Markdown on standard output. Keep the machine quiet meanwhile: some twenty minutes on two
cores.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from statistics import median

root = pathlib.Path(__file__).resolve().parents[2]
WAYS = ["block", "spin", "yield"]
LIMIT_S = 60
# What takes longer is not repeated.
ENOUGH_MS = 5000
ENOUGH_S = 20
CORES = len(os.sched_getaffinity(0))


def environment(table):
    return dict(os.environ, COMITY_TABLE=table)


def meet(contestant, way, tasks):
    """Milliseconds until all tasks have met; the limit, if they had not by then."""
    folder, table = contestant
    command = [folder / "examples/barrier", str(tasks), way]
    try:
        done = subprocess.run(command, env=environment(table), capture_output=True, text=True, check=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return LIMIT_S * 1e3
    return float(done.stdout)


def command_in(folder):
    """The command with the kernels: earlier states have one command for everything."""
    lab = folder / "comity-lab"
    return lab if lab.exists() else folder / "comity"


def waves(contestant, wait, tasks, sweeps):
    """Seconds of a wavefront."""
    folder, table = contestant
    name = f"wavefront:tasks={tasks},wait={wait},sweeps={sweeps}"
    command = [command_in(folder), "kernel", name, "--workers", str(tasks), "--policy", "comity", "--json"]
    done = subprocess.run(command, env=environment(table), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["rounds"][0]["seconds"]


class Neighbours:
    """Programs of two workers that compute, while the block lasts."""

    def __init__(self, contestant, number, separate):
        folder, table = contestant
        self.processes = [
            subprocess.Popen(
                [command_in(folder), "kernel", "fib:n=32", "--workers", "2", "--rounds", "1000000", "--policy", "comity"],
                env=environment(table), stdout=subprocess.DEVNULL, start_new_session=separate)
            for _ in range(number)
        ]

    def __enter__(self):
        time.sleep(0.5)
        self.begin, self.used = time.monotonic(), self.cpu_s()
        return self

    def cores(self):
        """Cores that they used together since the block began."""
        return (self.cpu_s() - self.used) / (time.monotonic() - self.begin)

    def cpu_s(self):
        def of(process):
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        return sum(map(of, self.processes))

    def __exit__(self, *_):
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()


def spread(values, digits=2):
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def header(*cells):
    print()
    row(*cells)
    row(*["---"] * len(cells))


def alone(contestants, rounds):
    header("tasks that wait by", "tasks", *[f"{who}, ms" for who in contestants], "comity / off")
    for way in WAYS:
        for tasks in [2, 4, 8, 16, 32, 64]:
            took = {who: [] for who in contestants}
            for _ in range(rounds):
                for who, contestant in contestants.items():
                    took[who].append(meet(contestant, way, tasks))
            row(way, tasks, *map(spread, took.values()), f"{median(took['comity']) / median(took['off']):.2f}")
    header("wavefront, alone, that waits by", "tasks", *[f"{who}, s" for who in contestants], "comity / off")
    for wait in ["condvar", "spin", "yield"]:
        for tasks in [8, 32]:
            took = {who: [] for who in contestants}
            for _ in range(rounds):
                for who, contestant in contestants.items():
                    took[who].append(waves(contestant, wait, tasks, 100))
            row(wait, tasks, *[spread(own, 3) for own in took.values()], f"{median(took['comity']) / median(took['off']):.2f}")


def beside(contestants, rounds):
    header("neighbours", "groups", "tasks that wait by", "tasks", *[f"{who}, ms" for who in contestants], "within 150 ms or 20 × off")
    for number in [1, 3]:
        for separate in [False, True]:
            for way in WAYS:
                for tasks in [4, 8, 32, 64]:
                    took = {}
                    for who, contestant in contestants.items():
                        with Neighbours(contestant, number, separate):
                            took[who] = []
                            while len(took[who]) < rounds and sum(took[who]) < ENOUGH_MS:
                                took[who].append(meet(contestant, way, tasks))
                    is_within = median(took["comity"]) <= max(150, 20 * median(took["off"]))
                    groups = "separate" if separate else "same"
                    row(number, groups, way, tasks, *map(spread, took.values()), "yes" if is_within else "**no**")


def waves_beside(contestants, rounds):
    header("neighbours", "groups", "wavefront that waits by", "tasks", *[f"{who}: s, of what its share allows, neighbours' cores" for who in contestants])
    for number in [1, 3]:
        share = CORES / (number + 1)
        for separate in [False, True]:
            for wait in ["condvar", "spin", "yield"]:
                for tasks in [8, 32]:
                    cells = []
                    for contestant in contestants.values():
                        # The work alone: one task waits for none.
                        work = median(waves(contestant, "condvar", 1, 100) for _ in range(3))
                        with Neighbours(contestant, number, separate) as neighbours:
                            took = []
                            while len(took) < rounds and sum(took) < ENOUGH_S:
                                took.append(waves(contestant, wait, tasks, 100))
                            used = neighbours.cores()
                        cells.append(f"{spread(took)}, {median(took) * share / work:.2f}, {used:.2f} of {CORES - share:.2f}")
                    row(number, "separate" if separate else "same", wait, tasks, *cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["alone", "beside", "waves"], metavar="alone|beside|waves")
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    subprocess.run(["cargo", "build", "--release", "-p", "comity-lab"], cwd=root, check=True)
    subprocess.run(["cargo", "build", "--release", "-p", "comity", "--example", "barrier"], cwd=root, check=True)
    release = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target")).absolute() / "release"
    with tempfile.TemporaryDirectory() as folder:
        contestants = {"comity": (release, f"{folder}/table"), "off": (release, "off")}
        if arguments.before:
            contestants["before"] = (arguments.before.absolute(), f"{folder}/before")
        parts = {"alone": alone, "beside": beside, "waves": waves_beside}
        for part in arguments.parts:
            parts[part](contestants, arguments.rounds)


main()
