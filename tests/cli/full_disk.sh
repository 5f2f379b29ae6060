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
    error_says 'no room for [0-9]* bytes: No space left'
    check "$out: nothing is left on the full disk" test -z "$(ls -A "$tmp/small")"
done
"$KERF" quantize "$source" -f mxfp4 -o "$tmp/q.safetensors" 2>/dev/null
expect 4 dequantize "$tmp/q.safetensors" -o "$tmp/small/o.safetensors"
absent "$tmp/small/o.safetensors"
# parts of it: the one that finds no room ends so, the one that had finished waits
expect 0 quantize "$source" -f nvfp4 -o "$tmp/small/folder" --shard-size 1500KB --part 1/2
expect 4 quantize "$source" -f nvfp4 -o "$tmp/small/folder" --shard-size 1500KB --part 2/2
error_says 'no room for [0-9]* bytes: No space left'
expect 3 merge "$tmp/small/folder"
error_says 'part 2/2 is missing: run kerf quantize'
check "the finished part alone is left" test "$(ls -A "$tmp/small"/*)" = 1-of-2
rm -r "$tmp/small/folder.kerf-parts"
head -c 1M /dev/zero >"$tmp/small/filler"
expect 4 quantize "$source" -f nvfp4 --only '*layers.0.*' -o "$tmp/small/o.safetensors"
absent "$tmp/small/o.safetensors"
finish
