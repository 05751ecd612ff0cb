#!/usr/bin/env bash
# Makes a part of docs/results/sharing.md: programs whose tasks wait, each beside four that compute, under `comity` and
# stock rayon.
#
# usage: lab/bench/waiting-pairs.sh [PROGRAM…]     Programs that wait, instead of all six.
# 12 pairs wait for each other, 12 in system calls. Keep the machine quiet meanwhile: some fifteen minutes on two
# cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release -p comity-lab
lab=${CARGO_TARGET_DIR:-target}/release/comity-lab
out=lab/bench/new/waiting-pairs
mkdir -p "$out"
waiting=(wavefront:wait={condvar,spin,yield},sweeps=40
    io:tasks=800,sleep_us=1000,spins=9000 io:tasks=800,sleep_us=1000,spins=180000 io:tasks=200,sleep_us=5000,spins=1800000)
[ $# -gt 0 ] || set -- "${waiting[@]}"
for waits in "$@"; do
    for computes in ep:class=S mergesort:class=paper cg:class=W fib:n=36; do
        "$lab" corun "$waits" "$computes" --policy comity --backend rayon --rounds 6 --workers 8 \
            --json "$out/${waits//[:,=]/-}-${computes%%:*}.json"
    done
done >"$out.txt"
python3 lab/bench/tables/waiting-pairs.py "$out"/*.json >"$out.md"
