#!/usr/bin/env bash
# The runtime under ThreadSanitizer: the split deque on real threads, and everything that a pool offers for SECONDS
# (default 10). Fails on any report that tsan-suppressions.txt does not explain.
#
# Usage: checks/tsan.sh [SECONDS]
#
# The standard library comes without instrumentation, so what its channels and condition variables order would be
# reported as races. The tests here wait by atomics and by joining threads, which ThreadSanitizer sees; the others
# it cannot judge.
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-gnu
if [ "$(rustc -vV | sed -n 's/^host: //p')" != "$target" ]; then
    echo "tsan: skipped, for it is made for $target"
    exit 0
fi
# The compiler's sanitizers are not stable yet.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS='--cfg tsan -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer'
export CARGO_TARGET_DIR=$PWD/target/tsan
# Without it the frames that the suppressions name go by shorter names.
export CARGO_PROFILE_TEST_DEBUG=full
export TSAN_OPTIONS="suppressions=$PWD/checks/tsan-suppressions.txt"
export COMITY_HAMMER_SECS=${1:-10}
# By its full name: a filter that matches nothing is no failure to cargo.
only() {
    local test=$1
    shift
    cargo test -p comity --target "$target" "$@" -- --exact "$test" --nocapture --test-threads=1 | tee "$log"
    grep -q '^test result: ok. 1 passed' "$log" || {
        echo "tsan: there is no test $test" >&2
        exit 1
    }
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
only raw::deque::tests::thieves_of_every_kind_and_an_owner_lose_nothing --lib
only every_program_gives_the_right_answer_under_every_policy --test hammer
