#!/usr/bin/env bash
# Programs of this version and of the commit that made layout 2 share tables, and are killed at any moment:
# COMITY_DEATHS times, 10,000 unless set. That takes some three minutes. It needs that commit in this clone.
set -euo pipefail
cd "$(dirname "$0")/.."
layout_2=44ea8c6
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
old=$target/layout-2
# The newest of the test's programs that a build there has made.
deaths_of() {
    CARGO_TARGET_DIR=$1 cargo test --locked --no-run -p comity-table --test deaths --message-format json |
        sed -n 's/.*"executable":"\([^"]*deaths-[^"]*\)".*/\1/p' | tail -1
}
git cat-file -e "$layout_2^{commit}" 2>/dev/null || {
    echo "mixed-versions: this clone lacks commit $layout_2; fetch the whole history" >&2
    exit 2
}
rm -rf "$old/source"
mkdir -p "$old/source"
git archive "$layout_2" | tar -x -C "$old/source"
other=$(cd "$old/source" && deaths_of "$old/build")
[ -x "$other" ] || { echo "mixed-versions: commit $layout_2 does not build" >&2; exit 1; }
COMITY_OTHER_BUILD=$other COMITY_DEATHS=${COMITY_DEATHS:-10000} cargo test --locked -p comity-table --test deaths -- --nocapture
