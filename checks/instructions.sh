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
cargo build --release -q -p comity --example fib
target=${CARGO_TARGET_DIR:-target}
failed=0

# Instructions of the example, for its arguments.
count() {
    COMITY_NUM_THREADS=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$target/release/examples/fib" "$@" 2>&1 >/dev/null |
        sed -n 's/.*Collected : //p'
}

# A coordinator comes by the clock, and valgrind's clock is slow: without a table there is none.
export COMITY_TABLE=off

# Instructions per join of a shape: fib(29) makes 832 039 joins and fib(22) makes 28 656. What starting up costs is in
# both, but for some ten thousand instructions.
per_join() {
    awk -v m="$(count "$1" 29)" -v l="$(count "$1" 22)" 'BEGIN { printf "%.3f", (m - l) / (832039 - 28656) }'
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

reference=$(per_join join)
printf '\n%-16s %14s %10s\n' policy per-join extra
policies=$("$target/release/examples/fib" policies)
for policy in $policies; do
    instructions=$(COMITY_POLICY=$policy per_join join)
    extra=$(awk -v a="$instructions" -v b="$reference" 'BEGIN { printf "%.2f", (a / b - 1) * 100 }')
    printf '%-16s %14s %9s %%\n' "$policy" "$instructions" "$extra"
    if [ "$policy" != bws-busy-wakes ] && awk -v e="$extra" 'BEGIN { exit !(e > 0.1 || e < -0.1) }'; then
        echo "instructions: $policy is more than 0.1 % away from comity on the busy path" >&2
        failed=1
    fi
done
[ "$(wc -w <<<"$policies")" -gt 10 ] || {
    echo "instructions: the example lists too few policies: $policies" >&2
    failed=1
}
exit $failed
