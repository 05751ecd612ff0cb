#!/usr/bin/env bash
# The sources with all crates that they need, for a machine without a network. There,
# `cargo build --release --offline -p comity-lab` in the unpacked folder builds the laboratory. The same commit gives the
# same order, owners and times.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(cargo pkgid --locked -p comity-cli)
name=comity-${version##*[#@]}-vendored
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p target/packages
git archive --prefix="$name/" HEAD | tar -x -C "$work"
cd "$work/$name"
mkdir -p .cargo
cargo vendor --locked --versioned-dirs -s crates/rayon-core/Cargo.toml vendor >.cargo/config.toml
# A machine that has never fetched a crate finds all of them.
for manifest in Cargo.toml crates/rayon-core/Cargo.toml; do
    CARGO_HOME=$work/home cargo metadata --offline --locked --format-version 1 --manifest-path "$manifest" >/dev/null
done
cd - >/dev/null
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
    -C "$work" -cJf "target/packages/$name.tar.xz" "$name"
echo "target/packages/$name.tar.xz"
