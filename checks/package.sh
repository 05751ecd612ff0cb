#!/usr/bin/env bash
# What would be published: each crate but those of `publish = false` is packed. All are built from their packages,
# each with the others', as a user gets them. Cargo says of each how many files and how large.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
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
