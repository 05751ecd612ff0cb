# Headless Chromium for checks, installed where it is missing. Sourced from the repository's root by a check that names
# itself in `check`.
if ! command -v chromium >/dev/null; then
    echo "chromium is missing; installing it" >&2
    apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || {
        echo "$check: cannot install chromium; install it and run this again" >&2
        exit 1
    }
fi
profile=$(mktemp -d)
trap 'rm -r "$profile"' EXIT

# browse WIDTH HEIGHT PAGE OPTION…: opens a page of the current folder. What the page says on its console is a line
# with CONSOLE on standard error.
browse() {
    local sandbox=()
    # It has none for root.
    [ "$(id -u)" = 0 ] && sandbox=(--no-sandbox)
    timeout 120 chromium --headless=new "${sandbox[@]}" --disable-gpu --hide-scrollbars --user-data-dir="$profile" \
        --enable-logging=stderr --v=0 --window-size="$1,$2" "${@:4}" "file://$PWD/$3"
}
