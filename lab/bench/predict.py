#!/usr/bin/env python3
"""Makes docs/results/predict.md: co-runs on this machine, foretold by `comity-lab predict` and measured by `comity-lab
corun`.

usage: cargo build --release -p comity-lab
       lab/bench/predict.py target/release/comity-lab FOLDER record     # the programs, on this machine
       lab/bench/predict.py target/release/comity-lab FOLDER look       # pairs by which the twin may be mended
       lab/bench/predict.py target/release/comity-lab FOLDER foretell   # the reported pairs, before they are measured
       lab/bench/predict.py target/release/comity-lab FOLDER measure    # the same for real
       lab/bench/predict.py target/release/comity-lab FOLDER compare    # both, side by side

`foretell` writes FOLDER/foretold.json. `compare` takes docs/results/predicted.json, which is what was committed
before anything of it was measured, or with FORETOLD=FILE another.

What is measured is kept in FOLDER and not measured again. Each co-run is measured PARTS times, each time once others
have used less than 10 % of the machine for half a second. If they use more than 4 % beside it (MOST_OTHERS) that
part is measured again, at most eight times (TRIES), or until SECONDS have passed since the script began; then the
least disturbed counts, and what others used is told.

On a machine that is not quiet the superuser can give the programs' task groups more weight than others have:

    setsid -w sh -c 'echo -20 >/proc/self/autogroup; TRIES=1 lab/bench/predict.py …'

The allocator keeps what is freed, as in recorded.py. Each co-run has a core table of its own.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from beside import beside, busy

# Policy, workers, task groups, programs. The twin is mended and fitted by these alone.
LOOKED_AT = [
    ("abp", 2, "same", "cg:class=W", "ep"),
    ("abp", 8, "same", "mi", "mm"),
    ("abp", 8, "separate", "heat", "raytrace"),
    ("bws", 2, "same", "ge", "pnn"),
    ("bws", 8, "same", "mergesort", "uts"),
    ("bws", 2, "separate", "sor", "clip"),
    ("dws", 8, "same", "cg:class=W", "ep"),
    ("dws", 2, "separate", "mi", "mm"),
    ("dws", 8, "separate", "heat", "raytrace"),
    ("comity", 2, "same", "ge", "pnn"),
    ("comity", 2, "separate", "mergesort", "uts"),
    ("comity", 8, "separate", "sor", "clip"),
]

# No pair of these is one of those.
REPORTED = [
    ("abp", 2, "same", "cg:class=W", "mm"),
    ("abp", 8, "same", "mi", "ep"),
    ("abp", 8, "separate", "heat", "clip"),
    ("bws", 2, "same", "ge", "raytrace"),
    ("bws", 8, "same", "cg:class=W", "pnn"),
    ("bws", 2, "separate", "mergesort", "mm"),
    ("dws", 8, "same", "sor", "ep"),
    ("dws", 2, "separate", "cg:class=W", "raytrace"),
    ("dws", 8, "separate", "mi", "clip"),
    ("comity", 2, "same", "heat", "pnn"),
    ("comity", 2, "separate", "lu", "uts"),
    ("comity", 8, "separate", "sor", "mm"),
]

assert not {pair[3:] for pair in LOOKED_AT} & {pair[3:] for pair in REPORTED}

# Of each part, and how many parts. Of the twin.
ROUNDS, PARTS = 6, 2
STARTS = 12
BEGAN, SECONDS = time.monotonic(), float(os.environ.get("SECONDS", "86400"))
MOST_OTHERS, TRIES = float(os.environ.get("MOST_OTHERS", "0.04")), int(os.environ.get("TRIES", "8"))

ENVIRONMENT = {
    **os.environ,
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "16000000000",
    "MALLOC_ARENA_MAX": "1",
}


def lab(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**ENVIRONMENT, "COMITY_TABLE": os.path.join(folder, "table")}
        process = subprocess.Popen([LAB, *arguments, "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        out, err = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {err}")
    return json.loads(out)


def is_late():
    return time.monotonic() - BEGAN > SECONDS


def wait_for_quiet():
    while not is_late():
        before = busy()
        time.sleep(0.5)
        if (busy() - before) / 0.5 / os.cpu_count() < 0.1:
            return
        time.sleep(0.5)


def undisturbed(*arguments):
    """The first measurement beside which others used little, or else the least disturbed; and what they used."""
    best = None
    for _ in range(TRIES):
        wait_for_quiet()
        found, others = beside(lambda: lab(*arguments))
        if best is None or others < best[1]:
            best = found, others
        if others < MOST_OTHERS or is_late():
            break
    return best


def name(corun):
    policy, workers, group, first, second = corun
    return f"{policy}-{workers}-{group}-{first}-{second}".replace(":", "-").replace("=", "-")


def words(corun):
    policy, workers, group, first, second = corun
    return [first, second, "--policy", policy, "--workers", str(workers), "--group", group, "--rounds", str(ROUNDS), "--json", "-"]


def part(corun, nth):
    return os.path.join(FOLDER, f"{name(corun)}-{nth}.json")


def graph(program):
    return os.path.join(FOLDER, program.replace(":", "-").replace("=", "-") + ".graph")


def record():
    for program in sorted({program for corun in LOOKED_AT + REPORTED for program in corun[3:]}):
        if not os.path.exists(graph(program)):
            lab("record", program, "--out", graph(program), "--json")


def foretell(corun):
    """Slowdowns, each with the least and the most of all starts, and seconds alone and together."""
    policy, workers, group, *programs = corun
    options = ["--policy", policy, "--workers", str(workers), "--group", group, "--rounds", str(ROUNDS), "--starts", str(STARTS)]
    found = lab("predict", *map(graph, programs), *options, *COST, "--json", "-")
    told = lambda one: {key: one[key]["foretold"] for key in ["slowdown", "solo_s", "corun_s"]} | {"range": one["range"]}
    return {"costs": found["costs"], "programs": [told(one) for one in found["coruns"][0]["programs"]]}


def measure(coruns):
    for nth, corun in [(nth, corun) for nth in range(PARTS) for corun in coruns]:
        if os.path.exists(part(corun, nth)):
            continue
        found, others = undisturbed("corun", *words(corun))
        found["others"] = others
        with open(part(corun, nth), "w") as file:
            json.dump(found, file)
        slowed = ", ".join(f"{one['name']} {100 * one['slowdown']:.0f} %" for one in found["coruns"][0]["programs"])
        print(f"{name(corun)}, part {nth + 1}: {slowed}; others {100 * others:.1f} %", flush=True)


def measured(corun):
    """Of each program the mean seconds alone and together over all parts that there are; what others used at most."""
    parts = []
    for nth in range(PARTS):
        if os.path.exists(part(corun, nth)):
            with open(part(corun, nth)) as file:
                parts.append(json.load(file))
    if not parts:
        return None
    programs = [[one["coruns"][0]["programs"][nth] for one in parts] for nth in range(2)]
    mean = lambda ones, key: statistics.mean(time for one in ones for time in one["times"][key])
    times = [(mean(ones, "solo_s"), mean(ones, "corun_s")) for ones in programs]
    return times, max(one["others"] for one in parts), len(parts)


def compare(coruns, foretold):
    print("| policy, workers, groups | program | alone, ms | foretold | together, ms | foretold | slowdown, % | foretold (starts) | error | others |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    errors, together, missing = [], [], []
    for corun in coruns:
        real = measured(corun)
        if real is None:
            missing.append(name(corun))
            continue
        times, others, parts = real
        for (alone, with_other), told, program in zip(times, foretold[name(corun)]["programs"], corun[3:]):
            slowdown = with_other / alone - 1
            error = abs(told["slowdown"] / slowdown - 1)
            errors.append((error, f"{program} in {name(corun)}"))
            together.append(abs(told["corun_s"] / with_other - 1))
            least, most = (100 * one for one in told["range"])
            print(
                f"| {corun[0]}, {corun[1]}, {corun[2]} | `{program}` | {1e3 * alone:.0f} | {1e3 * told['solo_s']:.0f} | {1e3 * with_other:.0f} | "
                f"{1e3 * told['corun_s']:.0f} | {100 * slowdown:.0f} | {100 * told['slowdown']:.0f} ({least:.0f}–{most:.0f}) | "
                f"{100 * error:.0f} % | {100 * others:.1f} %{'' if parts == PARTS else f', {parts} of {PARTS} parts'} |"
            )
    if errors:
        worst = max(errors)
        print(f"\nSlowdowns: median error {100 * statistics.median(error for error, _ in errors):.0f} %, worst {100 * worst[0]:.0f} % ({worst[1]}); "
              f"times together: median error {100 * statistics.median(together):.0f} %, worst {100 * max(together):.0f} %.")
    if missing:
        print(f"\nNot measured: {', '.join(missing)}.")


LAB, FOLDER, WHAT = sys.argv[1:4]
# As `--cost` of predict has them.
COST = ["--cost", os.environ["COST"]] if "COST" in os.environ else []
os.makedirs(FOLDER, exist_ok=True)
if WHAT == "record":
    record()
elif WHAT == "look":
    measure(LOOKED_AT)
    compare(LOOKED_AT, {name(corun): foretell(corun) for corun in LOOKED_AT})
elif WHAT == "foretell":
    with open(os.path.join(FOLDER, "foretold.json"), "w") as file:
        json.dump({name(corun): foretell(corun) for corun in REPORTED}, file, indent=1)
elif WHAT == "measure":
    measure(REPORTED)
elif WHAT == "compare":
    committed = os.path.join(os.path.dirname(__file__), "../../docs/results/predicted.json")
    with open(os.environ.get("FORETOLD", committed)) as file:
        compare(REPORTED, json.load(file))
else:
    sys.exit(f"{WHAT}: choose record, look, foretell, measure or compare")
