#!/usr/bin/env bash
# The programs of oversubscribed.sh in C++ over oneTBB, beside each other: what sharing.md quotes of oneTBB.
# Needs g++ and libtbb-dev (docs/results/peers.sh installs them). Keep the machine quiet; it takes ten minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release -p comity-cli
comity=${CARGO_TARGET_DIR:-target}/release/comity
out=docs/results/new
mkdir -p "$out"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
g++ -std=c++17 -O3 -o "$build/tbb" docs/results/peers/tbb_corun.cpp -ltbb -pthread
for workers in 2 8 16; do
    # The policy's name says nothing here: commands are what they are.
    "$comity" corun "$build/tbb ep" "$build/tbb mergesort" "$build/tbb cg" "$build/tbb fib" --pairs=all --policy plain \
        --rounds 6 --workers "$workers" --json "$out/oversubscribed-tbb-$workers.json" >"$out/oversubscribed-tbb-$workers.txt"
done
