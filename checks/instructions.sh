#!/usr/bin/env bash
# The busy path costs the same under every policy: counts the instructions of `fib` on one worker and expects them to be
# equal within 0.1 % under all policies but bws-busy-wakes, whose extra is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null; then
    echo "valgrind is missing; installing it" >&2
    apt-get install -y -qq valgrind >/dev/null || {
        echo "instructions: cannot install valgrind; install it and run this again" >&2
        exit 1
    }
fi
cargo build --release -q -p comity-cli
comity=${CARGO_TARGET_DIR:-target}/release/comity

count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$comity" kernel fib:n=27 --policy "$1" --workers 1 2>&1 >/dev/null |
        sed -n 's/.*Collected : //p'
}

reference=$(count comity)
failed=0
printf '%-16s %14s %10s\n' policy instructions extra
for policy in $("$comity" policies --json | sed -n 's/^ *"name": "\([^"]*\)",$/\1/p'); do
    instructions=$(count "$policy")
    extra=$(awk -v a="$instructions" -v b="$reference" 'BEGIN { printf "%.4f", (a / b - 1) * 100 }')
    printf '%-16s %14d %9s %%\n' "$policy" "$instructions" "$extra"
    if [ "$policy" != bws-busy-wakes ] && awk -v e="$extra" 'BEGIN { exit !(e > 0.1 || e < -0.1) }'; then
        failed=1
    fi
done
[ "$failed" -eq 0 ] || { echo "instructions: a policy is more than 0.1 % away from comity on the busy path" >&2; exit 1; }
