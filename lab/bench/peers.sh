#!/usr/bin/env bash
# Makes a table of docs/results/fork-join.md: what a join costs in oneTBB and in libgomp's tasks, from Debian's
# packages.
#
# fib(38), the sum of a tree of 2^23 - 1 nodes, and a loop of 10^7 iterations with one per leaf. `comity-lab bench
# fork-join` runs the same programs.
#
# usage: lab/bench/peers.sh [--quick]     Keep the machine quiet meanwhile: some minutes.
set -euo pipefail
cd "$(dirname "$0")/peers"

quick=${1:-}
if [ $# -gt 1 ] || { [ -n "$quick" ] && [ "$quick" != --quick ]; }; then
    echo "error: '$*' is not understood; the only option is --quick" >&2
    exit 2
fi

has_all() { command -v g++ >/dev/null && [ -e /usr/include/tbb/parallel_invoke.h ]; }
if ! has_all; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "error: this needs g++ and oneTBB; install the packages g++ and libtbb-dev and run it again" >&2
        exit 1
    fi
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends g++ libtbb-dev >&2
fi

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
g++ -std=c++17 -O3 -o "$build/tbb" tbb.cpp -ltbb -pthread
g++ -std=c++17 -O3 -fopenmp -o "$build/openmp" openmp.cpp

echo "$(g++ --version | head -1); medians"
echo "| peer    | of    | Ts ms    | T1/join  | T2/join  | T1/Ts   | Ts/T1   | Ts/T2   |"
echo "|---------|-------|----------|----------|----------|---------|---------|---------|"
"$build/tbb" $quick
"$build/openmp" $quick
echo "T1/join and T2/join: nanoseconds of wall-clock time per join, with one thread and with two."
