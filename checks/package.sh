#!/usr/bin/env bash
# What would be published: each crate but those of `publish = false` is packed. All are built from their packages,
# each with the others', as a user gets them. Cargo says of each how many files and how large.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
# Cargo unpacks a crate once per registry, name and version, and does not notice that its package has changed since.
# Here the version stays the same, so the packages are unpacked into a folder of this run. Everything else in cargo's
# home is used as it is.
cargo=${CARGO_HOME:-$HOME/.cargo}
mkdir -p "$cargo/registry" "$work/home/registry"
find "$cargo" -mindepth 1 -maxdepth 1 ! -name registry -exec ln -s -t "$work/home" {} +
find "$cargo/registry" -mindepth 1 -maxdepth 1 ! -name src -exec ln -s -t "$work/home/registry" {} +
export CARGO_HOME=$work/home
if ! CARGO_TERM_COLOR=never cargo publish --workspace --dry-run --allow-dirty --locked \
    --target-dir "${CARGO_TARGET_DIR:-$PWD/target}/package" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
if grep -q '^warning: [^a]' "$log"; then
    grep -A3 '^warning: [^a]' "$log" >&2
    echo "package: cargo has warned, above" >&2
    exit 1
fi
awk '$1 == "Packaging" { name = $2 } $1 == "Packaged" { print "package: " name ": " $2 " " $3 " " $4 " " $5 " " $6 " " $7 }' "$log"
echo "package: $(grep -c '^ *Verifying ' "$log") build from their packages"
