#!/usr/bin/env bash
# Makes a part of docs/results/sharing.md: the programs of oversubscribed.sh in C++ over oneTBB, beside each other.
#
# usage: lab/bench/oversubscribed-tbb.sh [WORKERS]     Workers of each program; without: 2, 8 and 16, one after the other.
# Needs g++ and libtbb-dev, which lab/bench/peers.sh installs. Keep the machine quiet meanwhile: some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release -p comity-lab
lab=${CARGO_TARGET_DIR:-target}/release/comity-lab
out=lab/bench/new
mkdir -p "$out"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
g++ -std=c++17 -O3 -o "$build/tbb" lab/bench/peers/tbb_corun.cpp -ltbb -pthread
for workers in ${1:-2 8 16}; do
    # The policy's name says nothing here: commands are what they are.
    "$lab" corun "$build/tbb ep" "$build/tbb mergesort" "$build/tbb cg" "$build/tbb fib" --pairs=all --policy plain \
        --rounds 6 --workers "$workers" --json "$out/oversubscribed-tbb-$workers.json" >"$out/oversubscribed-tbb-$workers.txt"
done
