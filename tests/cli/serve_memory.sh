#!/usr/bin/env bash
# serve_memory.sh - memory that ends after the first lines of a sweep: the last line says so, the answer ends in
# order, and so does the server. Memory that ends while a server starts: no waiting job is lost.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
shim=$TOOLS/../fault/libfault_shim.so
command -v curl >/dev/null || { echo "skipped: no curl" && exit 77; }
[ -e "$shim" ] || { echo "skipped: $shim is not built" && exit 77; }
cd "$tmp" || exit 70
expect 4 serve --models no-such
if grep -q 'without libmicrohttpd' err; then echo "skipped: no libmicrohttpd" && exit 77; fi
list() { seq -s , -f "$1" 1 32; }
body="{\"hardware\": \"h200\", \"shapes\": [$(list '[%g, 4096]')], \"batches\": [$(list %g)]}"
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null; cleanup' EXIT

# sweep SHIM: the answer in `lines`, the shim's counts beside it; whether it ended in order in `whole`.
sweep() {
    LD_PRELOAD=$shim KERF_SHIM=$1 "$KERF" serve --port 0 --json >log 2>serve-err &
    server=$!
    for _ in $(seq 400); do [ -s log ] || ! kill -0 $server 2>/dev/null && break || sleep 0.05; done
    port=$(sed -n 's/.*"port": \([0-9]*\).*/\1/p' log)
    [ -n "$port" ] || { echo "FAIL: no server: $(cat serve-err)" && exit 1; }
    curl -s --max-time 60 -H 'Content-Type: application/json' -d "$body" "http://127.0.0.1:$port/api/v1/sweep" >lines
    whole=$?
    kill -TERM $server
    wait $server && ended=0 || ended=$?
    check "the server ends well: $(cat serve-err)" test $ended -eq 0
    server=
}

# How much memory is asked for differs from system to system: the fault is put where the lines are half done.
sweep count=count
check "the sweep ends in order" test $whole -eq 0
calls=$(sed -n 's/^memory //p' count) all=$(wc -l <lines)
check "all lines: $all" test "$all" -gt 1024
check "the calls are counted" test "${calls:-0}" -gt 10000
# Now and then it is libmicrohttpd that asks there, or a thread that begins: then the connection ends instead, and
# the next request is tried.
for next in 0 1 2 3 4; do
    sweep "call=memory at=$((calls / 2 + next)) what=fail error=12"
    [ $whole -ne 0 ] || break
done
check "the sweep that lacks memory ends in order" test $whole -eq 0
check "it says why" grep -q '^{"schema":"kerf.error/1","status":503,' <(tail -n 1 lines)
check "after whole lines" test "$(grep -c '^{"n":.*}$' lines)" -eq "$(($(wc -l <lines) - 1))"
check "of which there are some, and not all" test "$(wc -l <lines)" -gt 1 -a "$(wc -l <lines)" -lt "$all"

# Every third request for memory of a start fails once. The address is none of this machine, so that the server ends by
# itself once it has read the journal. One of two jobs may fail, as one that memory lacked for; both never.
mkdir models written && cp -r "$model" models/tiny
job() { echo "{\"id\": $1, \"path\": \"/api/v1/score\", \"request\": {\"model\": \"tiny\", \"formats\": [\"nvfp4:*\"], \"zstd_level\": 22}}"; }
echo "{\"schema\": \"kerf.serve-jobs/1\", \"jobs\": [$(job 3), $(job 4)]}" >journal
begin() { # SHIM
    cp journal written/kerf-jobs.json
    code=0
    LD_PRELOAD=$shim KERF_SHIM=$1 "$KERF" serve --models models --output written --port 0 --drain 0 \
        --address 203.0.113.1 --token 0123456789abcdef >out 2>err || code=$?
}
begin count=count
check "it cannot listen there: $(cat err)" test $code -eq 4
calls=$(sed -n 's/^memory //p' count)
check "the calls are counted" test "${calls:-0}" -gt 100
for n in $(seq 1 3 "${calls:-0}"); do
    begin "call=memory at=$n what=fail error=12"
    checks=$((checks + 1))
    [ $code -eq 4 ] || [ $code -eq 5 ] || note_failure "call $n: exit code $code: $(cat err)"
    grep -q /api/v1/score written/kerf-jobs.json || note_failure "call $n: the jobs are lost: $(cat err)"
done
finish
