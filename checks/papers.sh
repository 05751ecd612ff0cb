#!/usr/bin/env bash
# The claims of the papers, in full: every experiment with each value of the parameters that no datum fixes. Half an
# hour for each paper on two cores, 50 minutes for BWS, 70 for Robinhood. It runs when lab/sim, lab/papers, crates/policy or
# crates/protocol differ from BASE, or from their state at the last run that passed, and otherwise says that it skips.
# An interrupted run continues with the next call, if these folders are unchanged.
#
# Usage: checks/papers.sh [BASE]       with BASE a commit or a branch
#        checks/papers.sh --subset     the chosen values alone, whatever has changed: three minutes for each paper at most
set -euo pipefail
cd "$(dirname "$0")/.."
papers=(a-steal ws-last bws dws robinhood)
decides=(lab/sim lab/papers crates/policy crates/protocol)
filed=${CARGO_TARGET_DIR:-$PWD/target}/papers
case ${1:-} in
-* | '') ;;
*) git rev-parse --quiet --verify "$1^{commit}" >/dev/null || { echo "papers: '$1' is no commit: name a commit or a branch" >&2; exit 2; } ;;
esac
if [ "${1:-}" = --subset ]; then
    for paper in "${papers[@]}"; do
        cargo run --release -p comity-lab -- reproduce "$paper" --check
    done
    exit
fi
[[ ${1:-} != -* ]] || { echo "usage: checks/papers.sh [BASE | --subset]" >&2; exit 2; }

# What decides, as it is in the working tree: a key that changes with each of its bytes.
state() {
    { git rev-parse "${decides[@]/#/HEAD:}"; git diff HEAD -- "${decides[@]}"; git ls-files -z --others --exclude-standard -- "${decides[@]}" | xargs -0 -r sha256sum; } | sha256sum | cut -c1-16
}
now=$(state)
if [ -n "${1:-}" ]; then
    if git diff --quiet "$1" -- "${decides[@]}" && [ -z "$(git ls-files --others --exclude-standard -- "${decides[@]}")" ]; then
        echo "papers: skipped, for ${decides[*]} are as in $1"
        exit
    fi
elif [ -f "$filed/passed" ] && [ "$(cat "$filed/passed")" = "$now" ]; then
    echo "papers: skipped, for ${decides[*]} are as when the claims were last run in full ($filed/passed)"
    exit
fi
failed=0
for paper in "${papers[@]}"; do
    # Runs of another state are not mixed with these.
    out=$filed/$now/$paper
    mkdir -p "$out"
    SECONDS=0
    cargo run --release -p comity-lab -- reproduce "$paper" --full --check --out "$out" || failed=1
    echo "papers: $paper in full, $SECONDS s, filed in $out"
done
[ $failed = 0 ] || { echo "papers: a claim that held does not, above" >&2; exit 1; }
echo "$now" >"$filed/passed"
find "$filed" -mindepth 1 -maxdepth 1 -type d ! -name "$now" -exec rm -r {} +
echo "papers: all claims that held do"
