#!/usr/bin/env bash
# large_json.sh - JSON of many lines is read in a second, and what would take too much memory is
# refused before it is taken.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$tmp" || exit 70
limit_kib=300000 limit_s=4

# A recipe with a rule for each of 32,000 tensors, and limits for each.
"$TOOLS/make_model" many m 1 32000 1
run inspect m --json
json 'weights.*.name' | grep 'proj' >names
{
    printf '{"schema": "kerf.recipe/1", "rules": [{"tensors": ["*"], "codec": "keep"}'
    sed 's/.*/,{"tensors": ["&"], "codec": "int8"}/' names
    printf ']}'
} >r.json
check "$(wc -l <names) names" test "$(wc -l <names)" -gt 25000
measure "a recipe of many rules" quantize m --recipe r.json -n
{ # and with their ends alone
    printf '{"schema": "kerf.recipe/1", "rules": [{"tensors": ["*"], "codec": "keep"}'
    head -n 4000 names | sed 's/^model\.\(.*\)/,{"tensors": ["*.\1"], "codec": "int8"}/'
    printf ']}'
} >ends.json
check "ends of names" grep -q '"\*\.layers' ends.json
measure "a recipe of many ends of names" quantize m --recipe ends.json -n
"$TOOLS/make_model" many few 1 3000 1
run inspect few --json
json 'weights.*.name' | grep 'proj' >names
{ # as many, and each of them matches: ten ways to write each name
    printf '{"schema": "kerf.limits/1", "tensors": {"*": {"t2": 1e-9}'
    for star in '' '*' '**' '***' '****' '*****' '******' '*******' '********' '*********'; do
        sed "s/.*/,\"&$star\": {\"t2\": 1}/" names
    done
    printf '}}'
} >l.json
expect 0 quantize few -f int8 -o q
measure "limits for many tensors" verify few q --limits l.json
sed 's/"t2": 1}/"t2": 1e-9}/' l.json >strict.json
expect 1 verify few q --limits strict.json

# 3 bytes that take 136: refused, and not taken.
"$TOOLS/make_model" gaussian a.safetensors
expect 0 quantize a.safetensors -f int8 -o b.safetensors
flood() { # HEAD TAIL: 21 MB of empty lists between
    printf '%s' "$1"
    yes "$(printf '[],%.0s' {1..1000})" | head -n 7000 | tr -d '\n'
    printf '[]%s' "$2"
}
refused() {
    code=0
    "$TOOLS/peak_memory" peak "$KERF" "$@" >out 2>err </dev/null || code=$?
    check "kerf $*: exit code 5, not $code: $(cat err)" test "$code" -eq 5
    check "kerf $*: $(($(cat peak) / 1024)) MiB" test "$(cat peak)" -lt $limit_kib
    check "kerf $*: says how much" grep -q 'of memory would be needed\|at most' err
}
flood '{"schema":"kerf.limits/1","x":[' ']}' >x.json
refused verify a.safetensors b.safetensors --limits x.json
refused compare x.json --hardware h200
refused hardware h200 --measured x.json
refused quantize a.safetensors --recipe x.json -n
refused advise a.safetensors --budget 9bits -f int8 --alpha x.json
refused advise a.safetensors --budget 9bits -f int8 --cache x.json
refused hardware x.json
mkdir c && cp a.safetensors c/model.safetensors && cp x.json c/config.json
refused predict --hardware h200 --model c
refused quantize c -f int8 -o d
finish
