#!/usr/bin/env python3
"""Measures builds at the same time: with a fixed number of jobs each, and under `comity run` with its jobserver.

usage: lab/bench/builds.py COMITY --build 'FOLDER|CLEAN|BUILD' [--build …] [--fixed 1,2,4] [--rounds N] [--picture FILE.svg]
COMITY is a release binary. CLEAN and BUILD are shell commands that run in FOLDER. All builds start at the same time.
The contestants take turns: for each number of --fixed, BUILD with `-jN` at its end; `run-jN`, the same under `comity
run` with the last of these numbers; and `run`, BUILD without a number under `comity run`. Keep the machine quiet.
Prints Markdown: time until all builds have ended, time of each, processor time, and the compilers that run at the same
time with their memory, sampled every 50 ms. --picture draws the compilers over time, of the median round.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile
import threading
import time
from statistics import median

COMPILERS = {"cc1", "cc1plus", "lto1", "rustc"}
PERIOD = 0.05


def running():
    """The number of compilers of the machine that have not ended, and their resident memory in MiB."""
    count, pages = 0, 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
                if stat[stat.index("(") + 1:stat.rindex(")")] in COMPILERS and ") Z " not in stat:
                    count += 1
                    pages += int(pathlib.Path(f"/proc/{entry}/statm").read_text().split()[1])
            except (OSError, IndexError):
                pass  # It has ended.
    return count, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def play(commands):
    """Runs the commands at the same time. Returns the time of each, their processor time, and the samples."""
    samples, ended = [], threading.Event()
    began = time.monotonic()

    def sample():
        while not ended.wait(PERIOD):
            samples.append((time.monotonic() - began, *running()))

    sampler = threading.Thread(target=sample)
    sampler.start()
    env = dict(os.environ, COMITY_TABLE=os.path.join(tempfile.mkdtemp(), "table"))
    for name in ("MAKEFLAGS", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS"):
        env.pop(name, None)
    children = {}
    for nth, (folder, command) in enumerate(commands):
        child = subprocess.Popen(["sh", "-c", "exec " + command], cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        children[child.pid] = nth
    times, used = [0.0] * len(commands), 0.0
    for _ in commands:
        pid, status, usage = os.wait3(0)
        if status:
            raise SystemExit(f"'{commands[children[pid]][1]}' ended with status {status}")
        times[children[pid]] = time.monotonic() - began
        used += usage.ru_utime + usage.ru_stime
    ended.set()
    sampler.join()
    return times, used, samples


def told(values, digits=1):
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def draw(path, found):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(found), sharex=True, sharey=True, figsize=(8, 1.2 * len(found)), squeeze=False)
    for axis, (name, rounds) in zip(axes[:, 0], found.items()):
        rounds = sorted(rounds, key=lambda one: max(one[0]))
        _, _, samples = rounds[len(rounds) // 2]
        axis.fill_between([at for at, _, _ in samples], [count for _, count, _ in samples], step="post")
        axis.set_title(name, loc="left", fontsize="small")
    axes[-1, 0].set_xlabel("seconds")
    figure.supylabel("compilers that run", fontsize="small")
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comity", type=os.path.abspath, metavar="COMITY")
    parser.add_argument("--build", action="append", required=True, type=lambda text: text.split("|"), dest="builds")
    parser.add_argument("--fixed", default="1,2,4", type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--picture")
    options = parser.parse_args()
    prefix = f"{options.comity} run "
    contestants = {f"-j{number}": ("", f" -j{number}") for number in options.fixed}
    contestants |= {f"run -j{options.fixed[-1]}": (prefix, f" -j{options.fixed[-1]}"), "run": (prefix, "")}
    found = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, (before, after) in contestants.items():
            for folder, clean, _ in options.builds:
                subprocess.run(clean, shell=True, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found[name].append(play([(folder, before + build + after) for folder, _, build in options.builds]))
    print("| contestant | all builds, s | each, s | processor time, s | compilers, mean | most | memory, most, MiB |")
    print("|---|---|---|---|---|---|---|")
    for name, rounds in found.items():
        each = ", ".join(f"{median(times[nth] for times, _, _ in rounds):.1f}" for nth in range(len(options.builds)))
        mean = [sum(count for _, count, _ in samples) / len(samples) for _, _, samples in rounds]
        most = [max(count for _, count, _ in samples) for _, _, samples in rounds]
        memory = [max(size for _, _, size in samples) for _, _, samples in rounds]
        cells = [told([max(times) for times, _, _ in rounds]), each, told([used for _, used, _ in rounds]), told(mean), told(most, 0), told(memory, 0)]
        print(f"| {name} | {' | '.join(cells)} |")
    if options.picture:
        draw(options.picture, found)


main()
