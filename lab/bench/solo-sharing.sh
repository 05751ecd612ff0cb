#!/usr/bin/env bash
# Makes the last table of docs/results/sharing.md: what the policies that share cores cost a program that is alone,
# over plain stealing.
# usage: lab/bench/solo-sharing.sh     Keep the machine quiet meanwhile: six minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release -p comity-lab
lab=${CARGO_TARGET_DIR:-target}/release/comity-lab
out=lab/bench/new
mkdir -p "$out"
rm -f "$out"/solo-sharing-*.json
# A process per kernel: the allocator's state that one kernel leaves behind would be the next one's luck.
kernels='fib:n=38 bfs clip:pairs=8000 mi:n=600 mm:n=900 raytrace cg:class=W ep uts nqueens:n=14 mergesort:class=paper fft pnn cholesky lu ge heat sor'
for kernel in $kernels; do
    "$lab" bench solo "$kernel" --policy plain,abp,comity,dws,a-steal --rounds 15 --json >"$out/solo-sharing-${kernel%%:*}.json"
done
python3 - "$out"/solo-sharing-*.json <<'E2'
import json, sys
from statistics import geometric_mean
kernels = [kernel for path in sys.argv[1:] for kernel in json.load(open(path))["kernels"]]
ratio = lambda kernel, who: next(ratio["of_medians"] for ratio in kernel["ratios"] if ratio["contestant"] == who)
for base in ("plain", "abp"):
    for policy in ("plain", "abp", "comity", "dws", "a-steal"):
        over = [ratio(kernel, policy) / ratio(kernel, base) for kernel in kernels]
        print(f"{policy} over {base}: {geometric_mean(over):.3f} ({min(over):.3f} to {max(over):.3f}), {len(over)} kernels")
E2
