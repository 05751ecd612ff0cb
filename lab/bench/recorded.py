#!/usr/bin/env python3
"""Makes docs/results/recorded.md: what `comity-lab record` says of the papers' programs, and their times simulated and
for real.

usage: cargo build --release -p comity-lab
       lab/bench/recorded.py target/release/comity-lab FOLDER [ROUNDS]
       lab/bench/recorded.py target/release/comity-lab FOLDER scale

The first form makes the first two tables. The second records small inputs, scales them by the kernels' rules, and
compares them with recordings of the larger ones: the third table. Recordings go to FOLDER. PROGRAMS and POLICIES in
the environment choose.

Real runs take turns: each round runs every program on one worker and on two, four times each, of which the first
does not count. What is measured while others use more than 4 % of the machine is measured again. The allocator keeps
what is freed, in all runs alike. What a program allocates would otherwise be mapped and cleared anew in some rounds
and not in others, which in `fft` is a third of the time.
"""

import json
import os
import statistics
import subprocess
import sys
import time

from beside import beside

PROGRAMS = [
    "bfs", "cg", "cg:class=W", "ep", "mm", "mi", "raytrace", "clip", "mergesort", "fft", "pnn", "cholesky", "lu", "ge",
    "heat", "sor", "nqueens", "fib", "uts",
]  # fmt: skip

if "PROGRAMS" in os.environ:
    PROGRAMS = os.environ["PROGRAMS"].split()

POLICIES = os.environ.get("POLICIES", "abp,comity").split(",")

# Small and large: the kernel's rule has the factors between them.
SCALES = [
    ("sor:class=medium,sweeps=25", "sor:class=medium,sweeps=100"),
    ("sor:rows=512,columns=1024", "sor:rows=2048,columns=1024"),
    ("heat:class=medium,steps=10", "heat:class=medium,steps=40"),
    ("ep:class=S", "ep:class=W"),
    ("clip:pairs=5000", "clip:pairs=20000"),
    ("raytrace:width=320,height=240", "raytrace:width=640,height=480"),
    ("raytrace:samples=2", "raytrace:samples=4"),
    ("mm:n=800", "mm:n=1600"),
    ("pnn:samples=1500", "pnn:samples=6000"),
    ("pnn:class=medium", "pnn:class=paper"),
    ("bfs:nodes=250000", "bfs:nodes=1000000"),
    ("bfs:nodes=1000000", "bfs:nodes=4000000"),
    ("mergesort:n=2500000", "mergesort:n=10000000"),
    ("fft:n=262144", "fft:n=1048576"),
    ("fft:class=medium", "fft:class=paper"),
    ("cg:class=S", "cg:class=W"),
    ("cg:class=W", "cg:class=A"),
    ("mi:n=400", "mi:n=800"),
    ("lu:n=512", "lu:n=1024"),
    ("lu:n=1024", "lu:n=2048"),
    ("cholesky:n=500,nonzeros=5000", "cholesky:n=1000,nonzeros=10000"),
    ("cholesky:class=medium", "cholesky:class=paper"),
    ("ge:n=512", "ge:n=1024"),
    ("ge:n=1024", "ge:n=2048"),
    ("nqueens:n=12", "nqueens:n=14"),
    ("fib:n=32", "fib:n=36"),
]

ENVIRONMENT = {
    **os.environ,
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "16000000000",
    "MALLOC_ARENA_MAX": "1",
    # Alone on the machine a program needs no table.
    "COMITY_TABLE": "off",
}


# What others may use of the machine while something is measured, and how often that is tried.
MOST_OTHERS, TRIES = float(os.environ.get("MOST_OTHERS", "0.04")), 40
disturbed = 0


def lab(*arguments):
    quiet = [] if "--show" in arguments else ["-q"]
    done = subprocess.run([LAB, *arguments, "--json", *quiet], capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def undisturbed(*arguments):
    """Measures again while others compute beside it."""
    global disturbed
    for _ in range(TRIES):
        found, others = beside(lambda: lab(*arguments))
        if others < MOST_OTHERS:
            return found
        disturbed += 1
        time.sleep(2)
    sys.exit(f"{' '.join(arguments)}: {TRIES} times others used more than {MOST_OTHERS:.0%} of the machine")


def path(program):
    return os.path.join(FOLDER, program.replace(":", "-").replace("=", "-").replace(",", "-") + ".graph")


# As `comity-lab record` has it where none is given.
MERGE_NS = 2_000


def record(program, rounds=5, merge_ns=MERGE_NS):
    options = ["--workers", "8", "--rounds", str(rounds), "--merge-ns", str(merge_ns)]
    return undisturbed("record", program, *options, "--out", path(program))


def simulate(program, workers, policy):
    scenario = f"""
[machine]
model = "host"
processors = 2
steps = 1_000_000_000_000
[[programs]]
name = "p"
policy = "{policy}"
kind = "recorded"
file = "{os.path.basename(path(program))}"
workers = {workers}
"""
    name = os.path.join(FOLDER, "solo.toml")
    with open(name, "w") as file:
        file.write(scenario)
    program = lab("simulate", name)["runs"][0]["programs"][0]
    return (program["ended"] - program["came"]) / 1e9


def ms(seconds):
    return f"{1e3 * seconds:.1f}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def us(nanoseconds):
    return f"{nanoseconds / 1e3:.1f}"


def percent(ratio):
    return f"{100 * (ratio - 1):+.0f} %"


def spread(times):
    return f"{ms(statistics.median(times))} ({ms(min(times))}–{ms(max(times))})"


def tables(rounds):
    recorded = {program: record(program) for program in PROGRAMS}
    print("| program | serial run, ms | work | error | recording costs | span, ms | T₁/T∞ | tasks | joins merged | leaves, p10, p50, p90, µs | kB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for program, found in recorded.items():
        plain = found["plain"]
        leaves = ", ".join(us(length) for length in found["leaf_ns"][:3])
        size = os.path.getsize(path(program)) // 1024
        print(
            f"| `{program}` | {ms(plain['median'])} ({ms(plain['least'])}–{ms(plain['most'])}) | {ms(found['work_s'])} | "
            f"{percent(found['work_s'] / plain['median'])} | {100 * found['slowdown']:.0f} % | {1e3 * found['span_s']:.2f} | "
            f"{found['parallelism']:.0f} | {found['tasks']} | {found['merged_joins']} | {leaves} | {size} |"
        )
    print(f"\n{disturbed} measurements were disturbed, and made again.")
    for policy in POLICIES:
        real = {(program, workers): [] for program in PROGRAMS for workers in [1, 2]}
        for _ in range(rounds):
            for program, workers in real:
                # The first has pages to map.
                found = undisturbed("kernel", program, "--policy", policy, "--workers", str(workers), "--rounds", "4")
                real[program, workers].append(statistics.median(one["seconds"] for one in found["rounds"][1:]))
        print(f"\nUnder `{policy}`:\n\n| program | 1 worker, real, ms | simulated | error | 2 workers, real, ms | simulated | error |")
        print("|---|---|---|---|---|---|---|")
        errors = []
        for program in PROGRAMS:
            cells = []
            for workers in [1, 2]:
                times, simulated = real[program, workers], simulate(program, workers, policy)
                ratio = simulated / statistics.median(times)
                errors.append((abs(ratio - 1), program, workers))
                cells.append(f"{spread(times)} | {ms(simulated)} | {percent(ratio)}")
            print(f"| `{program}` | {' | '.join(cells)} |")
        for name, some in [("all", errors), ("all but fib", [error for error in errors if error[1] != "fib"])]:
            worst = max(some)
            print(f"\n{name}: median error {100 * statistics.median(e for e, *_ in some):.1f} %, worst {100 * worst[0]:.1f} % ({worst[1]}, {worst[2]} workers)")


def scales():
    print("| small | larger | factors | work, ms | | span, ms | | tasks | | leaves, p10, p50, p90, µs |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    errors = []
    for small, large in SCALES:
        record(small)
        wanted = record(large)
        found = lab("record", "--show", path(small), "--scale", large)
        if found["scale"]["length"] > 1:
            # Else leaves are merged that will be longer.
            record(small, merge_ns=round(MERGE_NS / found["scale"]["length"]))
            found = lab("record", "--show", path(small), "--scale", large)
        factors = ", ".join(f"{name} {factor:.3g}" for name, factor in found["scale"].items() if factor != 1)
        cells = []
        for key, show in [("work_s", ms), ("span_s", lambda s: f"{1e3 * s:.2f}"), ("tasks", str)]:
            cells.append(f"{show(found[key])} / {show(wanted[key])} | {percent(found[key] / wanted[key])}")
        leaves = " / ".join(", ".join(us(length) for length in one["leaf_ns"][:3]) for one in [found, wanted])
        errors.append((abs(found["work_s"] / wanted["work_s"] - 1), large))
        print(f"| `{small}` | `{large}` | {factors} | {' | '.join(cells)} | {leaves} |", flush=True)
    worst = max(errors)
    print(f"\nwork: median error {100 * statistics.median(e for e, _ in errors):.1f} %, worst {100 * worst[0]:.1f} % ({worst[1]})")


LAB, FOLDER = sys.argv[1], sys.argv[2]
os.makedirs(FOLDER, exist_ok=True)
if sys.argv[3:] == ["scale"]:
    scales()
else:
    tables(int(sys.argv[3]) if len(sys.argv) > 3 else 5)
