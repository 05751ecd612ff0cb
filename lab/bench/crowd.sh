#!/usr/bin/env bash
# Makes a part of docs/results/sharing.md: 64 programs of four workers each at once, and whether any starves.
# usage: lab/bench/crowd.sh     Some minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release -p comity-lab
lab=${CARGO_TARGET_DIR:-target}/release/comity-lab
out=lab/bench/new
mkdir -p "$out"
mapfile -t programs < <(for _ in {1..64}; do echo fib:n=36; done)
"$lab" corun "${programs[@]}" --policy comity,dws,a-steal --backend rayon --workers 4 --rounds 3 \
    --json "$out/crowd.json" >"$out/crowd.txt"
python3 - "$out/crowd.json" <<'E2'
import json, sys
from statistics import median
for corun in json.load(open(sys.argv[1]))["coruns"]:
    rounds = [time for program in corun["programs"] for time in program["times"]["corun_s"]]
    means = [program["corun_s"] for program in corun["programs"]]
    right = all(program["verified"] for program in corun["programs"])
    who = corun["policy"] if corun["backend"] == "comity" else corun["backend"]
    print(f"{who}: {len(means)} programs, all right: {right}; slowest / median {max(means) / median(means):.2f} of programs, "
          f"{max(rounds) / median(rounds):.2f} of rounds; median {median(means):.2f} s; efficiency {corun['efficiency']:.3f}")
E2
