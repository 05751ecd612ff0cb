#!/usr/bin/env bash
# Makes the first tables of docs/results/sharing.md: programs with more workers than cores beside each other, under
# `comity` and stock rayon.
# usage: lab/bench/oversubscribed.sh     Keep the machine quiet meanwhile: half an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release -p comity-lab
lab=${CARGO_TARGET_DIR:-target}/release/comity-lab
out=lab/bench/new
mkdir -p "$out"
programs='ep:class=S mergesort:class=paper cg:class=W fib:n=38'
measure() { # name, arguments
    "$lab" corun "${@:2}" --policy comity --backend rayon --json "$out/$1.json" >"$out/$1.txt"
}
for workers in 8 2 16; do
    for group in same separate; do
        # shellcheck disable=SC2086
        measure "oversubscribed-$workers-$group" $programs --pairs=all --rounds 6 --workers "$workers" --group "$group"
    done
done
# shellcheck disable=SC2086
measure oversubscribed-four $programs --rounds 6 --workers 8
for left_out in $programs; do
    # shellcheck disable=SC2086
    measure "oversubscribed-without-${left_out%%:*}" ${programs/$left_out/} --rounds 6 --workers 8
done
