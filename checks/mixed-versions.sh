#!/usr/bin/env bash
# Programs of this version and of the commit that made layout 2 share tables. They are killed and stopped at each state
# of a member's life, and killed at any moment: COMITY_DEATHS times, 10,000 unless set. That takes some three minutes.
# It needs that commit in this clone.
set -euo pipefail
cd "$(dirname "$0")/.."
layout_2=44ea8c6
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
old=$target/layout-2
# Prints the path of a test program of the current folder, built into $old/build.
program_of() { # its name, cargo's arguments for it
    CARGO_TARGET_DIR=$old/build cargo test --locked --no-run -p comity-table "${@:2}" --message-format json |
        sed -n "s/.*\"executable\":\"\([^\"]*$1-[^\"]*\)\".*/\1/p" | tail -1
}
git cat-file -e "$layout_2^{commit}" 2>/dev/null || {
    echo "mixed-versions: this clone lacks commit $layout_2; fetch the whole history" >&2
    exit 2
}
rm -rf "$old/source"
mkdir -p "$old/source"
git archive "$layout_2" | tar -x -C "$old/source"
cd "$old/source"
other=$(program_of deaths --test deaths)
life=$(program_of comity_table --lib)
cd "$OLDPWD"
[ -x "$other" ] && [ -x "$life" ] || { echo "mixed-versions: commit $layout_2 does not build" >&2; exit 1; }
export COMITY_OTHER_BUILD=$other COMITY_OTHER_LIFE=$life COMITY_DEATHS=${COMITY_DEATHS:-10000}
cargo test --locked -p comity-table --lib fault
cargo test --locked -p comity-table --test deaths -- --nocapture
