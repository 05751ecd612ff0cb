#!/usr/bin/env bash
# The split deque and the sleep protocol under loom: every interleaving of their hand-overs.
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$PWD/target/loom cargo test --release -p comity --lib loom_
