#!/usr/bin/env bash
# All tests.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --workspace
checks/rayon.sh
cargo test --locked --manifest-path crates/rayon-core/programs/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-$PWD/target}/stock"
checks/loom.sh
checks/tsan.sh
checks/mutations.sh
checks/instructions.sh
