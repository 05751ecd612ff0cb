#!/usr/bin/env bash
# What a newcomer runs: the tests of every crate, and rayon's and rayon-core's own under the default policy, with
# Comity's rayon-core in place of the stock one. About sixteen minutes on two quiet cores from a clean clone.
# checks/all.sh runs the rest too.
#
# Unlike `cargo test`, several test programs run at a time, for many of them wait more than they compute. All run,
# whatever fails.
set -euo pipefail
cd "$(dirname "$0")/.."
logs=${CARGO_TARGET_DIR:-$PWD/target}/test-logs
rm -rf "$logs"
mkdir -p "$logs"
# A single run of all tests gains nothing from incremental compilation. Work on one crate runs that crate's tests,
# not these.
export CARGO_INCREMENTAL=0

cargo test --workspace --features comity-lab/peers,comity-flow/tokio --no-run
# A package's folder and one of its test programs, per line.
programs=$(cargo test --workspace --features comity-lab/peers,comity-flow/tokio --no-run --message-format json 2>/dev/null |
    sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1 \2|p')
# All of them: a list that cargo words otherwise one day would leave tests out, and say nothing.
if [ "$(wc -l <<<"$programs")" != "$(cargo test --workspace --features comity-lab/peers,comity-flow/tokio --no-run 2>&1 | grep -c '^ *Executable ')" ]; then
    echo "test: the list of test programs is not what cargo has built; see checks/test.sh" >&2
    exit 1
fi
# It asks whether cores idle, which beside the others they would not.
alone=cores_used

# report NAME COMMAND…: its output goes into a file, and here too if it fails.
report() {
    local name=$1 log=$logs/$1.log
    SECONDS=0
    if "${@:2}" >"$log" 2>&1; then
        echo "ok      $name: $(awk '/^test result:/ { n += $4 } /^(rayon|core) / { n += $2 } END { print n + 0 }' "$log") tests, $SECONDS s"
    else
        { cat "$log"; echo "FAILED  $name, above and in $log"; } >&2
        return 1
    fi
}
# As cargo runs it: in its package's folder.
program() {
    cd "$1"
    report "$(basename "$1")-$(basename "${2%-*}")" "$2"
}
export logs
export -f report program

failed=0
report rayon checks/rayon.sh &
rayon=$!
report examples-in-the-documentation cargo test --workspace --features comity-lab/peers,comity-flow/tokio --doc &
examples=$!
grep -v "/$alone-" <<<"$programs" | xargs -P 3 -n 2 bash -c 'program "$@"' _ || failed=1
wait $rayon || failed=1
wait $examples || failed=1
grep "/$alone-" <<<"$programs" | xargs -n 2 bash -c 'program "$@"' _ || failed=1
[ $failed = 0 ] && echo "test: all passed" || echo "test: something failed, above" >&2
exit $failed
