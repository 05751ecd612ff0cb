#!/usr/bin/env bash
# Rayon's and rayon-core's own tests, from their published crates, with Comity's rayon-core in place of the stock
# one; and the public interfaces of both rayon-cores side by side.
#
# Usage: checks/rayon.sh [others|interface|tsan|portable]
#
# Without an argument: the tests under the default policy. With `others`: under bws and abp; and with 1 and 16
# threads per pool, beside the stock crate under the same setting. With `interface`: the interfaces alone. With
# `tsan`: under ThreadSanitizer, with the limits that checks/tsan.sh tells. With `portable`: as on systems other
# than Linux.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=${CARGO_TARGET_DIR:-$root/target}/rayon
export CARGO_TARGET_DIR=$work/build
ours="patch.crates-io.rayon-core.path=\"$root/crates/rayon-core\""
# Nearly 700 of the tests are programs of their own, examples in the documentation, and what a debugger needs takes
# longest to link.
export CARGO_PROFILE_DEV_DEBUG=0
failed=0

# The folder where cargo keeps the source of a package that this workspace is locked to.
source_of() {
    cargo metadata --format-version 1 | tr ',' '\n' | sed -n "s|.*\"manifest_path\":\"\(.*/$1\)/Cargo.toml\".*|\1|p" | head -1
}

prepare() {
    local rayon core
    rayon=$(source_of rayon-1.12.0)
    core=$(source_of rayon-core-1.13.0)
    if [ -z "$rayon" ] || [ -z "$core" ]; then
        echo "rayon: Cargo.lock no longer has rayon 1.12.0 and rayon-core 1.13.0; say here which tests to run" >&2
        exit 1
    fi
    rm -rf "$work/suite"
    mkdir -p "$work/suite"
    cp -r "$core" "$work/suite/stock"
    printf '\n[workspace]\n' >>"$work/suite/stock/Cargo.toml"
    cp -r "$rayon" "$work/suite/rayon"
    cp -r crates/rayon-core/upstream "$work/suite/core"
    # One workspace, so that what both depend on is compiled once.
    printf '[workspace]\nresolver = "2"\nmembers = ["rayon", "core"]\n' >"$work/suite/Cargo.toml"
    mv "$work/suite/rayon/Cargo.lock" "$work/suite/"
    cp -r "$core/tests" "$core/src/compile_fail" "$work/suite/"
    mv "$work/suite/tests" "$work/suite/core/tests"
    mv "$work/suite/compile_fail" "$work/suite/core/src/compile_fail"
    cp "$core/src/test.rs" "$work/suite/core/src/test.rs"
    local part
    for part in join scope spawn broadcast thread_pool; do
        mkdir -p "$work/suite/core/src/$part"
        cp "$core/src/$part/test.rs" "$work/suite/core/src/$part/test.rs"
    done
    # Two tests look into the stock crate's registry. What they ask (do all threads of a dropped pool end?) the
    # runtime's own tests ask of the system.
    awk '/^#\[test\]/ { test = ""; inside = 1 }
        inside { test = test $0 "\n" }
        inside && $0 == "}" { if (test !~ /fn (workers_stop|sleeper_stop)\(/) printf "%s", test; inside = 0; next }
        !inside { print }' "$core/src/thread_pool/test.rs" >"$work/suite/core/src/thread_pool/test.rs"
}

# One program for all examples of a crate's documentation, each of which runs in a process of its own, takes a third
# of the processor time of a program for each. The editions before 2024 ask for it with an option that is not stable.
merged='-Z unstable-options --merge-doctests=yes'
# shellcheck disable=SC2086
RUSTC_BOOTSTRAP=1 rustdoc $merged --version >/dev/null 2>&1 || merged=''

# run SUITE LOG [ARGUMENT…]: the suite's tests, and with `examples` as the first argument those in the documentation.
run() {
    local suite=$1 log=$work/$2.log examples=no
    shift 2
    [ "${1-}" != examples ] || { examples=yes; shift; }
    (
        cd "$work/suite/$suite"
        timeout 1800 cargo test --no-fail-fast --lib --tests "$@" || true
        [ $examples = no ] || RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS=$merged timeout 1800 cargo test --no-fail-fast --doc "$@"
    ) >"$log" 2>&1 || true
    if grep -q '^error: could not compile' "$log"; then
        echo "rayon: the tests of $suite do not compile; see $log" >&2
        exit 1
    fi
}

# Passed, failed, ignored.
totals() {
    awk '/^test result:/ { p += $4; f += $6; i += $8 } END { print p + 0, f + 0, i + 0 }' "$work/$1.log"
}

# What came of each test.
outcomes() {
    sed -n 's/^\(test .* \.\.\. \)\(ok\|FAILED\|ignored\).*/\1\2/p' "$work/$1.log" | sed 's/ (line [0-9]*)//' | sort
}

# expect SUITE TOTALS: with Comity's rayon-core, which cargo must have taken.
expect() {
    local suite=$1 found
    run "$suite" "$suite" examples --config "$ours"
    found=$(totals "$suite")
    printf '%-6s %s passed, %s failed, %s ignored\n' "$suite" $found
    if [ "$found" != "$2" ]; then
        echo "rayon: $suite: passed, failed, ignored should be $2; see $work/$suite.log" >&2
        grep -E '^test .*FAILED' "$work/$suite.log" >&2 || true
        failed=1
    fi
    assert_ours "$suite"
}

# Cargo only warns where it cannot use a patch.
assert_ours() {
    if ! (cd "$work/suite/$1" && cargo tree --config "$ours" -i rayon-core --prefix none) | head -1 | grep -qF "$root"; then
        echo "rayon: $1 was not tested with Comity's rayon-core" >&2
        failed=1
    fi
}

# What the drop-in promises beyond the interface.
promises() {
    local log=$work/promises.log
    if ! cargo test -q --locked --manifest-path crates/rayon-core/Cargo.toml --test promises >"$log" 2>&1; then
        echo "rayon: crates/rayon-core breaks a promise; see $log" >&2
        failed=1
    fi
}

both() {
    expect rayon '578 0 1'
    expect core '115 0 2'
}

# The same outcome of every test as with the stock crate, in the environment as it is.
as_stock() {
    local suite
    for suite in rayon core; do
        run "$suite" "$suite-stock" examples
        run "$suite" "$suite" examples --config "$ours"
        printf '%-6s %s passed, %s failed, %s ignored' "$suite" $(totals "$suite")
        printf ' (stock: %s, %s, %s)\n' $(totals "$suite-stock")
        if [ "$(outcomes "$suite-stock" | wc -l)" -lt 100 ]; then
            echo "rayon: the tests of $suite did not run; see $work/$suite-stock.log" >&2
            failed=1
        fi
        assert_ours "$suite"
        if ! diff <(outcomes "$suite-stock") <(outcomes "$suite") >&2; then
            echo "rayon: $suite differs from the stock crate, above; see $work/$suite.log and $work/$suite-stock.log" >&2
            failed=1
        fi
    done
}

# The compiler's description of a crate in a folder, as a file: see `--output-format json` of rustdoc.
describe() {
    (cd "$1" && RUSTC_BOOTSTRAP=1 cargo rustdoc -q --lib --target-dir "$2" -- -Z unstable-options --output-format json --cap-lints allow)
}

interface() {
    describe "$work/suite/stock" "$work/api/stock"
    describe crates/rayon-core "$work/api/ours"
    local result=0
    cargo run -q --locked --manifest-path crates/rayon-core/api/Cargo.toml -- \
        "$work/api/stock/doc/rayon_core.json" "$work/api/ours/doc/rayon_core.json" || result=$?
    case $result in
    0) ;;
    2) echo "rayon: NOT compared: the interfaces, for the tool knows the compiler's format of Rust 1.95 (see above)" >&2 ;;
    *)
        echo "rayon: the interface of crates/rayon-core differs from the stock crate's, above" >&2
        failed=1
        ;;
    esac
}

# All but the documentation's examples, which ThreadSanitizer's flags do not reach.
sanitized() {
    export RUSTC_BOOTSTRAP=1 CARGO_PROFILE_DEV_DEBUG=full
    export RUSTFLAGS='--cfg tsan -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer'
    cat checks/tsan-suppressions.txt checks/tsan-suppressions-rayon.txt >"$work/suppressions.txt"
    export TSAN_OPTIONS="suppressions=$work/suppressions.txt"
    local suite reports
    for suite in rayon core; do
        # What the harness captures of a panic's output it keeps under a lock of the standard library. And a stack that
        # overflows is met by ThreadSanitizer before the test can.
        run "$suite" "$suite-tsan" --target x86_64-unknown-linux-gnu --config "$ours" -- \
            --nocapture --skip stack_overflow_crash
        reports=$(grep -c '^WARNING: ThreadSanitizer' "$work/$suite-tsan.log" || true)
        printf '%-6s %s passed, %s failed, %s ignored' "$suite" $(totals "$suite-tsan")
        echo "; $reports reports"
        if [ "$reports" != 0 ] || grep -qE '^test result: FAILED' "$work/$suite-tsan.log"; then
            echo "rayon: $suite under ThreadSanitizer, above; see $work/$suite-tsan.log" >&2
            failed=1
        fi
    done
}

prepare
case ${1-} in
'')
    both
    promises
    ;;
interface) interface ;;
tsan) sanitized ;;
portable)
    export RUSTFLAGS='--cfg comity_portable' CARGO_TARGET_DIR=$work/portable
    both
    ;;
others)
    for policy in bws abp; do
        echo "COMITY_POLICY=$policy"
        COMITY_POLICY=$policy both
    done
    for threads in 1 16; do
        echo "RAYON_NUM_THREADS=$threads"
        RAYON_NUM_THREADS=$threads as_stock
    done
    ;;
*)
    echo "usage: checks/rayon.sh [others|interface|tsan|portable]" >&2
    exit 2
    ;;
esac
exit $failed
