#!/usr/bin/env bash
# serve_page.sh - the page of kerf serve in headless Chromium: every control is used, numbers are compared
# with the API's, and the layout is asked in light and dark, wide and at 390 px, with a stand-in for the
# GPU driver; then the same page as a file. PICTURES: a folder for screenshots. Skipped where there is no Chromium with its driver.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
browser=$(command -v chromium || command -v google-chrome || true)
driver=$(command -v chromedriver || true)
[ -n "$browser" ] && [ -n "$driver" ] || { echo "skipped: no chromium with chromedriver" && exit 77; }
mkdir "$tmp/models" "$tmp/written" && cp -r "$model" "$tmp/models/tiny"
export LD_LIBRARY_PATH=$STAND_IN${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} KERF_STAND_IN=$tmp/play
printf '0 412500 700000 clock 1980 2619 61 20480 81559 98 87 0x24 3\n1 70000 700000 clock 345 2619 30 4 81559 0 0 1 0\n' >"$tmp/play"
"$KERF" serve --port 0 --models "$tmp/models" --output "$tmp/written" --drain 0 --json >"$tmp/log" 2>"$tmp/serve-err" &
server=$!
trap 'kill -9 $server 2>/dev/null; cleanup' EXIT
for _ in $(seq 100); do [ -s "$tmp/log" ] && break || sleep 0.1; done
port=$(sed -n 's/.*"port": \([0-9]*\).*/\1/p' "$tmp/log")
[ -n "$port" ] || { echo "skipped: $(head -n 1 "$tmp/serve-err")" && exit 77; }
expect 0 advise "$model" --hardware h200 --budget 6bits -f nvfp4,int8,mxfp6-e2m3 --json
cp "$tmp/out" "$tmp/advice.json"
expect 3 serve --page "$tmp/page.html" --advice "$model/config.json"
error_says 'is no advice; kerf advise MODEL --budget B --json > '
expect 0 serve --page "$tmp/page.html" --advice "$tmp/advice.json"
LD_LIBRARY_PATH='' timeout 300 python3 -B "$(dirname "${BASH_SOURCE[0]}")/serve_page.py" "$driver" "$browser" "http://127.0.0.1:$port/" tiny "$tmp/page.html" ${PICTURES:+"$PICTURES"}
check "the page is as it must be" test $? -eq 0
kill -TERM $server
wait $server && ended=0 || ended=$?
check "the server ends well: $(head -n 3 "$tmp/serve-err")" test $ended -eq 0
finish
