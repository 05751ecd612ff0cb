#!/usr/bin/env bash
# The public interface of each published library is what docs/interfaces/CRATE.txt says, so that a change of it is
# seen in the change itself. A crate whose README promises nothing to others has no such file.
#
# Usage: checks/interface.sh [write]      `write` writes the files anew
set -euo pipefail
cd "$(dirname "$0")/.."
# A folder of its own: what is built here is built as for an unstable compiler.
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/interface
unset CARGO_BUILD_TARGET
folder=docs/interfaces
cargo build -q --locked --manifest-path checks/interface/Cargo.toml --target-dir "$target"
new=$(mktemp -d)
trap 'rm -r "$new"' EXIT
crates=0
for readme in {crates,lab}/*/README.md; do
    crate=${readme%/README.md}
    [ -e "$crate/src/lib.rs" ] && ! grep -q '^publish = false' "$crate/Cargo.toml" || continue
    ! tr '\n' ' ' <"$readme" | grep 'without promises to others' >/dev/null || continue
    name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$crate/Cargo.toml" | head -1)
    # The format is not stable yet; rustdoc writes it only with this.
    RUSTC_BOOTSTRAP=1 cargo rustdoc -q --locked -p "$name" --lib --all-features --target-dir "$target" -- \
        -Z unstable-options --output-format json --cap-lints allow
    "$target/debug/interface" "$target/doc/${name//-/_}.json" >"$new/$name.txt"
    [ -s "$new/$name.txt" ] || { echo "interface: $name has none, which cannot be" >&2; exit 1; }
    crates=$((crates + 1))
done
if [ "${1-}" = write ]; then
    rm -rf "$folder"
    cp -r "$new" "$folder"
    chmod 755 "$folder"
elif ! diff -ru "$folder" "$new"; then
    echo "interface: the public interface has changed, above; if that is meant, run checks/interface.sh write" >&2
    exit 1
fi
echo "interface: of $crates crates, $(cat "$new"/*.txt | wc -l) items"
