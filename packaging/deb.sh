#!/usr/bin/env bash
# The package for Debian and what descends from it, with the tree under /usr. Which of its files go where stands under
# [package.metadata.deb] in crates/cli/Cargo.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
packaging/tree.sh
tools=$PWD/target/packages/tools
version=3.8.0
if ! "$tools/bin/cargo-deb" --version 2>/dev/null | grep -qF "$version"; then
    echo "deb: compiling cargo-deb, which takes minutes" >&2
    cargo install -q cargo-deb --locked --version "$version" --root "$tools" --target-dir "$tools/build"
fi
rm -f target/packages/comity_*.deb
# The tree's commands are built and stripped already.
"$tools/bin/cargo-deb" -q -p comity-cli --no-build --no-strip --locked --output target/packages
