#!/usr/bin/env bash
# signals.sh - signals that can be caught: the exit code is 128 and their number, nothing is left; what
# finished of a run that may be resumed is. For kill -9, see tests/fault/kills.py.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
out=$tmp/out.d
mkdir "$out"

# send SIGNAL ARGS...: leaves the exit code in $code.
send() {
    local signal=$1 pid
    shift
    "$KERF" quantize "$model" -f nvfp4:sweep -j 1 "$@" 2>/dev/null </dev/null &
    pid=$!
    sleep 0.1
    kill -s "$signal" "$pid" 2>/dev/null
    code=0
    wait "$pid" 2>/dev/null || code=$?
    check "SIG$signal ends with 128 + its number, not $code" \
        test "$code" -eq $((128 + $(kill -l "$signal"))) -o "$code" -eq 0
}

for signal in TERM HUP PIPE XCPU ALRM; do # a job in the background ignores INT and QUIT
    send $signal -o "$out/s.safetensors"
    left=$(ls -A "$out")
    if [ "$left" = s.safetensors ]; then # it came after the last rename
        expect 0 verify "$model" "$out/s.safetensors"
    else
        check "SIG$signal leaves nothing, not $left" test -z "$left"
    fi
    rm -rf "${out:?}"/*
done

send TERM --resume -o "$out/resumed"
expect 0 quantize "$model" -f nvfp4:sweep --resume -y -o "$out/resumed"
check "only the output is left: $(ls -A "$out")" test "$(ls -A "$out")" = resumed
finish
