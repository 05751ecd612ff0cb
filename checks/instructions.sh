#!/usr/bin/env bash
# What the busy path costs, in instructions (callgrind), on one worker.
#
# 1. A join of `fib`, its leaves included, in rayon's shape and with the worker passed along: no more than the
#    ceilings, which one more instruction breaks. They are those of rustc 1.95 on x86-64; another compiler may need
#    others.
# 2. The same under all policies, within 0.1 %, but for bws-busy-wakes: what that costs more is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null; then
    echo "valgrind is missing; installing it" >&2
    apt-get install -y -qq valgrind >/dev/null || {
        echo "instructions: cannot install valgrind; install it and run this again" >&2
        exit 1
    }
fi
cargo build --release -q -p comity-cli -p comity-lab
cargo build --release -q -p comity --example fib
target=${CARGO_TARGET_DIR:-target}
failed=0

count() {
    COMITY_NUM_THREADS=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 >/dev/null |
        sed -n 's/.*Collected : //p'
}

# A coordinator comes by the clock, and valgrind's clock is slow: without a table there is none. What starting up
# costs more where cores are shared, some 130,000 instructions once, is less than 0.1 % of fib(32).
export COMITY_TABLE=off

# Instructions per join: fib(27) makes 317 810 joins and fib(22) makes 28 656.
per_join() {
    local more less
    more=$(count "$target/release/examples/fib" "$1" 27)
    less=$(count "$target/release/examples/fib" "$1" 22)
    awk -v m="$more" -v l="$less" 'BEGIN { printf "%.2f", (m - l) / (317810 - 28656) }'
}

printf '%-16s %14s %10s\n' fib per-join ceiling
while read -r shape ceiling; do
    instructions=$(per_join "$shape")
    printf '%-16s %14s %10s\n' "$shape" "$instructions" "$ceiling"
    if awk -v i="$instructions" -v c="$ceiling" 'BEGIN { exit !(i > c) }'; then
        echo "instructions: a join costs $instructions instructions, more than $ceiling ($shape)" >&2
        failed=1
    fi
done <<<'join 52.4
worker 48.0'

reference=$(count "$target/release/comity-lab" kernel fib:n=32 --policy comity --workers 1)
printf '\n%-16s %14s %10s\n' policy instructions extra
for policy in $("$target/release/comity" policies --json | sed -n 's/^ *"name": "\([^"]*\)",$/\1/p'); do
    instructions=$(count "$target/release/comity-lab" kernel fib:n=32 --policy "$policy" --workers 1)
    extra=$(awk -v a="$instructions" -v b="$reference" 'BEGIN { printf "%.4f", (a / b - 1) * 100 }')
    printf '%-16s %14d %9s %%\n' "$policy" "$instructions" "$extra"
    if [ "$policy" != bws-busy-wakes ] && awk -v e="$extra" 'BEGIN { exit !(e > 0.1 || e < -0.1) }'; then
        echo "instructions: $policy is more than 0.1 % away from comity on the busy path" >&2
        failed=1
    fi
done
exit $failed
