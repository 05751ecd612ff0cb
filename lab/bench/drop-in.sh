#!/usr/bin/env bash
# Makes docs/results/drop-in.md: programs written with rayon, compiled once with the stock rayon-core and once with the
# drop-in of crates/rayon-core, and compared by `comity-lab bench drop-in`.
#
# usage: lab/bench/drop-in.sh [ARGUMENT…]     They go to `comity-lab bench drop-in`: programs, --policy, --rounds, …
# Keep the machine quiet meanwhile: some minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
out=lab/bench/new
manifest=crates/rayon-core/programs/Cargo.toml
lock=crates/rayon-core/programs/Cargo.lock

cargo build --release -p comity-lab --target-dir "$target"

# Functions on cache lines in both: else a loop that is the same in both binaries lies differently in them. That alone
# has made 13 % of a kernel's time.
export RUSTFLAGS='-C llvm-args=-align-all-functions=6'
cargo build --release --locked --manifest-path "$manifest" --target-dir "$target/stock"

# The patch stands in the lock file as long as it is built with; the file that is kept is the stock one's.
kept=$(mktemp)
cp "$lock" "$kept"
trap 'cp "$kept" "$lock"; rm -f "$kept"' EXIT
cargo build --release --manifest-path "$manifest" --target-dir "$target/drop-in" \
    --config "patch.crates-io.rayon-core.path=\"$PWD/crates/rayon-core\""
# Without this, a version that does not fit would leave the stock one in place, and cargo only warns.
if grep -A 2 '^name = "rayon-core"$' "$lock" | grep -q '^source'; then
    echo "error: cargo built the stock rayon-core in spite of the patch; see $manifest and crates/rayon-core/Cargo.toml" >&2
    exit 1
fi

mkdir -p "$out"
"$target/release/comity-lab" bench drop-in --stock "$target/stock/release/rayon-programs" \
    --drop-in "$target/drop-in/release/rayon-programs" "$@" | tee "$out/drop-in.txt"
echo "This is in $out/drop-in.txt." >&2
