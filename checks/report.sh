#!/usr/bin/env bash
# The pages of `comity-lab report` in a browser: one of every kind of file, and one of all. Headless Chromium must
# say nothing on its console, draw every chart, keep within the width of the window, and need no other file. Whether
# the check itself notices is tried first, on pages that are wrong. Screenshots at 600 and 1400 pixels are left in
# target/report-pages, to be looked at.
set -euo pipefail
cd "$(dirname "$0")/.."
check=report
. checks/browser.sh
cargo build -q -p comity-cli -p comity-lab
target=${CARGO_TARGET_DIR:-target}
lab=$(realpath "$target/debug/comity-lab") comity=$(realpath "$target/debug/comity")
scenarios=$PWD/lab/scenarios
pages=$target/report-pages
rm -rf "$pages"
mkdir -p "$pages"
cd "$pages"

# What a page cannot tell of itself: it has no script. A copy has one, and nothing else that differs.
cat >"$profile/script" <<'HTML'
<script>
addEventListener('load', () => {
  const wrong = [];
  if (document.documentElement.scrollWidth > innerWidth) wrong.push('it is ' + document.documentElement.scrollWidth + ' pixels wide');
  for (const details of document.querySelectorAll('details')) details.open = true;
  for (const chart of document.querySelectorAll('[role=img]')) {
    const name = chart.getAttribute('aria-label'), box = chart.getBoundingClientRect();
    if (!name) wrong.push('a chart has no label');
    if (box.width < 90 || box.height < 14) wrong.push('a chart is ' + box.width + ' x ' + box.height + ': ' + name);
    const drawn = [...chart.querySelectorAll('path, rect, circle')].filter(mark => {
      const box = mark.getBoundingClientRect(), style = getComputedStyle(mark);
      const seen = [style.fill, style.stroke].some(colour => colour !== 'none' && colour !== 'rgb(0, 0, 0)');
      return seen && box.width + box.height > 0;
    });
    if (!drawn.length) wrong.push('nothing is drawn: ' + name);
    for (const text of chart.querySelectorAll('span, .name, .unit'))
      if (parseFloat(getComputedStyle(text).fontSize) < 11) wrong.push('small letters: ' + text.textContent);
  }
  for (const figure of document.querySelectorAll('figure'))
    if (!/\.\s*$/.test(figure.querySelector('figcaption')?.textContent ?? '')) wrong.push('a figure has no sentence below it');
  for (const link of document.querySelectorAll('a'))
    if (!document.getElementById(link.getAttribute('href').slice(1))) wrong.push('a link leads nowhere: ' + link.textContent);
  for (const details of document.querySelectorAll('details')) details.open = false;
  document.title = 'height=' + document.documentElement.scrollHeight + ' charts=' + document.querySelectorAll('[role=img]').length
    + ' wrong=' + wrong.slice(0, 5).join('; ');
});
</script>
HTML

# look PAGE CHARTS: nothing, or a sentence on what is wrong with the page, which has so many charts at least.
look() {
    local page=$1 least=$2 width found height charts
    if grep -qE '<script|<(img|iframe|object|embed)|url\(|@import|(src|href)="?(https?:)?//' "$page"; then
        echo "it has a script, or needs another file"
        return
    fi
    if ! browse 1000 800 "$page" --dump-dom >"$profile/dom" 2>"$profile/log"; then
        echo "the browser failed: $(tail -1 "$profile/log")"
        return
    fi
    if grep 'CONSOLE' "$profile/log"; then
        return
    fi
    sed 's|<meta http-equiv="Content-Security-Policy"[^>]*>||' "$page" | cat - "$profile/script" >copy.html
    for width in 600 1400; do
        browse "$width" 800 copy.html --dump-dom 2>/dev/null >"$profile/dom"
        found=$(grep -o '<title>height=[^<]*' "$profile/dom" | head -1)
        [ -n "$found" ] || { echo "its copy with a script tells nothing"; break; }
        [ "${found##*wrong=}" = "" ] || { echo "at $width pixels: ${found##*wrong=}"; break; }
        charts=${found##*charts=} charts=${charts%% *}
        [ "$charts" -ge "$least" ] || { echo "it has $charts charts, and should have $least"; break; }
        height=${found#*height=} height=${height%% *}
        browse "$width" "$((height < 16000 ? height : 16000))" "$page" --screenshot="$PWD/${page%.html}-$width.png" 2>/dev/null >&2
        [ -s "${page%.html}-$width.png" ] || { echo "there is no screenshot of $width pixels"; break; }
    done
    rm -f copy.html
}

export COMITY_TABLE=$profile/table
"$lab" corun mergesort:n=200000 fib:n=24 --workers 2 --rounds 4 --backend rayon,comity --json pair.json >/dev/null 2>&1
"$lab" corun fib:n=22 mm:n=96 nqueens:n=8 --pairs --workers 2 --rounds 3 --policy comity,bws --backend rayon --json pairs.json >/dev/null 2>&1
"$lab" simulate "$scenarios/faults.toml" --json >faults.json
"$lab" simulate "$scenarios/host.toml" --json >host.json
"$lab" reproduce a-steal time waste --one-in 60 --json >a-steal.json
"$lab" reproduce ws-last exp2 exp4 --one-in 25 --vary yield=1 --vary steal=1 --json >ws-last.json
"$comity" run --report=command.json sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; sleep 0.1'
COMITY_TRACE=fib.trace "$lab" kernel fib:n=34 --workers 2 --rounds 12 >/dev/null &
COMITY_TRACE=mergesort.trace "$lab" kernel mergesort:n=4000000 --workers 2 --rounds 4 >/dev/null
wait $!

failed=0
page() { # name, charts, files…
    local wrong
    "$lab" report --out "$1.html" --title "$1" "${@:3}" >/dev/null
    wrong=$(look "$1.html" "$2")
    if [ -n "$wrong" ]; then
        echo "FAILED  $1: $wrong" >&2
        failed=1
    else
        echo "ok      $1: $(wc -c <"$1.html") bytes"
    fi
}

# notices NAME PART TEXT: a page with this text at its end is found to be wrong, for this reason.
notices() {
    local wrong
    { cat pair.html; echo "$3"; } >wrong.html
    wrong=$(look wrong.html "${4:-3}")
    if [[ $wrong != *"$2"* ]]; then
        echo "FAILED  the check does not notice $1: '$wrong'" >&2
        failed=1
    fi
    rm -f wrong*
}

page pair 3 pair.json
# A style that the page's own rule forbids to load, and an attribute that is wrong, both of which the browser tells
# on its console.
notices 'an error on the console' CONSOLE '<svg><path d="M0 0 nonsense"/></svg>'
notices 'a script' 'it has a script' '<script>console.error("no")</script>'
notices 'a file from elsewhere' 'needs another file' '<img src="http://localhost/nothing.png">'
notices 'a page that is too wide' 'pixels wide' '<p style="width:3000px">wide</p>'
notices 'a chart in which nothing is drawn' 'nothing is drawn: empty' '<div role="img" aria-label="empty" style="height:99px"></div>'
notices 'a chart without a label' 'a chart has no label' '<div role="img" style="height:99px"><svg><rect class="c1" width="9" height="9"/></svg></div>'
notices 'a chart without a sentence' 'no sentence below' '<figure></figure>'
notices 'a link that leads nowhere' 'leads nowhere: here' '<a href="#nowhere">here</a>'
notices 'a chart that is missing' 'should have 9' '' 9

page pairs 3 pairs.json
page faults 3 faults.json
page host 3 host.json
page a-steal 10 a-steal.json
page ws-last 9 ws-last.json
page command 1 command.json
# Timelines are summed up in tables.
page timelines 0 fib.trace mergesort.trace
page all 30 pair.json pairs.json faults.json host.json a-steal.json ws-last.json command.json fib.trace mergesort.trace
[ $failed = 0 ] && echo "report: all pages are as they should be; screenshots are in $pages" || echo "report: something failed, above" >&2
exit $failed
