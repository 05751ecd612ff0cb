#!/usr/bin/env bash
# The .deb, the tarball and the wheel, each in a Debian root of its own that has nothing but what Debian's smallest
# has. There the commands run programs and complete a word. Then, with a compiler, Python and Rust in the root, each
# package is used in the README's three ways. Taken away again, it leaves no file.
#
# Needs root, and the registries of Debian, Rust and Python. Usage: checks/install.sh [deb|tarball|wheel…]
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "install: only root can enter another root; run this as root" >&2; exit 1; }
command -v mmdebstrap >/dev/null || apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null; }
work=$PWD/target/packages/roots
mkdir -p "$work"
[ $# != 0 ] || set -- deb tarball wheel

# A root, once for each list of packages: Debian's smallest, and these. Prints the file that it is in.
base() { # packages
    local file=$work/minbase+${1//,/+}.tar
    if [ ! -e "$file" ]; then
        mmdebstrap --quiet --format=tar --variant=minbase ${1:+--include="$1"} bookworm "$file.part" >&2
        mv "$file.part" "$file"
    fi
    echo "$file"
}
bare_root=$(base "")
compiler_root=$(base gcc,libc6-dev,make,python3-venv)

# A script, run in a root in a mount namespace of its own, with the packages under /package, and with Rust under /rust
# if it is given.
inside() { # root, script, Rust
    unshare --mount --propagation private bash -euo pipefail -c '
        mount -t proc proc "$1/proc"
        mount -t tmpfs tmpfs "$1/dev"
        for device in null zero urandom; do touch "$1/dev/$device"; mount --bind "/dev/$device" "$1/dev/$device"; done
        mkdir -p "$1/dev/shm" "$1/rust" "$1/package"
        shown() { mount --bind "$1" "$2"; mount -o remount,bind,ro "$2"; }
        [ -z "$3" ] || shown "$3" "$1/rust"
        shown target/packages "$1/package"
        for file in resolv.conf hosts ssl; do
            [ -e "$1/etc/$file" ] || { [ -d "/etc/$file" ] && mkdir "$1/etc/$file" || touch "$1/etc/$file"; }
            shown "/etc/$file" "$1/etc/$file"
        done
        exec env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/rust/bin LC_ALL=C.UTF-8 \
            COMITY_TABLE=/root/table chroot "$1" bash -euo pipefail -c "$2"' _ "$1" "$2" "$3" </dev/null
}
rust=$(rustc --print sysroot)

install_deb='dpkg -i /package/comity_*.deb >/dev/null'
remove_deb='dpkg -r comity >/dev/null'
prefix_deb=/usr
zsh_deb=zsh/vendor-completions
install_tarball='tar -xzf /package/comity-*-linux-*.tar.gz -C /usr/local --strip-components=1 --no-same-owner'
remove_tarball='tar -tzf /package/comity-*-linux-*.tar.gz | grep -v "/$" | cut -d/ -f2- | (cd /usr/local && xargs rm)'
prefix_tarball=/usr/local
zsh_tarball=zsh/site-functions
install_wheel='python3 -m venv /opt/venv
PATH=/opt/venv/bin:$PATH
pip install -q --no-index /package/comity-*.whl'
remove_wheel='pip uninstall -q -y comity'
prefix_wheel=/opt/venv
zsh_wheel=zsh/site-functions

# What needs nothing but the package. COMMANDS are those that it has.
bare='
comity --version
[ "$(comity run sh -c "echo shared; exit 3" || echo $?)" = "shared
3" ]
comity run --weight 300 sh -c "true"
comity cores
comity table >/dev/null
for command in $COMMANDS; do
    [ -s "$PREFIX/share/man/man1/$command.1" ] || [ -s "$PREFIX/share/man/man1/$command.1.gz" ]
    [ -s "$PREFIX/share/fish/vendor_completions.d/$command.fish" ]
    [ -s "$PREFIX/share/$ZSH/_$command" ]
done
set +u
. "$PREFIX/share/bash-completion/completions/comity"
COMP_WORDS=(comity polic) COMP_CWORD=1
_comity comity polic comity
set -u
[ "${COMPREPLY[*]}" = policies ]
if [ "$COMMANDS" != comity ]; then
    comity-lab corun mergesort:n=20000 cg:class=S --workers 4 --rounds 1 --backend rayon,comity
fi'

# What needs a compiler too: a rayon program over Comity, any program, and a program of the library.
ways='
mkdir -p /root/mine/src /root/own/src
cp /package/mine/Cargo.toml /package/mine/Cargo.lock /root/mine
cp /package/mine/src/main.rs /root/mine/src
comity rayon enable /root/mine
grep -F "$PREFIX/share/comity/crates/rayon-core" /root/mine/Cargo.toml
(cd /root/mine; comity run cargo run -q --release)
comity rayon disable /root/mine
cmp /package/mine/Cargo.toml /root/mine/Cargo.toml
cmp /package/mine/Cargo.lock /root/mine/Cargo.lock
comity rayon enable --record /root/mine
(cd /root/mine; cargo build -q --release)
comity rayon disable /root/mine
printf "all:\n\ttrue\n" >/root/Makefile
comity run make -C /root -j8
cat >/root/own/Cargo.toml <<EOF
[package]
name = "own"
edition = "2024"
[dependencies]
comity = { path = "$PREFIX/share/comity/crates/runtime" }
comity-flow = { path = "$PREFIX/share/comity/crates/flow" }
EOF
cat >/root/own/src/main.rs <<EOF
fn main() {
    let (left, right) = comity::join(|| (1..=20u64).product::<u64>(), || (1..=10u64).sum::<u64>());
    let sum = comity_flow::block_on(async { comity_flow::spawn(async move { left % 1_000_003 + right }).await });
    println!("{sum}");
}
EOF
(cd /root/own; cargo run -q --release)'

rm -rf target/packages/mine
cp -r docs/guide/folder/mine target/packages/mine
files() { (cd "$work/root" && find usr opt ! -type d | sort); }
failed=0
for kind; do
    packaging/"$kind".sh
    install=install_$kind remove=remove_$kind prefix=prefix_$kind zsh=zsh_$kind commands="comity comity-lab"
    [ "$kind" != wheel ] || commands=comity
    for root in bare compiler; do
        # A wheel is nothing without Python.
        [ "$kind $root" != "wheel bare" ] || continue
        base=${root}_root used=$bare in=""
        [ $root = bare ] || used+=$ways in=$rust
        rm -rf "$work/root"
        mkdir "$work/root"
        tar -xf "${!base}" -C "$work/root"
        files >"$work/before"
        if ! inside "$work/root" "COMMANDS='$commands' PREFIX=${!prefix} ZSH=${!zsh}
${!install}
$used
${!remove}" "$in"; then
            echo "FAILED  $kind in the root '$root', above" >&2
            failed=1
            continue
        fi
        left=$(files | comm -13 "$work/before" -)
        # The virtual environment stays.
        [ "$kind" != wheel ] || left=$(grep -i comity <<<"$left" || true)
        if [ -n "$left" ]; then
            echo "FAILED  $kind in the root '$root' leaves these files behind: $left" >&2
            failed=1
        else
            echo "ok      $kind in the root '$root'"
        fi
    done
done
rm -rf "$work/root" "$work/before"
[ $failed = 0 ] || { echo "install: something failed, above" >&2; exit 1; }
ls -l target/packages/comity[-_]* | awk '{ sub(/.*\//, "", $9); print "install: " $9 ": " $5 " bytes" }'
