#!/usr/bin/env bash
# All tests.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --workspace
checks/loom.sh
checks/tsan.sh
checks/mutations.sh
checks/instructions.sh
