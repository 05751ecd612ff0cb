#!/usr/bin/env python3
"""Makes the tables of docs/results/jobs.md: builds and numpy programs at once, plain and under `comity run`.

usage: lab/bench/jobs.py NAME=COMITY… [--rounds N] [--grouping one|separate] [--only JOB+JOB,…]
COMITY is a release binary. Needs make, gcc, cargo, and a Python with numpy. Keep the machine quiet meanwhile. In each
round all contestants run all cases: plain, and under each COMITY. With --grouping separate, each job has a session of
its own. Per case: the time of each job and of all, the time of all over that of plain in the same round, processor
time of the jobs, and their context switches. Medians (lowest–highest), in Markdown.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

CASES = ("make,numpy,cargo,make+make,numpy+numpy,cargo+cargo,make+numpy,cargo+numpy,make+cargo,make2+make2,"
         "make2+make2+make2+make2,make2+make2+make2+make2+make2+make2+make2+make2")
C_FILES, RUST_FILES = 60, 12
NUMPY = "import numpy; a = numpy.random.rand(500, 500)\nfor _ in range(150): a @ a\n"
MAKEFILE = "O=$(patsubst %.c,%.o,$(wildcard *.c))\nall: $(O)\n%.o: %.c\n\tgcc -O2 -c $< -o $@\n"


def spread(values, digits=2):
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def folder_of(job, place):
    """Makes what a job works on."""
    place.mkdir()
    if job.startswith("make"):
        for file in range(C_FILES):
            text = "".join(f"double f{file}_{nth}(double*a,int n){{double s=0;for(int i=0;i<n;i++)s+=a[i]*{nth}+s*a[(i+{file})%n];return s;}}\n"
                           for nth in range(1, 41))
            (place / f"f{file}.c").write_text(text)
        (place / "Makefile").write_text(MAKEFILE)
    elif job == "cargo":
        (place / "src").mkdir()
        (place / "Cargo.toml").write_text('[package]\nname = "job"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n')
        for file in range(RUST_FILES):
            text = "".join(f"pub fn f{nth}(v: &[u64]) -> u64 {{ let mut m = std::collections::BTreeMap::new(); "
                           f"for x in v {{ *m.entry(x % {nth}).or_insert(0u64) += x; }} m.values().sum::<u64>() + {file} }}\n" for nth in range(1, 26))
            (place / "src" / f"m{file}.rs").write_text(text)
        (place / "src/lib.rs").write_text("".join(f"pub mod m{file};\n" for file in range(RUST_FILES)))
    else:
        (place / "job.py").write_text(NUMPY)
    return place


def clean(place):
    for file in place.glob("*.o"):
        file.unlink()
    shutil.rmtree(place / "target", ignore_errors=True)


def command_of(job):
    if job.startswith("make"):
        return ["make", "-s", "-j" + (job[4:] or "4")]
    return ["cargo", "build", "-q", "--release", "--offline"] if job == "cargo" else [sys.executable, "job.py"]


def play(jobs, places, comity, separate):
    """Runs the jobs at once. Returns for each its time, processor time and context switches."""
    env = dict(os.environ, COMITY_TABLE=os.path.join(tempfile.mkdtemp(), "table"))
    env.pop("CARGO_TARGET_DIR", None)
    prefix = [comity, "run"] if comity else []

    def one(job, place):
        begin = time.perf_counter()
        child = subprocess.Popen(prefix + command_of(job), cwd=place, env=env, start_new_session=separate)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
        if status:
            raise SystemExit(f"{job} ended with status {status}")
        return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_nvcsw + usage.ru_nivcsw

    with ThreadPoolExecutor(len(jobs)) as all_at_once:
        return list(all_at_once.map(one, jobs, places))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contestants", nargs="+", metavar="NAME=COMITY")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--grouping", choices=["one", "separate"], default="one")
    parser.add_argument("--only", default=CASES, metavar="CASES")
    options = parser.parse_args()
    contestants = [("plain", None)] + [(name, os.path.abspath(path)) for name, path in (text.split("=", 1) for text in options.contestants)]
    cases = [tuple(case.split("+")) for case in options.only.split(",")]
    root = pathlib.Path(tempfile.mkdtemp())
    places = {(job, nth): folder_of(job, root / f"{job}-{nth}") for job, nth in {(job, nth) for case in cases for nth, job in enumerate(case)}}
    found = {}
    for _ in range(options.rounds):
        for case in cases:
            for name, comity in contestants:
                own = [places[job, nth] for nth, job in enumerate(case)]
                for place in own:
                    clean(place)
                found.setdefault((case, name), []).append(play(case, own, comity, options.grouping == "separate"))
    print("| jobs | contestant | each, s | all, s | over plain | processor time, s | switches |\n|---|---|---|---|---|---|---|")
    for case in cases:
        for name, _ in contestants:
            rounds = found[case, name]
            each = [f"{median(one[nth][0] for one in rounds):.2f}" for nth in range(len(case))]
            ends = [max(job[0] for job in one) for one in rounds]
            over = [end / max(job[0] for job in plain) for end, plain in zip(ends, found[case, "plain"])]
            used, switches = ([sum(job[nth] for job in one) for one in rounds] for nth in (1, 2))
            print(f"| {' + '.join(case)} | {name} | {', '.join(each)} | {spread(ends)} | {spread(over, 3)} | {spread(used)} | {median(switches):.0f} |")
    shutil.rmtree(root)


main()
