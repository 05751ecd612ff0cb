#!/usr/bin/env bash
# The drop-in's lock file has the lowest versions that its manifests allow, and a program with these builds and
# runs. `comity rayon enable` moves what a project has locked no further than that. The same of the one that
# records. After a change of a requirement, `checks/floors.sh write`.
set -euo pipefail
cd "$(dirname "$0")/../crates/rayon-core"
kept=$(mktemp -d)
program=$(mktemp -d)
cp --parents Cargo.lock recording/Cargo.lock "$kept"
trap 'cp -r "$kept"/. .; rm -r "$kept" "$program"' EXIT
for folder in . recording; do
    rm "$folder/Cargo.lock"
    # The option is not stable yet; the versions that it finds are as any others.
    RUSTC_BOOTSTRAP=1 cargo generate-lockfile --quiet -Z minimal-versions --manifest-path "$folder/Cargo.toml"
    if [ "${1:-}" = write ]; then
        cp "$folder/Cargo.lock" "$kept/$folder/Cargo.lock"
    elif ! diff "$kept/$folder/Cargo.lock" "$folder/Cargo.lock"; then
        echo "floors: crates/rayon-core/$folder/Cargo.lock is not as 'checks/floors.sh write' would write it, above" >&2
        exit 1
    fi
done

mkdir "$program/src"
manifest() {
    cat >"$program/Cargo.toml" <<TOML
[package]
name = "floors"
version = "0.1.0"
edition = "2021"
[dependencies]
rayon-core = { path = "$1" }
[workspace]
TOML
    (cd "$program" && RUSTC_BOOTSTRAP=1 cargo generate-lockfile --quiet -Z minimal-versions)
}
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
    let Ok(table) = std::env::var("COMITY_TABLE") else {
        assert_eq!(pool.install(|| fib(22)), 17_711);
        return;
    };
    // It takes part in the table in the end, however busy the machine is.
    while !std::fs::metadata(&table).is_ok_and(|table| table.len() > 0) {
        assert_eq!(pool.install(|| fib(22)), 17_711);
    }
}
RUST
build_and_run() {
    timeout 300 cargo run --quiet --locked --manifest-path "$program/Cargo.toml" \
        --target-dir "${CARGO_TARGET_DIR:-../../target}/floors"
}
manifest "$PWD"
COMITY_TABLE=$program/table build_and_run
manifest "$PWD/recording"
# One that is exported would have the program wait for a table, which it never makes while it is recorded.
(unset COMITY_TABLE && COMITY_RECORD=$program/graph build_and_run)
grep -q '"format":"comity-graph"' "$program/graph"
echo "floors: both build and run"
