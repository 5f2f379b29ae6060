#!/usr/bin/env bash
# no_resources.sh - few descriptors, little memory: the right bytes, or exit code 4 or 5 with one
# line, and nothing left behind.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$tmp" || exit 70
"$TOOLS/make_model" many m 3 12 64
cp "$model/config.json" m
"$TOOLS/make_model" big big.safetensors 8
expect 0 quantize m -f int8 --layout compressed-tensors -o ct
expect 0 convert ct --layout modelopt -o wanted
expect 0 quantize big.safetensors -f nvfp4 -o wanted_big
ok=0 refused=0

# limited LIMIT WANTED ARGS...
limited() {
    local limit=$1 wanted=$2
    shift 2
    mkdir room
    code=0
    # shellcheck disable=SC2086
    (exec >/dev/null 2>err </dev/null && ulimit $limit && exec "$KERF" "$@" -o room/o) || code=$?
    checks=$((checks + 1))
    if [ "$code" -eq 0 ]; then
        ok=$((ok + 1))
        diff -r "$wanted" room/o >/dev/null || note_failure "$limit, $*: other bytes"
    elif [ "$code" -eq 4 ] || [ "$code" -eq 5 ]; then
        refused=$((refused + 1))
        [ "$(wc -l <err)" -eq 1 ] || note_failure "$limit, $*: $(cat err)"
        [ -z "$(ls -A room)" ] || note_failure "$limit, $*: $(ls -A room) is left"
    elif [ "$code" -ne 127 ]; then # 127: not even the command could be loaded
        note_failure "$limit, $*: exit code $code: $(cat err)"
    fi
    rm -rf room
}
for n in $(seq 4 20); do
    limited "-n $n" wanted convert ct --layout modelopt -j 2
    limited "-n $n" wanted_big quantize big.safetensors -f nvfp4 -j 2
done
check "descriptors: $ok runs are right, $refused are refused" test "$ok" -gt 5 -a "$refused" -gt 5
ok=0 refused=0
for kib in $(seq 8000 4000 100000); do
    limited "-v $kib" wanted_big quantize big.safetensors -f nvfp4 -j 3
    limited "-v $kib" wanted convert ct --layout modelopt -j 3
done
# Memory that ends after the first lines of a sweep: the last line says so, and the answer ends in order.
shim=$(echo "$TOOLS"/../fault/*fault_shim.so)
LD_PRELOAD=$shim KERF_SHIM="call=memory at=150000 what=fail error=12" "$KERF" serve --port 0 --json >log 2>serve-err &
server=$!
trap 'kill -9 $server 2>/dev/null; cleanup' EXIT
for _ in $(seq 200); do [ -s log ] || ! kill -0 $server 2>/dev/null && break || sleep 0.05; done
port=$(sed -n 's/.*"port": \([0-9]*\).*/\1/p' log)
if [ -e "$shim" ] && [ -n "$port" ] && command -v curl >/dev/null; then
    list() { seq -s , -f "$1" 1 32; }
    body="{\"hardware\": \"h200\", \"shapes\": [$(list '[%g, 4096]')], \"batches\": [$(list %g)]}"
    curl -s --max-time 60 -H 'Content-Type: application/json' -d "$body" "http://127.0.0.1:$port/api/v1/sweep" >lines
    check "the sweep ends in order" test $? -eq 0
    check "it says why" grep -q '^{"schema":"kerf.error/1","status":503,' <(tail -n 1 lines)
    check "after whole lines" test "$(grep -c '^{"n":.*}$' lines)" -eq "$(($(wc -l <lines) - 1))"
    check "of which there are some" grep -q '^{"n":2,"k":4096,"batch":1,' lines
    kill -TERM $server
    wait $server
    check "the server ends well" test $? -eq 0
fi
echo "memory: $ok runs are right, $refused are refused"
finish
