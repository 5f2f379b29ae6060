#!/usr/bin/env bash
# full_disk.sh - no room for the output: exit code 4, one line, no output, no temporaries; the same
# when a file may not grow any further.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$model/model.safetensors

# A limit on the size of files works for everybody.
for out in o.safetensors o.safetensors.zst folder; do
    mkdir "$tmp/limited"
    code=0
    (
        ulimit -f 1000
        exec "$KERF" quantize "$source" -f nvfp4 -o "$tmp/limited/$out" 2>"$tmp/err" </dev/null
    ) || code=$?
    check "$out: a file that may not grow ends with 4, not $code" test "$code" -eq 4
    check "$out: nothing is left" test -z "$(ls -A "$tmp/limited")"
    rm -rf "$tmp/limited"
done

# A full file system needs one of our own.
mkdir "$tmp/small"
if ! mount -t tmpfs -o size=2m none "$tmp/small" 2>/dev/null; then
    echo "skipped: a file system of 2 MiB cannot be mounted here"
    finish
fi
trap 'umount "$tmp/small"; cleanup' EXIT
for out in o.safetensors o.safetensors.zst folder; do
    expect 4 quantize "$source" -f nvfp4 -o "$tmp/small/$out"
    error_says 'No space left'
    check "$out: nothing is left on the full disk" test -z "$(ls -A "$tmp/small")"
done
"$KERF" quantize "$source" -f mxfp4 -o "$tmp/q.safetensors" 2>/dev/null
expect 4 dequantize "$tmp/q.safetensors" -o "$tmp/small/o.safetensors"
absent "$tmp/small/o.safetensors"
head -c 1M /dev/zero >"$tmp/small/filler"
expect 4 quantize "$source" -f nvfp4 --only '*layers.0.*' -o "$tmp/small/o.safetensors"
absent "$tmp/small/o.safetensors"
finish
