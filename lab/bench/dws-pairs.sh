#!/usr/bin/env bash
# Makes docs/results/dws-pairs.md: the 28 pairs of the DWS paper's eight programs, each with as many workers as the
# machine has cores.
# usage: lab/bench/dws-pairs.sh     Keep the machine quiet meanwhile: half an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release -p comity-lab
lab=${CARGO_TARGET_DIR:-target}/release/comity-lab
out=lab/bench/new
mkdir -p "$out"
"$lab" corun fft pnn cholesky lu ge heat sor mergesort:class=medium --pairs \
    --policy abp,equipartition,dws-nc,dws,a-steal,comity --backend rayon --baseline abp --rounds 8 \
    --json "$out/dws-pairs.json" >"$out/dws-pairs.txt"
python3 lab/bench/tables/dws-pairs.py "$out/dws-pairs.json" >"$out/dws-pairs.md"
