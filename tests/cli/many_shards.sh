#!/usr/bin/env bash
# many_shards.sh - a model folder of 100 shards and 20,000 tensors: bounded memory, seconds, and no
# more open files than the system gives. On one thread it takes about 75 MiB and 2 s to quantize.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
limit_kib=$((128 * 1024)) limit_s=30
check "100 shards" "$TOOLS/make_model" many "$tmp/source" 100 20000 16

ulimit -Sn 150 # 200 files and more are open at once
measure quantize quantize "$tmp/source" -f nvfp4 -j 1 -o "$tmp/q"
check "100 shards are written" test "$(find "$tmp/q" -name 'model-*-of-00100.safetensors' | wc -l)" -eq 100
measure inspect inspect "$tmp/q"
measure "new shards" quantize "$tmp/source" -f nvfp4 -j 1 --shard-size 4MB -o "$tmp/few"
check "11 shards are written" test "$(find "$tmp/few" -name 'model-*-of-00011.safetensors' | wc -l)" -eq 11
measure dequantize dequantize "$tmp/q" -j 1 -o "$tmp/one.safetensors"
measure "dequantize new shards" dequantize "$tmp/few" -j 1 -o "$tmp/other.safetensors"
same_file "$tmp/one.safetensors" "$tmp/other.safetensors"
finish
