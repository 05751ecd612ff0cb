#!/usr/bin/env bash
# Everything, before an issue is closed. First checks/test.sh, rayon's tests under other policies and numbers of
# threads, and the programs over both rayon-cores. Then what builds without std and elsewhere than on Linux, the lowest
# versions of what the drop-in is made of, and two versions in one table. Then loom, ThreadSanitizer, all mutations,
# instruction counts, pages in a browser, the guide, the public interface, what is published and installed, and sweeps
# by HyperQueue and Slurm. Last the papers' claims with the chosen values. checks/papers.sh has them in full, where what
# decides has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
checks/test.sh
# Without the peers that a feature adds.
RUSTFLAGS='-D warnings' cargo check -p comity-lab --all-targets
COMITY_STRESS_SECS=4 cargo test -p comity-kernels --test stress
checks/rayon.sh interface
checks/rayon.sh others
cargo test --locked --manifest-path crates/rayon-core/programs/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-$PWD/target}/stock"
checks/no-std.sh
checks/portable.sh
checks/floors.sh
checks/mixed-versions.sh
checks/loom.sh
checks/tsan.sh
checks/mutations.sh
checks/instructions.sh
checks/report.sh
checks/guide.sh
checks/interface.sh
checks/package.sh
checks/install.sh
checks/sweep.sh
checks/papers.sh --subset
