#!/usr/bin/env bash
# Makes docs/results/wake.md, fork-join.md, loop.md, idle.md, solo.md, coruns.md and drop-in.md: the runtime alone and
# in pairs.
# usage: lab/bench/make.sh     Keep the machine quiet meanwhile: about 50 minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release -p comity-lab --features comity-lab/peers
lab=${CARGO_TARGET_DIR:-target}/release/comity-lab
out=lab/bench/new
mkdir -p "$out"

"$lab" bench wake --policy comity,bws,abp --samples 1000 >"$out/wake.txt"
"$lab" bench wake --samples 300 --idle-ms 50 >>"$out/wake.txt"
for workers in 1 2 8; do
    "$lab" bench solo uts uts:tree=T3 --policy comity,bws,abp --workers "$workers" --rounds 9
done >"$out/uts.txt"

for bench in fork-join loop idle; do
    "$lab" bench "$bench" >"$out/$bench.txt"
done
./bench/peers.sh >"$out/peers.txt"

# A process per kernel: the allocator's state that one kernel leaves behind would be the next one's luck.
kernels='fib bfs clip mi mm raytrace cg cg:class=W ep uts uts:tree=T3 nqueens nqueens:n=14 mergesort
    fft pnn cholesky lu ge heat sor'
for kernel in $kernels; do
    "$lab" bench solo "$kernel" --policy comity,bws,abp --workers 2 --rounds 21
done >"$out/solo.txt"

for workers in 2 8; do
    for group in same separate; do
        "$lab" corun cg:class=W clip:pairs=8000 mi:n=600 mm:n=900 ep bfs:nodes=500000 --pairs \
            --policy abp,bws,comity --backend rayon --workers "$workers" --group "$group" --rounds 3 \
            --json "$out/coruns-$workers-$group.json" >"$out/coruns-$workers-$group.txt"
    done
done

./bench/drop-in.sh --policy comity,bws,abp >/dev/null
