#!/usr/bin/env bash
# inspect.sh - what a checkpoint holds, from files and folders, packed or not, and what is wrong.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 0 inspect "$model" --wide
output_says 'model.embed_tokens.weight .*2048x256 .*BF16'
output_says '^38 weights, 0 quantized'
expect 0 inspect "$model" --json
json_is schema kerf.inspect/1
json_is totals.weights 38
json_is totals.elements 3672320
json_is findings.# 0

"$KERF" quantize "$model" -f nvfp4:4/6 -o "$tmp/q" 2>/dev/null
expect 0 inspect "$tmp/q" --wide
output_says 'down_proj.weight .*nvfp4:4/6 .*BF16'
output_says 'note: .*same fused group'
expect 0 inspect "$tmp/q" --planes
output_says 'down_proj.weight_scale_2 .*F32'
expect 0 inspect "$tmp/q" --json
down=model.layers.0.mlp.down_proj.weight
row_is weights $down format nvfp4
row_is weights $down encoder 4/6
row_is weights $down planes.# 3

# Members of a fused group in different formats.
"$KERF" quantize "$model" -f mxfp4 --tensor '*k_proj*=int8' -o "$tmp/mixed.safetensors" 2>/dev/null
expect 0 inspect "$tmp/mixed.safetensors"
output_says 'note: .*q_proj.weight: mxfp4:even, but .*k_proj.weight of the same fused group is int8'

# Scales made wrong on purpose: the byte at an offset of a plane is replaced.
spoil() { # FORMAT PLANE-SUFFIX OCTAL-BYTES
    rm -f "$tmp/s.safetensors"
    "$KERF" quantize "$tmp/m.safetensors" -f "$1" -o "$tmp/s.safetensors" 2>/dev/null
    local offset
    run inspect "$tmp/s.safetensors" --planes
    offset=$(awk -v t="a.weight$2" '$1 == t { print $NF }' "$tmp/out")
    # shellcheck disable=SC2059 # the bytes are escapes
    printf "$3" | dd of="$tmp/s.safetensors" bs=1 seek="$offset" conv=notrunc 2>/dev/null
}
"$TOOLS/make_model" nan "$tmp/bad.safetensors"
"$TOOLS/make_model" odd "$tmp/odd.safetensors"
"$KERF" quantize "$tmp/bad.safetensors" -f bf16 --nan zero --tensor 'b.weight=keep' \
    -o "$tmp/plain.safetensors" 2>/dev/null
"$KERF" dequantize "$tmp/plain.safetensors" -o "$tmp/m.safetensors" 2>/dev/null

spoil nvfp4 _scale '\177'
expect 1 inspect "$tmp/s.safetensors"
output_says 'error: a.weight: 1 of 256 scales are NaN or infinite, the first at 0'
spoil nvfp4 _scale '\210'
expect 1 inspect "$tmp/s.safetensors" --json
json_is findings.0.severity error
check "a negative scale" grep -q 'scales are negative' "$tmp/out"
spoil nvfp4 _scale_2 '\000\000\300\177'
expect 1 inspect "$tmp/s.safetensors"
output_says 'error: a.weight: 1 of 1 second-level scales are NaN'
spoil mxfp4 _scale '\377'
expect 1 inspect "$tmp/s.safetensors"
output_says 'error: a.weight: 1 of 128 scales are NaN'
spoil int4-g32 _scale '\200\377'
expect 1 inspect "$tmp/s.safetensors"
output_says 'error: a.weight: 1 of 128 scales are NaN or infinite'
spoil int8 _scale '\000\000\200\277'
expect 1 inspect "$tmp/s.safetensors"
output_says 'error: a.weight: 1 of 64 scales are negative'

# A path that is not UTF-8 is shown, and does not break JSON.
cp "$tmp/m.safetensors" "$tmp/"$'\xff'".safetensors"
expect 0 inspect "$tmp/"$'\xff'".safetensors" --json
json_is source "$tmp/?.safetensors"

# Odd shapes, shards, packed files.
expect 0 inspect "$tmp/odd.safetensors"
output_says '^scalar .*scalar'
output_says '^experts.down_proj.weight .*3x5x48'
"$TOOLS/make_model" shards "$tmp/shards"
expect 0 inspect "$tmp/shards"
output_says '5 tensors in 3 files'
"$TOOLS/make_model" odd "$tmp/odd.safetensors.zst"
expect 0 inspect "$tmp/odd.safetensors.zst" --json
json 'weights.*.name' >"$tmp/packed"
expect 0 inspect "$tmp/odd.safetensors" --json
check "packed and plain hold the same" diff "$tmp/packed" <(json 'weights.*.name')
finish
