#!/usr/bin/env python3
"""Makes the tables of docs/results/outside.md: programs that this project did not write, in pairs.

usage: lab/bench/outside.py pairs FOLDER CONTESTANT… [--threads N] [--grouping separate|one] [--rounds R] [--seconds S] [--pairs A+B,…]
       lab/bench/outside.py waits FOLDER [--neighbours K] [--kernel ep|fib] [--grouping separate|one] [--rounds R] [--tasks N,…] [--kinds WAIT,…]

pairs: FOLDER has the NAS benchmarks in Rust (GMAP/NPB-Rust, NPB-RAYON) in `stock` and, built with the drop-in, in
`dropin`. A contestant is `stock` or a policy; FOLDER=CONTESTANT takes another folder. In each round every contestant
repeats both programs of a pair for S seconds. waits: FOLDER has `comity-lab` and the example `waits` of the crate
`comity`. Tasks that wait for each other run beside K programs that compute, and alone on one core. Keep the machine
quiet meanwhile.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import threading
import time

PAIRS = "cg+lu,cg+ep,sp+mg,lu+ep,cg+sp,ft+lu,bt+ep,is+mg,sp+lu,ft+cg"
WAITS = "condvar,barrier,channel,spin,yield"
# Rounds of each number of tasks: about half a second on one core.
STEPS = {2: 400, 4: 200, 8: 100, 16: 50, 32: 25, 64: 12}


def new_table():
    return os.path.join(tempfile.mkdtemp(), "table")


def run(command, env, session):
    """Runs a command. Returns its wall time and processor time in seconds, and its output."""
    begin = time.time()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env=env, start_new_session=session, text=True)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    if status:
        raise SystemExit(f"{command} ended with status {status}")
    return time.time() - begin, usage.ru_utime + usage.ru_stime, output


def program(options, contestant, name, table):
    folder, _, policy = contestant.rpartition("=")
    kind = "stock" if policy == "stock" else "dropin"
    env = dict(os.environ, RAYON_NUM_THREADS=str(options.threads), COMITY_TABLE=table)
    if policy != "stock":
        env["COMITY_POLICY"] = policy
    command = [f"{folder or options.folder}/{kind}/{name}", str(options.threads)]
    return run(command, env, options.grouping == "separate")[:2]


def pair(options, contestant, names):
    """Repeats both programs at once. Returns per program the mean wall time and the cores that it used meanwhile.

    A run counts if both programs ran until its end. Otherwise the slower program's last run would have the machine
    for itself, once the other one is through.
    """
    table, runs, end, through = new_table(), ([], []), time.time() + options.seconds, [False, False]

    def repeat(nth):
        while not all(through):
            found = program(options, contestant, names[nth], table)
            if not all(through):
                runs[nth].append(found)
                through[nth] = time.time() > end

    threads = [threading.Thread(target=repeat, args=(nth,)) for nth in (0, 1)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return [(statistics.mean(wall for wall, _ in own), sum(cpu for _, cpu in own) / sum(wall for wall, _ in own)) for own in runs]


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def pairs(options):
    all_pairs = [tuple(names.split("+")) for names in options.pairs.split(",")]
    alone = {}
    for name in sorted({name for names in all_pairs for name in names}):
        took = [program(options, f"{options.folder}=stock", name, "off") for _ in range(3)]
        alone[name] = statistics.median(wall for wall, _ in took), statistics.median(cpu / wall for wall, cpu in took)
    print("alone:", ", ".join(f"{name} {wall:.2f} s on {cores:.2f} cores" for name, (wall, cores) in alone.items()), flush=True)
    found = {}
    for _ in range(options.rounds):
        for names in all_pairs:
            for contestant in options.contestants:
                found.setdefault((contestant, names), []).append(pair(options, contestant, names))
    print("\n| contestant | pair | slowdowns | cores |\n|---|---|---|---|")
    for contestant in options.contestants:
        unfairness, speedup, used = [], [], []
        for names in all_pairs:
            rounds = found[contestant, names]
            slowdowns = [[one[nth][0] / alone[names[nth]][0] for one in rounds] for nth in (0, 1)]
            cores = [[one[nth][1] for one in rounds] for nth in (0, 1)]
            unfairness += [abs(one - other) for one, other in zip(*slowdowns)]
            speedup += [1 / one + 1 / other for one, other in zip(*slowdowns)]
            used += [sum(one) for one in zip(*cores)]
            cells = " and ".join(map(spread, slowdowns)), " + ".join(map(spread, cores))
            print(f"| {contestant} | {' + '.join(names)} | {cells[0]} | {cells[1]} |")
        means = [statistics.mean(values) for values in (unfairness, speedup, used)]
        print(f"| **{contestant}** | **all** | unfairness {means[0]:.2f} (worst {max(unfairness):.2f}), weighted speedup "
              f"{means[1]:.2f} (worst {min(speedup):.2f}) | {means[2]:.2f} |", flush=True)


def waits(options):
    folder, session = options.folder, options.grouping == "separate"
    off = dict(os.environ, COMITY_TABLE="off")
    turns = run([f"{folder}/waits", "turns", "1", "1", "1", "20"], off, session)[2].strip()
    kernel = {"ep": ["ep"], "fib": ["fib:n=38"]}[options.kernel]
    share = min(1.0, 2 / (options.neighbours + 1))
    print(f"times of {share:.2f} of a core | tasks | own core, s | neighbour, cores")
    for wait in options.kinds.split(","):
        for tasks in map(int, options.tasks.split(",")):
            steps = max(2, STEPS[tasks] // (4 if wait == "spin" else 1))
            command, times, own, cores = [f"{folder}/waits", wait, str(tasks), str(tasks), str(steps), "20"], [], [], []
            for _ in range(options.rounds):
                own.append(float(run(["taskset", "-c", "0", *command], dict(off, TURNS=turns), session)[2]))
                env = dict(os.environ, COMITY_TABLE=new_table(), TURNS=turns)
                neighbour = [f"{folder}/comity-lab", "kernel", *kernel, "--workers", "2", "--rounds", "1000000", "-q"]
                others = [subprocess.Popen(neighbour, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, start_new_session=session)
                          for _ in range(options.neighbours)]
                time.sleep(0.3)
                used = lambda: sum(sum(map(int, open(f"/proc/{other.pid}/stat").read().rsplit(")", 1)[1].split()[11:13])) for other in others)
                before, begin = used(), time.time()
                times.append(float(run(command, env, session)[2]) * share / own[-1])
                cores.append((used() - before) / os.sysconf("SC_CLK_TCK") / (time.time() - begin) / options.neighbours)
                for other in others:
                    other.kill()
                    other.wait()
            print(f"| {wait} | {tasks} | {spread(times)} | {spread(own)} | {spread(cores)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["pairs", "waits"])
    parser.add_argument("folder")
    parser.add_argument("contestants", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--grouping", choices=["separate", "one"], default="separate")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--pairs", default=PAIRS)
    parser.add_argument("--neighbours", type=int, default=1)
    parser.add_argument("--kernel", choices=["ep", "fib"], default="ep")
    parser.add_argument("--tasks", default="2,8,64")
    parser.add_argument("--kinds", default=WAITS, help="how the tasks wait")
    options = parser.parse_intermixed_args()
    {"pairs": pairs, "waits": waits}[options.mode](options)


main()
