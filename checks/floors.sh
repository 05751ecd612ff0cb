#!/usr/bin/env bash
# The drop-in's lock file has the lowest versions that its manifests allow, and a program with these builds and runs: `comity rayon
# enable` moves what a project has locked no further than that. After a change of a requirement, `checks/floors.sh write`.
set -euo pipefail
cd "$(dirname "$0")/../crates/rayon-core"
lock=$(mktemp)
cp Cargo.lock "$lock"
trap 'cp "$lock" Cargo.lock; rm "$lock"' EXIT
rm Cargo.lock
# The option is not stable yet; the versions that it finds are as any others.
RUSTC_BOOTSTRAP=1 cargo generate-lockfile --quiet -Z minimal-versions
if [ "${1:-}" = write ]; then
    cp Cargo.lock "$lock"
elif ! diff "$lock" Cargo.lock; then
    echo "floors: crates/rayon-core/Cargo.lock is not as 'checks/floors.sh write' would write it, above" >&2
    exit 1
fi

program=$(mktemp -d)
trap 'cp "$lock" Cargo.lock; rm -r "$lock" "$program"' EXIT
mkdir "$program/src"
cat >"$program/Cargo.toml" <<TOML
[package]
name = "floors"
version = "0.1.0"
edition = "2021"
[dependencies]
rayon-core = { path = "$PWD" }
[workspace]
TOML
cat >"$program/src/main.rs" <<'RUST'
fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = rayon_core::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn main() {
    let pool = rayon_core::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let table = std::env::var("COMITY_TABLE").unwrap();
    // It takes part in the table in the end, however busy the machine is.
    while !std::fs::metadata(&table).is_ok_and(|table| table.len() > 0) {
        assert_eq!(pool.install(|| fib(22)), 17_711);
    }
}
RUST
(cd "$program" && RUSTC_BOOTSTRAP=1 cargo generate-lockfile --quiet -Z minimal-versions)
COMITY_TABLE=$program/table timeout 300 cargo run --quiet --locked --manifest-path "$program/Cargo.toml" \
    --target-dir "${CARGO_TARGET_DIR:-../../target}/floors"
echo "floors: builds and runs"
