#!/usr/bin/env bash
# The wheel: the command `comity` and what goes with it, for hosts that have pip and no cargo. `comity-lab` is not in
# it.
set -euo pipefail
cd "$(dirname "$0")/.."
packaging/tree.sh
tools=$PWD/target/packages/tools/maturin
# As published, in the version and with the bytes that are named here.
version=1.16.0
if ! "$tools/bin/maturin" --version 2>/dev/null | grep -qF "$version"; then
    rm -rf "$tools"
    python3 -m pip install -q --root-user-action=ignore --target "$tools" --no-deps --only-binary :all: \
        --require-hashes -r /dev/stdin <<EOF
maturin==$version \\
    --hash=sha256:837db2f4d93d4899c3ac393fb3cc9eebf35b6002336e5d574f4a4fb6c49fe283 \\
    --hash=sha256:e285ec9eb10243d45d10417178cb2eb76e0cbb184d0aa4378b503489fa12ee78
EOF
fi
# What the wheel installs beside the command: `data` is the prefix.
rm -rf target/packages/wheel target/packages/comity-*.whl
mkdir -p target/packages/wheel/data
cp -r target/packages/tree/share target/packages/wheel/data/share
find target/packages/wheel -name '*comity-lab*' -delete
# As the tree was built, so that nothing is compiled again.
. packaging/settings.sh
(cd packaging && "$tools/bin/maturin" build -q --release --locked --target "$host" --out ../target/packages)
echo target/packages/comity-*.whl
