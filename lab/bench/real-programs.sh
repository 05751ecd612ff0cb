#!/usr/bin/env bash
# Makes docs/results/real-programs.md: programs and libraries from crates.io, unchanged, run their own tests with the
# stock rayon-core and then with Comity's, put in by `comity rayon enable`.
#
# usage: lab/bench/real-programs.sh [NAME…]     Without a name: all of the list below, which takes hours on two cores.
#
# A line per crate: tests passed, failed, ignored, and how many of them need the pool. It fails if any test comes out
# otherwise with Comity, if no test needs the pool, or if `comity rayon` refuses a crate or leaves a file other than it
# was. It downloads from crates.io. The tests of du-dust write into /tmp/test_dir, test_dir2 and test_dir_unicode.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
comity=$target/release/comity
work=$target/real-programs
failed=0

# Name, version, the features that switch rayon on. The first two are programs; `du-dust` is the command dust.
crates='
du-dust  1.2.7
tokei    15.0.0
jwalk    0.9.0
indexmap 2.14.2 rayon
hashbrown 0.17.1 rayon
petgraph 0.8.3  rayon
nalgebra 0.33.2 rayon,debug,compare,rand,macros
imageproc 0.25.0
rav1e    0.7.1
resize   0.8.9
sysinfo  0.33.1
indicatif 0.17.9 rayon
sprs     0.11.2
winter-math 0.13.1 concurrent
halo2_proofs 0.3.0
plonky2  1.0.2
tantivy  0.22.1
linfa-clustering 0.7.1
faer     0.20.1 rayon
lightningcss 1.0.0-alpha.60 bundler
rapier3d 0.22.0 parallel
imbl     3.0.0  rayon
czkawka_core 8.0.0
sourmash 0.17.2 parallel
criterion 0.5.1
fclones  0.34.0
'

cargo build --release --locked -p comity-cli --target-dir "$target"

# One for all crates, so that what they share is compiled once; debug information and increments would only cost time.
export CARGO_TARGET_DIR=$work/build CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
# What `enable` notes for `disable` is not left behind either.
export XDG_STATE_HOME=$work/state
# Some name an old compiler in a rust-toolchain file, which is not at hand everywhere.
export RUSTUP_TOOLCHAIN=${RUSTUP_TOOLCHAIN:-stable}
# What is set outside must not choose the policy, or the number of threads, here.
unset COMITY COMITY_POLICY COMITY_NUM_THREADS RAYON_NUM_THREADS RAYON_RS_NUM_CPUS

# Comity's rayon-core with the pools of a program that uses `comity` itself: a bad value in the environment is an error.
strict=$work/strict
rm -rf "$strict"
mkdir -p "$strict"
cp -r crates/rayon-core/{build.rs,src} "$strict"
sed "s|\"../runtime\"|\"$PWD/crates/runtime\"|" crates/rayon-core/Cargo.toml >"$strict/Cargo.toml"
sed -i '/^ *have_lenient_global_pool();$/d; /^use comity::internal::/d
    s/= lenient_builder()/= comity::ThreadPoolBuilder::new()/' "$strict"/src/*.rs
if cmp -s crates/rayon-core/Cargo.toml "$strict/Cargo.toml" || grep -q lenient_ "$strict"/src/*.rs; then
    echo "error: crates/rayon-core names its runtime in another way than this script expects" >&2
    exit 1
fi

# fetch NAME VERSION: the published source into $work/NAME, from where cargo unpacks it for a project that depends on
# it.
fetch() {
    local list=$work/fetch/$1 source
    mkdir -p "$list"
    touch "$list/lib.rs"
    printf '[package]\nname = "fetch"\n[lib]\npath = "lib.rs"\n[workspace]\n[dependencies]\n%s = "=%s"\n' "$1" "$2" \
        >"$list/Cargo.toml"
    # For this system alone: without that, cargo downloads the libraries of all others too.
    cargo fetch -q --manifest-path "$list/Cargo.toml" --target "$(rustc -vV | sed -n 's/^host: //p')"
    # The folder itself, since `cargo metadata` leaves out a dependency that is a program and no library.
    source=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -name "$1-$2" | head -1)
    rm -rf "${work:?}/$1"
    cp -r "$source" "$work/$1"
    # It lies below this workspace and is no part of it.
    grep -q '^\[workspace\]' "$work/$1/Cargo.toml" || printf '\n[workspace]\n' >>"$work/$1/Cargo.toml"
}

complain() {
    echo "error: $1" >&2
    failed=1
}

# tests NAME FEATURES WITH: the crate's own, documentation included. With `--locked`, so that cargo takes what the lock
# file says: the author's, and the one that `enable` has brought up to Comity.
tests() {
    local log=$work/$1-$3.log code=0
    # Two ask for what a stable compiler refuses otherwise: the compiler's own benchmarks, and specialization. And the
    # proofs of one would take an hour unoptimised.
    case $1 in imageproc | plonky2) local -x RUSTC_BOOTSTRAP=1 ;; esac
    case $1 in plonky2) local -x CARGO_PROFILE_DEV_OPT_LEVEL=2 ;; esac
    # Compiled first, so that the limit is on the tests alone.
    (cd "$work/$1" && cargo test --locked --no-run --features "$2" &&
        timeout 900 cargo test --locked --no-fail-fast --features "$2") >"$log" 2>&1 || code=$?
    # 101: a test has failed, which is for the caller to judge.
    if [ $code != 0 ] && [ $code != 101 ] || ! grep -q '^test result:' "$log"; then
        complain "$1: its tests do not compile or do not end; see $log"
    fi
}

# Passed, failed, ignored.
totals() {
    awk '/^test result:/ { p += $4; f += $6; i += $8 } END { print p + 0, f + 0, i + 0 }' "$work/$1.log"
}

# What came of each test.
outcomes() {
    # A build script's folder is named by a number that differs.
    sed -n 's/^\(test .* \.\.\. \)\(ok\|FAILED\|ignored\).*/\1\2/p' "$work/$1.log" | sed 's|/build/[^/]*/out/|/out/|' | sort
}

# as_before NAME: whether the crate's files are what they were before `comity rayon`, byte for byte.
as_before() {
    local file
    for file in Cargo.toml Cargo.lock; do
        cmp "$work/before/$file" "$work/$1/$file" >&2 || complain "$1: \`comity rayon\` has not brought $file back"
    done
}

# check NAME VERSION FEATURES
check() {
    local name=$1 rayon=$work/$1-rayon.log pool
    fetch "$name" "$2"
    # Some packages carry none.
    [ -f "$work/$name/Cargo.lock" ] || (cd "$work/$name" && cargo generate-lockfile --quiet)
    tests "$name" "$3" stock
    rm -rf "$work/before"
    mkdir "$work/before"
    cp "$work/$name/Cargo.toml" "$work/$name/Cargo.lock" "$work/before/"

    if ! "$comity" rayon enable "$work/$name" >"$rayon"; then
        complain "$name $2 (stock $(totals "$name-stock")): \`comity rayon enable\` has refused it, above"
        as_before "$name"
        return
    fi
    "$comity" rayon status "$work/$name" >>"$rayon"
    tail -1 "$rayon" | grep -q "runs on Comity's" || complain "$name does not run on Comity; see $rayon"
    tests "$name" "$3" comity
    # With COMITY_WEIGHT=0, the strict rayon-core builds no pool. A test that still passes needs no pool.
    "$comity" rayon enable --source "$strict" "$work/$name" >>"$rayon"
    COMITY_WEIGHT=0 tests "$name" "$3" without
    pool=$(comm -23 <(outcomes "$name-comity" | grep 'ok$') <(outcomes "$name-without") | wc -l)
    "$comity" rayon disable "$work/$name" >>"$rayon"
    as_before "$name"

    printf '%-10s %-7s stock %s %s %s, Comity %s %s %s; %s need the pool\n' \
        "$name" "$2" $(totals "$name-stock") $(totals "$name-comity") "$pool"
    diff <(outcomes "$name-stock") <(outcomes "$name-comity") >&2 ||
        complain "$name: the tests above come out otherwise; see $work/$name-stock.log and $work/$name-comity.log"
    [ "$pool" != 0 ] || complain "$name: no test of it needs the pool, so it shows nothing"
}

mkdir -p "$work"
while read -r name version features; do
    [ -n "$name" ] || continue
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    check "$name" "$version" "$features"
done <<<"$crates"
exit $failed
