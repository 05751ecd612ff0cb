#!/usr/bin/env bash
# What runs elsewhere than on Linux: `os` on the standard library alone, chosen here by --cfg comity_portable. The
# runtime's and the flow's tests, rayon's own over the drop-in; and whether runtime, flow and drop-in compile for
# Windows and macOS, where their standard libraries can be had.
#
# What is about a service that Linux alone offers is ignored under the flag, by name.
#
# Usage: checks/portable.sh [systems]       the other systems alone
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_INCREMENTAL=0
if [ "${1-}" != systems ]; then
    log=$target/portable.log
    # One after the other: beside the others, `os` has the parts of commands, which are Linux's.
    for package in comity-os comity comity-flow; do
        RUSTFLAGS='--cfg comity_portable' cargo test -p "$package" --lib --tests --no-fail-fast --target-dir "$target/portable" 2>&1 ||
            echo "error: the tests of $package"
    done | tee "$log" | { grep -E '^(test .*(FAILED|ignored|panicked)|error)' || true; }
    awk '/^test result:/ { p += $4; f += $6; i += $8 } END { print "portable: " p + 0 " passed, " f + 0 " failed, " i + 0 " ignored" }' "$log"
    if grep -q "^error" "$log"; then
        echo "portable: something failed; see $log" >&2
        exit 1
    fi
    checks/rayon.sh portable
fi
for system in x86_64-pc-windows-gnu x86_64-apple-darwin; do
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$system" ] && ! rustup target add "$system" >/dev/null 2>&1; then
        echo "portable: NOT checked: $system, whose standard library cannot be had here" >&2
        continue
    fi
    RUSTFLAGS='-D warnings' cargo check -q -p comity -p comity-flow --target "$system" --target-dir "$target/portable"
    RUSTFLAGS='-D warnings' cargo check -q --locked --manifest-path crates/rayon-core/Cargo.toml --target "$system" --target-dir "$target/portable"
    echo "portable: $system compiles"
done
