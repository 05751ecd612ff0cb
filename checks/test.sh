#!/usr/bin/env bash
# What a newcomer runs: the tests of every crate, and rayon's and rayon-core's own under the default policy, with Comity's
# rayon-core in place of the stock one. checks/all.sh runs the rest too.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --workspace --no-run
# By itself: beside other tests no core would be idle whatever happened.
alone=no_core_idles_while_a_member_has_work
cargo test --package comity-cli --test cores_used
# Of the rest, half waits for processes or for time to pass; so all go on at once, each with a log.
logs=$(realpath -m "${CARGO_TARGET_DIR:-target}")/test-logs
mkdir -p "$logs"
lanes=()
pids=()
lane() { # name, command
    echo "tests: $1, in $logs/$1.log"
    "${@:2}" >"$logs/$1.log" 2>&1 &
    lanes+=("$1")
    pids+=($!)
}
lane runtime cargo test --package comity
lane command cargo test --package comity-cli -- --skip "$alone"
lane others cargo test --workspace --exclude comity --exclude comity-cli
lane rayon checks/rayon.sh
failed=0
for nth in "${!lanes[@]}"; do
    name=${lanes[$nth]}
    if wait "${pids[$nth]}"; then
        echo "tests: $name passed"
    else
        cat "$logs/$name.log"
        echo "tests: $name failed, above" >&2
        failed=1
    fi
done
grep -h 'passed' "$logs/rayon.log" || true
exit $failed
