#!/usr/bin/env bash
# serve_schema.sh - schemathesis asks a running kerf serve what its OpenAPI document says can be asked, and
# much that it says cannot: no answer may be a failure of the server, a status or a type that is not
# documented, or a good one for a bad request. Skipped where it cannot be installed.
#
# Every boundary of every field is asked in each run; CASES (5) is how many more are drawn for each path,
# from SEED (1, so that every run asks the same). CASES=500 SEED=random looks further, by hand.
# The environment of Python is KERF_SCHEMA_VENV or build/schema-venv, made on the first run.
#
# Left out is the check that whatever the document allows succeeds: formats whose blocks do not fit a
# row, models that are not there and budgets that nothing meets are well formed, and answered by 4xx.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
venv=${KERF_SCHEMA_VENV:-$root/build/schema-venv} wanted=schemathesis==4.32.5
if [ ! -e "$venv/complete-$wanted" ]; then
    { python3 -m venv "$venv" && timeout 300 "$venv/bin/pip" install -q --disable-pip-version-check --no-compile \
        --retries 1 "$wanted" && touch "$venv/complete-$wanted"; } >"$tmp/pip" 2>&1 ||
        { echo "skipped: no schemathesis: $(tail -n 1 "$tmp/pip")" && exit 77; }
fi
seed=${SEED:-1}
[ "$seed" != random ] || seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
mkdir "$tmp/models" "$tmp/written" && cp -r "$model" "$tmp/models/tiny"
"$KERF" serve --port 0 --models "$tmp/models" --output "$tmp/written" --drain 0 --json >"$tmp/log" 2>"$tmp/serve-err" &
server=$!
trap 'kill -9 $server 2>/dev/null; cleanup' EXIT
for _ in $(seq 100); do [ -s "$tmp/log" ] && break || sleep 0.1; done
port=$(sed -n 's/.*"port": \([0-9]*\).*/\1/p' "$tmp/log")
[ -n "$port" ] || { echo "skipped: $(head -n 1 "$tmp/serve-err")" && exit 77; }
cd "$tmp" || exit 70
"$venv/bin/st" run "http://127.0.0.1:$port/api/v1/openapi.json" --exclude-path-regex 'stream|events' \
    --phases examples,coverage,fuzzing -n "${CASES:-5}" --seed "$seed" --exclude-checks positive_data_acceptance \
    --request-timeout 20 >"$tmp/st" 2>&1
code=$?
sed -n '/= FAILURES\|= ERRORS/,$p' "$tmp/st" | head -n 80
grep -A 3 'Test cases' "$tmp/st"
check "schemathesis finds nothing" test $code -eq 0
check "the server is still there" kill -0 $server
kill -TERM $server
wait $server && ended=0 || ended=$?
check "and ends well: $(head -n 3 "$tmp/serve-err")" test $ended -eq 0
finish
