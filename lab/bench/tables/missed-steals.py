"""Tables of what was counted, in Markdown: medians, and least to most, over the repetitions. lab/bench/missed-steals.sh
calls it.
"""

import sys
from collections import defaultdict
from statistics import median

VARIANTS = ["before", "counted", "after"]
COUNTS = ["attempts", "steals", "told", "said", "said_beside", "rested", "rested_beside"]
SHOWN = [("told", "told failed"), ("said", "says sleep"), ("said_beside", "beside tasks"), ("rested", "rests"),
         ("rested_beside", "beside tasks")]

runs = defaultdict(list)
for path in sys.argv[1:]:
    for line in open(path):
        variant, policy, kernel, workers, *counts = line.split()
        if len(counts) == len(COUNTS):
            runs[policy, kernel, int(workers), variant].append(dict(zip(COUNTS, map(int, counts))))


def spread(values):
    least, most = min(values), max(values)
    return f"{median(values):g} ({least} to {most})" if least < most else f"{least}"


policies = list(dict.fromkeys(policy for policy, *_ in runs))
cells = list(dict.fromkeys((kernel, workers) for _, kernel, workers, _ in runs))
def total(policy, workers, variant, count):
    return sum(run[count] for (p, _, w, v), those in runs.items() if (p, w, v) == (policy, workers, variant) for run in those)


print("All programs together:\n")
print("| policy | workers | variant | runs | steals | " + " | ".join(name for _, name in SHOWN) + " | in so many runs |")
print("|---" * (len(SHOWN) + 6) + "|")
for policy in policies:
    for workers in sorted({workers for _, workers in cells}):
        for variant in VARIANTS:
            those = [run for (p, _, w, v), all in runs.items() if (p, w, v) == (policy, workers, variant) for run in all]
            row = [f"`{policy}`", workers, variant, len(those), total(policy, workers, variant, "steals")]
            row += [total(policy, workers, variant, count) for count, _ in SHOWN]
            print("| " + " | ".join(map(str, [*row, sum(run["rested_beside"] > 0 for run in those)])) + " |")
for policy in policies:
    print(f"\n`{policy}`, median (least to most) of a run; rests, and in them those beside tasks:\n")
    print("| program | workers | " + " | ".join(f"{v}: rests | beside tasks" for v in VARIANTS) + " |")
    print("|---" * (2 + 2 * len(VARIANTS)) + "|")
    for kernel, workers in cells:
        row = [f"`{kernel}`", str(workers)]
        for variant in VARIANTS:
            those = runs[policy, kernel, workers, variant]
            row += [spread([run[count] for run in those]) if those else "–" for count in ("rested", "rested_beside")]
        print("| " + " | ".join(row) + " |")
