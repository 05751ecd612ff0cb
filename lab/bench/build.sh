#!/usr/bin/env bash
# Makes the table of docs/results/build.md: what the drop-in costs those who build with it. A small rayon program is built from scratch with the stock
# rayon-core, with Comity's of another revision if one is named, and with Comity's, in turns: time, packages, size of the stripped binary,
# memory and threads.
#
# Usage: lab/bench/build.sh [ROUNDS [REVISION]]       5 rounds by default
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1-5} revision=${2-}
work=$(mktemp -d)
trap 'rm -rf "$work"; git worktree prune' EXIT

program() { # name, path of a rayon-core or nothing
    mkdir -p "$work/$1/src"
    cat >"$work/$1/Cargo.toml" <<TOML
[package]
name = "program"
version = "0.1.0"
edition = "2021"
[dependencies]
rayon = "1.12"
[profile.release]
strip = true
[workspace]
TOML
    [ -z "${2-}" ] || printf '[patch.crates-io]\nrayon-core = { path = "%s" }\n' "$2" >>"$work/$1/Cargo.toml"
    cat >"$work/$1/src/main.rs" <<'RUST'
use rayon::prelude::*;

/// Sums in parallel, then says what the process has: resident kB without files, and threads.
fn main() {
    let sum: u64 = (0..1_000_000_u64).into_par_iter().map(|n| n * n % 7).sum();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    println!("{sum} {} {}", of("RssAnon:"), of("Threads:"));
}
RUST
    (cd "$work/$1" && cargo fetch --quiet)
}

names=(stock)
program stock
if [ -n "$revision" ]; then
    git worktree add --quiet --detach "$work/revision" "$revision"
    names+=(before)
    program before "$work/revision/crates/rayon-core"
fi
names+=(comity)
program comity "$PWD/crates/rayon-core"

for _ in $(seq "$rounds"); do
    for name in "${names[@]}"; do
        rm -rf "$work/$name/target"
        (cd "$work/$name" && CARGO_TARGET_DIR=target /usr/bin/time -f '%e %U %S' -a -o ../"$name".times \
            cargo build --release --quiet --offline)
    done
done

median() { sort -n | awk '{ v[NR] = $1 } END { printf "%.1f (%.1f–%.1f)", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR] }'; }
echo "| rayon-core | s | s of processor time | packages | stripped kB | kB with 2, 64 workers | threads |"
echo "|---|---|---|---|---|---|---|"
for name in "${names[@]}"; do
    packages=$(cd "$work/$name" && cargo tree --offline --prefix none -e normal,build | sed 's/ (\*)$//' | sort -u | wc -l)
    binary=$work/$name/target/release/program
    memory=
    for workers in 2 64; do
        memory+=$(for _ in 1 2 3 4 5; do RAYON_NUM_THREADS=$workers "$binary" | awk '{ print $2 }'; done | sort -n | sed -n 3p)", "
    done
    echo "| $name | $(awk '{ print $1 }' "$work/$name.times" | median) | $(awk '{ print $2 + $3 }' "$work/$name.times" | median) |" \
        "$packages | $(($(stat -c %s "$binary") / 1000)) | ${memory%, } |" \
        "$(RAYON_NUM_THREADS=2 "$binary" | awk '{ print $NF }') |"
done
