#!/usr/bin/env bash
# `values`, `policy` and `protocol`, with all that they depend on, build into a program without the standard library. It is a
# static library with its own panic handler, of which there can be only one. That takes no target without std, which
# not every toolchain can install.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
target=${CARGO_TARGET_DIR:-$root/target}/no-std
mkdir -p "$target/crate"
cp Cargo.lock "$target/crate"
cat >"$target/crate/Cargo.toml" <<TOML
[package]
name = "no-std"
version = "0.1.0"
edition = "2024"
[lib]
path = "$root/checks/no-std.rs"
crate-type = ["staticlib"]
[dependencies]
comity-policy = { path = "$root/crates/policy" }
comity-protocol = { path = "$root/crates/protocol" }
comity-values = { path = "$root/crates/values" }
[profile.dev]
panic = "abort"
[workspace]
TOML
CARGO_TARGET_DIR=$target cargo build --quiet --manifest-path "$target/crate/Cargo.toml"
echo "no-std: values, policy and protocol build without std"
