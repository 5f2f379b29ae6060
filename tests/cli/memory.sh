#!/usr/bin/env bash
# memory.sh - a file larger than what may be resident: every verb streams it in less than 256 MiB.
# MEBIBYTES=4096 makes it the size of a real model.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
size=${MEBIBYTES:-512}
limit_kib=$((256 * 1024))
[ "$(df --output=avail -m "$tmp" | tail -n 1)" -gt $((size * 4)) ] || { echo "skipped: no room" && exit 77; }

check "a model of $size MiB" "$TOOLS/make_model" big "$tmp/big.safetensors" "$size"
measure quantize quantize "$tmp/big.safetensors" -f mxfp4:rceil -o "$tmp/q.safetensors"
measure verify verify "$tmp/big.safetensors" "$tmp/q.safetensors"
measure inspect inspect "$tmp/q.safetensors"
measure dequantize dequantize "$tmp/q.safetensors" -o "$tmp/r.safetensors"
rm "$tmp/r.safetensors" "$tmp/q.safetensors"
measure score score "$tmp/big.safetensors" -f int8
measure "many formats" score "$tmp/big.safetensors" -f 'mxfp4:*'
measure "two passes" quantize "$tmp/big.safetensors" -f fp8-e4m3 -o "$tmp/q.safetensors.zst"
finish
