#!/usr/bin/env python3
"""Measures the experiments of the five papers on this machine's threads.

usage: lab/bench/papers-on-threads.py COMITY-LAB DIR [--repetitions N] [--rounds R] [--only STEP,…] [--commit C] [--table]
COMITY-LAB is the release binary. Keep the machine quiet. Each step is a command of `comity-lab` whose results are
stored in DIR as they come. If the script is interrupted, run it again to continue. The steps are repeated, and all
steps of a repetition run before the next repetition, the most important step first. On two cores a repetition with
--rounds 1 takes about 25 minutes. --table only prints the tables of what DIR has: the median of the repetitions, and
the least and the largest in parentheses.
"""

import argparse
import json
import pathlib
import subprocess
import sys
from statistics import geometric_mean, median

BWS = ["bfs", "ep", "mm:n=900", "raytrace", "cg:class=W", "clip", "mi:n=600", "loop"]
DWS = ["fft", "pnn", "cholesky", "lu", "ge", "heat", "sor", "mergesort:class=medium"]
ROBINHOOD = ["cg:class=W", "clip", "mi:n=600", "ep"]
RAYON = ["--backend", "rayon"]


def corun(programs, policies, *more):
    return ["corun", *programs, "--policy", policies, *more]


# The steps in the order of their importance: the name, and the command without rounds and folder.
STEPS = {
    "bws-pairs": corun(BWS, "comity,bws,abp,plain", "--pairs", *RAYON),
    "dws-mixes": corun(DWS, "comity,dws,abp,equipartition,plain", "--pairs", "--baseline", "abp", *RAYON),
    "ws-last": ["reproduce", "ws-last", "--real"],
    "robinhood-pairs": corun(ROBINHOOD, "robinhood,bws,abp", "--pairs"),
    "a-steal": corun(["mergesort:class=medium", "cg:class=W", "ge"], "a-steal,equipartition,abp", "--pairs"),
    "bws-ablations": ["bench", "solo", "--policy", "bws,bws-busy-wakes,wsgi"],
    "thresholds": corun(
        ["clip", "mm:n=900"], ",".join(f"bws:sleep_threshold={each}" for each in [32, 64, 256, 4096]), "--pairs"
    ),
    "t-sleep": corun(["fft", "mergesort:class=medium"], ",".join(f"dws:t_sleep={each}" for each in [1, 4, 16, 32, 96]), "--pairs"),
    "bws-pairs-others": corun(BWS, "dws,a-steal,robinhood,equipartition", "--pairs"),
    "dws-mixes-others": corun(DWS, "abp,bws,a-steal,robinhood,dws-nc", "--pairs", "--baseline", "abp"),
}


def run(lab, folder, step, rounds):
    """Runs a step, or continues it. Returns true if it is complete."""
    words = STEPS[step]
    if words[0] != "reproduce":
        # `bench solo` has at least 3 rounds.
        words = [*words, "--rounds", str(max(rounds, 3) if words[0] == "bench" else rounds)]
    command = [lab, *words, "--out", folder, "--quiet"]
    return subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0


def note_commit(where, commit):
    """Notes the commit of the results in DIR. Results of another commit are not mixed with them."""
    commit = commit or subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    where.mkdir(parents=True, exist_ok=True)
    noted = where / "commit"
    if noted.exists() and noted.read_text().strip() != commit:
        sys.exit(f"'{where}' has results of commit {noted.read_text().strip()}. Give another DIR for {commit}")
    noted.write_text(commit + "\n")


def results(where, step, repetition="*"):
    """The complete results of a step, one for each repetition."""
    names = ["result.json", f"bench-{STEPS[step][1]}.json"]
    found = [path for name in names for path in where.glob(f"{repetition}/{step}/{name}")]
    every = [json.loads(path.read_text()) for path in sorted(found)]
    return [each for each in every if not each.get("partial")]


def told(values):
    middle, least, most = median(values), min(values), max(values)
    return f"{middle:.2f} ({least:.2f}–{most:.2f})"


def tables(where, steps):
    if not (where / "commit").exists():
        sys.exit(f"'{where}' has no results of this script")
    print(f"Commit {(where / 'commit').read_text().strip()}.")
    for step in steps:
        repetitions = results(where, step)
        if not repetitions:
            continue
        machine = repetitions[0].get("machine")
        on = f" on {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}" if machine else ""
        print(f"\n## {step}\n\n`comity-lab {' '.join(STEPS[step])}`, {len(repetitions)} repetitions{on}\n")
        if "over_pairs" in repetitions[0]:
            of_pairs([each["over_pairs"] for each in repetitions])
        elif "kernels" in repetitions[0]:
            of_solo([each["kernels"] for each in repetitions])
        else:
            of_points([each["points"] for each in repetitions])


def of_pairs(over):
    """Each contestant's means over the pairs."""
    print("| contestant | unfairness | D | weighted speedup | efficiency |\n|---|---|---|---|---|")
    for nth, row in enumerate(over[0]):
        of = lambda column: [each[nth][column] for each in over]
        mean = lambda column: told([each["mean"] for each in of(column)])
        cells = [row["policy"], mean("unfairness"), mean("slowdown_ratio_difference")]
        print("| " + " | ".join([*cells, told(of("weighted_speedup_mean")), mean("efficiency")]) + " |")


def of_solo(runs):
    """Each contestant's time over stock rayon's: the geometric mean over the kernels."""
    print("| contestant | time over stock rayon's |\n|---|---|")
    for nth, ratio in enumerate(runs[0][0]["ratios"]):
        means = [geometric_mean(kernel["ratios"][nth]["of_medians"] for kernel in kernels) for kernels in runs]
        print(f"| {ratio['backend']} | {told(means)} |")


def of_points(runs):
    """WS-LAST's speedup over WS-CUR's, for each experiment and number of tasks: the median, least and largest over the
    amounts of work. Each is a median over the repetitions.
    """
    by_point = {}
    for points in runs:
        for point in points:
            key = (point["experiment"], point["workers"], point["work"])
            by_point.setdefault(key, {}).setdefault(point["variant"], []).append(point["speedup"])
    by_row = {}
    for (experiment, tasks, _), speedups in by_point.items():
        cur, last = speedups.get("Cur", []), speedups.get("Last", [])
        ratios = [second / first for first, second in zip(cur, last)]
        if ratios:
            by_row.setdefault((experiment, tasks), []).append((median(ratios), median(cur)))
    print("| experiment | tasks | amounts of work | WS-LAST over WS-CUR | speedup of WS-CUR |\n|---|---|---|---|---|")
    for (experiment, tasks), values in by_row.items():
        ratios, speedups = zip(*values)
        print(f"| {experiment} | {tasks} | {len(values)} | {told(ratios)} | {told(speedups)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab", type=pathlib.Path, metavar="COMITY-LAB")
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(STEPS))
    parser.add_argument("--commit", help="the commit of COMITY-LAB [default: that of the working directory]")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    unknown = [step for step in arguments.only if step not in STEPS]
    if unknown:
        parser.error(f"no step is called {unknown[0]}. The steps are {', '.join(STEPS)}")
    failed = []
    if not arguments.table:
        note_commit(arguments.dir, arguments.commit)
        for repetition in range(1, arguments.repetitions + 1):
            for step in arguments.only:
                if results(arguments.dir, step, repetition):
                    continue
                print(f"repetition {repetition}: {step}", file=sys.stderr, flush=True)
                folder = arguments.dir / str(repetition) / step
                folder.mkdir(parents=True, exist_ok=True)
                if not run(arguments.lab.resolve(), folder, step, arguments.rounds):
                    failed.append(f"{repetition}/{step}")
    tables(arguments.dir, arguments.only)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
