#!/usr/bin/env bash
# The tarball: the tree in one folder, to be unpacked into any prefix. The same commit gives the same order, owners
# and times.
set -euo pipefail
cd "$(dirname "$0")/.."
packaging/tree.sh
version=$(cargo pkgid --locked -p comity-cli)
name=comity-${version##*[#@]}-linux-$(uname -m)
rm -f target/packages/comity-*-linux-*.tar.gz
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
    --transform "s,^tree,$name," -C target/packages -c tree | gzip -9n >"target/packages/$name.tar.gz"
echo "target/packages/$name.tar.gz"
