#!/usr/bin/env bash
# serve_schema.sh - schemathesis asks a running kerf serve what its OpenAPI document says can be asked, and
# much that it says cannot: no answer may be a failure of the server, a status or a type that is not
# documented, or a good one for a bad request. Takes minutes; skipped where it cannot be installed.
#
# Left out is the check that whatever the document allows succeeds: formats whose blocks do not fit a
# row, models that are not there and budgets that nothing meets are well formed, and answered by 4xx.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
st=$(command -v st || true)
if [ -z "$st" ]; then
    python3 -m venv "$tmp/venv" && "$tmp/venv/bin/pip" install -q 'schemathesis>=4,<5' >"$tmp/pip" 2>&1 ||
        { echo "skipped: no schemathesis: $(tail -n 1 "$tmp/pip")" && exit 77; }
    st=$tmp/venv/bin/st
fi
mkdir "$tmp/models" "$tmp/written" && cp -r "$model" "$tmp/models/tiny"
"$KERF" serve --port 0 --models "$tmp/models" --output "$tmp/written" --drain 0 --json >"$tmp/log" 2>"$tmp/serve-err" &
server=$!
trap 'kill -9 $server 2>/dev/null; cleanup' EXIT
for _ in $(seq 100); do [ -s "$tmp/log" ] && break || sleep 0.1; done
port=$(sed -n 's/.*"port": \([0-9]*\).*/\1/p' "$tmp/log")
[ -n "$port" ] || { echo "skipped: $(head -n 1 "$tmp/serve-err")" && exit 77; }
cd "$tmp" || exit 70
"$st" run "http://127.0.0.1:$port/api/v1/openapi.json" --exclude-path-regex 'stream|events' -n "${CASES:-60}" \
    --exclude-checks positive_data_acceptance --request-timeout 20 >"$tmp/st" 2>&1
code=$?
sed -n '/= FAILURES\|= ERRORS/,$p' "$tmp/st" | head -n 80
grep -A 3 'Test cases' "$tmp/st"
check "schemathesis finds nothing" test $code -eq 0
check "the server is still there" kill -0 $server
kill -TERM $server
wait $server
check "and ends well: $(head -n 3 "$tmp/serve-err")" test $? -eq 0
finish
