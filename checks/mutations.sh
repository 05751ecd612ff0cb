#!/usr/bin/env bash
# Breaks the split deque, the sleep protocol, closed pools, requests, the inbox and a task's word in each of the
# committed ways. Expects the test that each names to notice. That is loom for what only shows between two
# instructions (loom-*); for the rest, the model world, or a driver of the dialogue and of the books. Breaks one
# simulated machine in each of the committed ways, too, and expects the comparison with the other to notice. What
# the protocol and the policies decide is altered too, and the tables in their tests notice. Policies are
# broken so that headlines of the five papers do not hold, and the measures of these claims
# notice. A mutation that no longer applies, no longer compiles, or survives, fails this check.
#
# With --simulator: breaks the books and the ways of waking in those of the ways that touch them. Looks whether one
# of 500 random hosts of the simulator notices, which runs the same code. A patch that needs more hosts says how many
# under "Simulated hosts:". A mutation that none notices says why under "Escapes the simulator:". One that escapes
# without a reason, or is noticed though it has one, fails this check.
#
# With --reproduce: breaks each policy and runs `comity-lab reproduce PAPER EXPERIMENT --check`, as each patch says
# under "Fails:". The command must exit with 1 and name the claims that stand there. It takes an hour on two cores.
# With the beginning of a name: those patches alone.
#
# With --since and a commit: those that have changed since, or that break a file that has. With --minutes and a number
# after that, no further one begins when so many minutes have passed. What was left out is said.
#
# With the names of crates: those of these crates alone.
#
# All share one tree: a mutation is taken back before the next, so that cargo builds only the crate that it changes.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/target/mutations
patches=$PWD
mkdir -p "$work"
rm -rf "$work/tree"
mkdir "$work/tree"
cp -r Cargo.toml Cargo.lock crates lab "$work/tree"
cd "$work/tree"
# The ceiling makes git take the paths as they are, and not from the top of the repository around.
export GIT_CEILING_DIRECTORIES=$work
survived=0 caught=0
usage() {
    echo "usage: checks/mutations.sh [--simulator | --reproduce [PREFIX] | --since COMMIT [--minutes N] | CRATE...], of runtime, flow, sim, protocol and policy" >&2
    exit 2
}
if [ "${1:-}" = --simulator ] || [ "${1:-}" = --reproduce ]; then
    [ $# = 1 ] || { [ $# = 2 ] && [ "$1" = --reproduce ] && compgen -G "$patches/crates/policy/mutations/$2*.patch" >/dev/null; } || usage
    of=()
else
    since='' minutes=''
    if [ "${1:-}" = --since ]; then
        git -C "$patches" rev-parse -q --verify "${2:-}^{commit}" >/dev/null || usage
        since=$2
        shift 2
        if [ "${1:-}" = --minutes ]; then
            [[ ${2:-} =~ ^[0-9]+$ ]] || usage
            minutes=$2
            shift 2
        fi
        [ $# = 0 ] || usage
    fi
    of=("$@")
    [ $# -gt 0 ] || of=(runtime flow sim protocol policy)
    for crate in "${of[@]}"; do
        compgen -G "$patches/*/$crate/mutations" >/dev/null || usage
    done
fi
# Compiling is what takes the time here; and random cases must not miss what they found yesterday.
export CARGO_PROFILE_TEST_DEBUG=0 PROPTEST_CASES=20000
unoptimised=(--config 'profile.test.package.comity.opt-level=0' --config 'profile.test.package.comity-flow.opt-level=0')
# True if one of $2 random hosts notices the mutation. Prints the first test that fails, with its host.
noticed_by_hosts() {
    local log=$1 hosts=$2 test program
    program=$(CARGO_TARGET_DIR=$PWD/../simulator cargo test --release -p comity-sim --test threads --no-run \
        --message-format json 2>"$log" | sed -n 's/.*"executable":"\([^"]*threads-[^"]*\)".*/\1/p')
    [ -n "$program" ] || return 2
    for test in under_every_row of_threads_that_wait of_tasks_that_block; do
        if ! COMITY_HOSTS=$hosts timeout $((hosts * 6 / 10)) "$program" "$test" >"$log" 2>&1; then
            grep -A1 "panicked at" "$log" | sed -n '2p' | cut -c1-160 | grep . || echo "a step that does not end"
            return 0
        fi
    done
    return 1
}

if [ "${1:-}" = --simulator ]; then
    for mutation in "$patches"/crates/{runtime,protocol}/mutations/*.patch; do
        grep -qE '^\+\+\+ b/crates/protocol/src/(sleep|activation)' "$mutation" || continue
        name=$(basename "$mutation" .patch)
        reason=$(sed -n 's/^Escapes the simulator: //p' "$mutation")
        hosts=$(sed -n 's/^Simulated hosts: //p' "$mutation")
        git apply "$mutation"
        code=0
        noticed=$(noticed_by_hosts "$work/$name.log" "${hosts:-500}") || code=$?
        git apply --reverse "$mutation"
        case $code,${reason:+reason} in
        0,) caught=$((caught + 1)); echo "caught: $name: $noticed" ;;
        1,reason) echo "escapes: $name: $reason" ;;
        0,reason) survived=$((survived + 1)); echo "NOTICED, though it has a reason to escape: $name: $noticed" ;;
        1,) survived=$((survived + 1)); echo "ESCAPES WITHOUT A REASON: $name" ;;
        *) survived=$((survived + 1)); echo "BROKEN: $name does not compile; see $work/$name.log" ;;
        esac
    done
    echo "mutations in the simulator: $caught caught, $survived not as they say"
    [ "$survived" -eq 0 ] && [ "$caught" -gt 0 ]
    exit
fi

# Only what the simulator runs is optimised.
fast=()
for crate in comity comity-console comity-flow comity-kernels comity-lab comity-os comity-table; do
    fast+=(--config "profile.release.package.$crate.opt-level=0")
done
# Breaks a policy, and says whether the command fails by the claims that the patch names: their numbers, as it
# prints them.
fails_the_claims() {
    local mutation=$1 log=$2 fails experiment claims claim code=0
    fails=$(sed -n 's/^Fails: //p' "$mutation")
    experiment=${fails%%:*} claims=${fails#*: }
    git apply "$mutation"
    CARGO_TARGET_DIR=$PWD/../reproduce cargo build -q --release "${fast[@]}" -p comity-lab >"$log" 2>&1 || code=2
    if [ $code = 0 ]; then
        # shellcheck disable=SC2086
        timeout 1200 "$PWD/../reproduce/release/comity-lab" reproduce $experiment --check >"$log" 2>&1 || code=$?
    fi
    git apply --reverse "$mutation"
    echo "comity-lab reproduce $experiment --check exits with $code"
    for claim in $claims; do
        grep -qE "^[^│]*are recorded as holding and do not hold: (.*, )?$claim(,|$)" "$log" || code=2
        awk -F ' *(│|┆) *' -v claim="$claim" '$4 == claim || $4 == claim " *" { print "    " $4 ": " $6 ", accepted " $7 }' "$log"
    done
    [ $code = 1 ]
}

if [ "${1:-}" = --reproduce ]; then
    for mutation in "$patches"/crates/policy/mutations/"${2:-}"*.patch; do
        name=$(basename "$mutation" .patch)
        if said=$(fails_the_claims "$mutation" "$work/$name.reproduced"); then
            caught=$((caught + 1)) verdict=caught
        else
            survived=$((survived + 1)) verdict="NOT AS IT SAYS, see $work/$name.reproduced"
        fi
        echo "$verdict: $name: $said"
    done
    echo "mutations of policies against the command: $caught caught, $survived not"
    [ "$survived" -eq 0 ] && [ "$caught" -gt 0 ]
    exit
fi

all=()
for crate in "${of[@]}"; do
    all+=("$patches"/*/"$crate"/mutations/*.patch)
done
if [ -n "$since" ]; then
    touched=()
    for mutation in "${all[@]}"; do
        mapfile -t files < <(sed -n 's|^+++ b/||p' "$mutation")
        git -C "$patches" diff --quiet "$since" -- "${mutation#"$patches/"}" "${files[@]}" || touched+=("$mutation")
    done
    all=("${touched[@]}")
    if [ ${#all[@]} = 0 ]; then
        echo "mutations: none has changed since $since, nor a file that one breaks"
        exit
    fi
fi
begun=0
for mutation in "${all[@]}"; do
    if [ -n "$minutes" ] && [ $SECONDS -ge $((minutes * 60)) ]; then
        echo "mutations: $((${#all[@]} - begun)) of ${#all[@]} were left out after $minutes minutes; checks/mutations.sh runs all"
        break
    fi
    begun=$((begun + 1))
    name=$(basename "$mutation" .patch)
    case $mutation in
    */runtime/mutations/*) package=comity tests=--lib ;;
    */flow/mutations/*) package=comity-flow tests=--lib ;;
    */sim/mutations/*) package=comity-sim tests=--test=two_machines ;;
    # A rule that the protocol decides by: a table in its tests notices.
    */protocol/mutations/*) package=comity-protocol tests=--tests ;;
    # A policy that a headline of a paper does not hold for.
    */policy/mutations/*) package=comity-papers tests=--test=headlines ;;
    esac
    # A patch may name another package, of which any test notices.
    own=$(sed -n 's/^Noticed in: //p' "$mutation")
    [ -z "$own" ] || { package=$own tests=--tests; }
    git apply "$mutation"
    log=$work/$name.log
    case $name in
    loom-*) flags='--cfg loom' target=$PWD/../../loom ;;
    *) flags='' target=$PWD/../model ;;
    esac
    noticer=$(sed -n 's/^Noticed by: //p' "$mutation")
    if RUSTFLAGS=$flags CARGO_TARGET_DIR=$target timeout 600 \
        cargo test -q "${unoptimised[@]}" -p $package $tests "$noticer" >"$log" 2>&1; then
        echo "SURVIVED: $name"
        survived=$((survived + 1))
    elif grep -qE "^thread '.*$noticer.*' .*panicked" "$log"; then # loom aborts after a deadlock, without a result
        echo "caught: $name"
        caught=$((caught + 1))
    else
        echo "BROKEN: $name failed for another reason than its tests; see $log"
        survived=$((survived + 1))
    fi
    git apply --reverse "$mutation"
done
echo "mutations: $caught caught, $survived not"
[ "$survived" -eq 0 ] && [ "$caught" -gt 0 ]
