#!/usr/bin/env bash
# The split deque, the sleep protocol, pools that close and open, what a program is asked, the inbox and a task's
# word under loom: every interleaving of their hand-overs.
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$PWD/target/loom cargo test --release -p comity -p comity-flow --lib loom_
