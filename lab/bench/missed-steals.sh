#!/usr/bin/env bash
# Makes docs/results/missed-steals.md: how often a worker says that it sleeps, and rests, beside queued tasks, before
# and after missed steals were told from failed ones.
#
# usage: lab/bench/missed-steals.sh
# It counts, so the machine may be busy. Eight repetitions take half an hour on two cores.
#
# Three variants: `before`, the commit before the change; `after`, one that has it; and `counted`, as `after`, but
# policies are told of a missed steal as of a failed one. Both commits are built with missed-steals-watched.rs, which
# counts.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD
out=$here/bench/new/missed-steals
mkdir -p "$out"

build() { # name commit
    [ -x "$out/$1" ] && return
    local tree=$out/tree-$1
    git worktree add --detach "$tree" "$2"
    cp lab/bench/missed-steals-watched.rs "$tree/crates/runtime/src/watched.rs"
    sed -i 's/^mod worker;/mod watched;\nmod worker;/' "$tree/crates/runtime/src/lib.rs"
    sed -i \
        -e 's/dialogue\.next(&mut \*\*thief,/dialogue.next(\&mut crate::watched::Watched { thief: \&mut **thief, me: self.worker.id(), shared },/' \
        -e 's/\(Outcome::Nothing if shared.peer(victim).has_task()\) =>/\1 \&\& !crate::watched::missed_is_failed() =>/' \
        -e 's/^        wait();$/        crate::watched::rests(shared, id);\n        wait();/' \
        -e 's/^        let mut outcome = Outcome::Done;$/        crate::watched::begins();\n&/' \
        "$tree/crates/runtime/src/thief.rs"
    (cd "$tree" && cargo build --release -p comity-lab && cp target/release/comity-lab "$out/$1")
    git worktree remove --force "$tree"
}
build before 3876cdf
build after 23b5dae

export COMITY_TABLE=$out/table
unset COMITY COMITY_POLICY COMITY_WATCH COMITY_TRACE COMITY_WEIGHT COMITY_CORES COMITY_NUM_THREADS
beside=
trap 'kill -KILL $beside 2>/dev/null || true' EXIT

# Policies that share cores run beside a program of short rounds, which lends its core between two: alone they do not
# sleep.
one() { # variant policy kernel workers rounds
    local lab=$out/$1
    [ "$1" = counted ] && lab=$out/after && export MISSED_IS_FAILED=1
    if [ "$2" != bws ]; then
        "$lab" kernel fib:n=30 --policy "$2" --workers 2 --rounds 1000000 --json >/dev/null 2>&1 &
        beside=$!
        sleep 0.2
    fi
    local counts
    counts=$("$lab" kernel "$3" --policy "$2" --workers "$4" --rounds "$5" 2>&1 >/dev/null | sed -n 's/^WATCHED //p')
    [ -z "$beside" ] || { kill -KILL "$beside" && wait "$beside" 2>/dev/null || true; }
    beside=
    unset MISSED_IS_FAILED
    echo "$1 $2 $3 $4 $counts"
}

for _ in $(seq "${REPETITIONS:-8}"); do
    for policy in dws dws-nc bws; do
        while read -r kernel rounds; do
            for workers in 2 4 16; do
                for variant in before after counted; do
                    one $variant $policy "$kernel" $workers "$rounds"
                done
            done
        done <<<$'fib:n=36 4\ncg:class=S 10\nmergesort:class=medium 6\nnqueens:n=13 6'
    done
done >"$out/counts.txt"
python3 lab/bench/tables/missed-steals.py "$out/counts.txt" >"$out/missed-steals.md"
