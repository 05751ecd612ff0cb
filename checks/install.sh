#!/usr/bin/env bash
# The .deb, the tarball and the wheel, each in a Debian root of its own that has nothing but what Debian's smallest
# has. There the commands run a program, show their manual and complete a word. Then, with a compiler, Python and
# Rust in the root, each package is used in the README's three ways. Taken away again, it leaves nothing.
#
# Needs root, and Debian's registry. Usage: checks/install.sh [deb|tarball|wheel…]
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "install: only root can enter another root; run this as root" >&2; exit 1; }
command -v mmdebstrap >/dev/null || apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null; }
work=$PWD/target/packages/roots
mkdir -p "$work"
[ $# != 0 ] || set -- deb tarball wheel

# A root, once: Debian's smallest, and the packages named.
base() { # name, packages
    [ -e "$work/$1.tar" ] || mmdebstrap --quiet --format=tar --variant=minbase ${2:+--include="$2"} bookworm "$work/$1.tar.part"
    [ -e "$work/$1.tar" ] || mv "$work/$1.tar.part" "$work/$1.tar"
}
base bare ""
base compiler gcc,libc6-dev,python3-venv,make

# The words of a script, run in a root in a mount namespace of its own, with the package under /package.
inside() { # root
    unshare --mount --propagation private bash -euo pipefail -c '
        mount -t proc proc "$1/proc"
        mount -t tmpfs tmpfs "$1/dev"
        for device in null zero urandom; do touch "$1/dev/$device"; mount --bind "/dev/$device" "$1/dev/$device"; done
        mkdir -p "$1/dev/shm" "$1/rust" "$1/package"
        mount --bind "$2" "$1/rust"
        mount --bind target/packages "$1/package"
        for file in resolv.conf hosts ssl; do
            [ -e "$1/etc/$file" ] || { [ -d "/etc/$file" ] && mkdir "$1/etc/$file" || touch "$1/etc/$file"; }
            mount --bind "/etc/$file" "$1/etc/$file"
        done
        exec env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/rust/bin LC_ALL=C.UTF-8 \
            COMITY_TABLE=/root/table chroot "$1" bash -euo pipefail' _ "$1" "$(rustc --print sysroot)"
}

install_deb='dpkg -i /package/comity_*.deb >/dev/null'
remove_deb='dpkg -r comity >/dev/null'
prefix_deb=/usr
install_tarball='tar -xzf /package/comity-*-linux-*.tar.gz -C /usr/local --strip-components=1 --no-same-owner'
remove_tarball='tar -tzf /package/comity-*-linux-*.tar.gz | grep -v "/$" | cut -d/ -f2- | (cd /usr/local && xargs rm)'
prefix_tarball=/usr/local
install_wheel='python3 -m venv /opt/venv; /opt/venv/bin/pip install -q --no-index /package/comity-*.whl; PATH=/opt/venv/bin:$PATH'
remove_wheel='pip uninstall -q -y comity'
prefix_wheel=/opt/venv

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
    (. "$PREFIX/share/bash-completion/completions/$command"; complete -p "$command") >/dev/null
    [ -s "$PREFIX/share/fish/vendor_completions.d/$command.fish" ] && [ -s "$PREFIX/share/zsh/site-functions/_$command" ]
done
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
cmp /package/mine/Cargo.toml /root/mine/Cargo.toml && cmp /package/mine/Cargo.lock /root/mine/Cargo.lock
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
failed=0
for kind; do
    packaging/"$kind".sh
    for root in bare compiler; do
        # A wheel is nothing without Python.
        [ "$kind $root" != "wheel bare" ] || continue
        install=install_$kind remove=remove_$kind prefix=prefix_$kind commands="comity comity-lab"
        [ "$kind" != wheel ] || commands=comity
        rm -rf "$work/root"
        mkdir "$work/root"
        tar -xf "$work/$root.tar" -C "$work/root"
        files() { (cd "$work/root" && find usr opt ! -type d | sort); }
        files >"$work/before"
        if ! inside "$work/root" <<EOF
COMMANDS="$commands" PREFIX=${!prefix}
${!install}
$bare
$([ $root = bare ] || echo "$ways")
${!remove}
EOF
        then
            echo "FAILED  $kind in the root '$root', above" >&2
            failed=1
        elif [ "$kind" != wheel ] && ! diff <(files) "$work/before" >&2; then
            echo "FAILED  $kind in the root '$root' leaves files behind, above" >&2
            failed=1
        elif [ "$kind" = wheel ] && (files | grep -i comity) >&2; then
            echo "FAILED  $kind in the root '$root' leaves files behind, above" >&2
            failed=1
        else
            echo "ok      $kind in the root '$root'"
        fi
    done
done
[ $failed = 0 ] || { echo "install: something failed, above" >&2; exit 1; }
ls -l target/packages/comity* | awk '{ sub(/.*\//, "", $9); print "install: " $9 ": " $5 " bytes" }'
