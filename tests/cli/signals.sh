#!/usr/bin/env bash
# kill.sh - kill -9 at 50 random moments: the output is absent or complete, the next run succeeds
# and clears what the killed one left.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$TOOLS/make_model" shards "$tmp/shards"
out=$tmp/out.d
mkdir "$out"

# Microseconds that an undisturbed run takes.
now_us() { echo $(($(date +%s%N) / 1000)); }

# attempt SOURCE TARGET WHOLE: kills one run, looks, runs again.
attempt() {
    local source=$1 target=$2 delay
    delay=$((RANDOM * RANDOM % (whole * 11 / 10 + 1)))
    "$KERF" quantize "$source" -f nvfp4:4/6 -o "$target" 2>/dev/null </dev/null &
    local pid=$!
    sleep "$((delay / 1000000)).$(printf '%06d' $((delay % 1000000)))"
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    if [ -e "$target" ]; then
        complete=$((complete + 1))
        expect 0 verify "$source" "$target"
    else
        cut=$((cut + 1))
    fi
    expect 0 quantize "$source" -f nvfp4:4/6 -y -o "$target"
    check "only the output is left: $(ls -A "$out")" test "$(ls -A "$out")" = "$(basename "$target")"
    check "the next run writes the same bytes" test "$(cat_all "$target")" = "$expected"
    rm -r "$target"
}
cat_all() { find "$1" -type f -name '*.safetensors*' | sort | xargs cat | sha256sum; }

complete=0 cut=0
for pair in "$model/model.safetensors one.safetensors" "$tmp/shards folder" \
    "$model/model.safetensors packed.safetensors.zst"; do
    read -r source name <<<"$pair"
    start=$(now_us)
    expect 0 quantize "$source" -f nvfp4:4/6 -o "$out/$name"
    whole=$(($(now_us) - start))
    expected=$(cat_all "$out/$name")
    rm -r "${out:?}/$name"
    times=17
    [ "$name" = folder ] && times=16
    for _ in $(seq "$times"); do attempt "$source" "$out/$name"; done
done
echo "50 kills: $cut left nothing, $complete left a complete output"
check "50 kills" test $((cut + complete)) -eq 50
check "some runs were cut" test "$cut" -gt 0

# Signals that can be caught remove temporaries themselves.
for signal in TERM HUP; do
    "$KERF" quantize "$model" -f nvfp4:sweep -o "$out/s.safetensors" 2>/dev/null </dev/null &
    pid=$!
    sleep 0.1
    kill -s "$signal" "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    code=$?
    check "SIG$signal ends with 128 + its number, not $code" \
        test "$code" -eq $((128 + $(kill -l "$signal"))) -o "$code" -eq 0
    left=$(ls -A "$out")
    if [ "$left" = s.safetensors ]; then # it came after the last rename
        expect 0 verify "$model" "$out/s.safetensors"
    else
        check "SIG$signal leaves nothing, not $left" test -z "$left"
    fi
    rm -rf "${out:?}"/*
done
finish
