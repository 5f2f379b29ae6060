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
# begins LIMIT: with less memory the loader ends the command before it begins, or a library that it
# is linked with does.
begins() {
    # shellcheck disable=SC2086
    (exec >/dev/null 2>&1 && ulimit $1 && exec "$KERF" --version)
}
for kib in $(seq 12000 4000 100000); do
    begins "-v $kib" || continue
    limited "-v $kib" wanted_big quantize big.safetensors -f nvfp4 -j 3
    limited "-v $kib" wanted convert ct --layout modelopt -j 3
done
check "memory: $ok runs are right, $refused are refused" test "$ok" -gt 5 -a "$refused" -gt 5

# A tensor that a format looks at twice is kept in between where there is room, and read twice where there is none: one
# of 64 MiB takes what four of 2 MiB take, and no more than 32 MiB of it.
"$TOOLS/make_model" many few 1 4 4096
"$TOOLS/make_model" many large 1 1 131072
expect 0 quantize large -f nvfp4 -o wanted_large
least=
for kib in $(seq 12000 4000 200000); do
    (exec >/dev/null 2>&1 && ulimit -v "$kib" && exec "$KERF" quantize few -f nvfp4 -j 1 -y -o least) && least=$kib && break
done
check "some memory is enough" test -n "$least"
limited "-v $((${least:-200000} + 32000))" wanted_large quantize large -f nvfp4 -j 1
check "a tensor above the limit of memory is quantized: $(cat err)" test "$code" -eq 0
finish
