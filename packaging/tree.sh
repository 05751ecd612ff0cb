#!/usr/bin/env bash
# What every package holds, as one tree in target/packages/tree: both commands with their man pages and completions.
# In share/comity are the sources that `comity rayon enable`, or a program's own manifest, points to. The commands are
# linked statically, over glibc: they start on any Linux of this architecture.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/settings.sh
tree=$PWD/target/packages/tree
# One by one: together, one would get the features of the other's libraries, and the wheel another command.
cargo build --release --locked -p comity-cli
cargo build --release --locked -p comity-lab
rm -rf "$tree"
completions() { # shell, folder, name
    mkdir -p "$tree/share/$2"
    "$tree/bin/$command" completions "$1" >"$tree/share/$2/$3"
}
for command in comity comity-lab; do
    install -D "$target/$host/release/$command" "$tree/bin/$command"
    if readelf -lW "$tree/bin/$command" | grep INTERP >&2; then
        echo "tree: $command is not static: something in the environment overrides packaging/settings.sh" >&2
        exit 1
    fi
    "$tree/bin/$command" man "$tree/share/man/man1"
    completions bash bash-completion/completions "$command"
    completions fish fish/vendor_completions.d "$command.fish"
    completions zsh zsh/site-functions "_$command"
done
install -D -m 644 -t "$tree/share/doc/comity" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE
# What the drop-in and the library are built from.
sources=(Cargo.toml crates/{rayon-core,runtime,flow,table,protocol,policy,os,values} lab/{recording,graph})
mkdir -p "$tree/share/comity"
git ls-files "${sources[@]}" | grep -vE '^crates/[^/]*/(mutations|programs|api|upstream)/' |
    xargs cp --parents -t "$tree/share/comity"
chmod -R u=rwX,go=rX "$tree"
