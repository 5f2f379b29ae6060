#!/usr/bin/env bash
# round_trip.sh - quantize, verify, dequantize, verify: every format, odd shapes, files, folders,
# shards and compressed files.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# trip SOURCE FORMAT QUANTIZED RESTORED OPTIONS...
trip() {
    expect 0 quantize "$1" -f "$2" -o "$3" "${@:5}"
    expect 0 verify "$1" "$3"
    expect 0 dequantize "$3" -o "$4"
    expect 0 verify "$3" "$4" --json
    json_is pass true
    json_is measured 0
    expect 0 verify "$1" "$4" --by-value
}

formats=${FORMATS:-$("$KERF" formats --json | "$TOOLS/json_get" 'formats.*.name')} # all but where one is new
for format in $formats; do
    in_turn || continue
    trip "$model" "$format" "$tmp/q" "$tmp/r"
    check "$format: the folder's other files come along" cmp -s "$model/config.json" "$tmp/r/config.json"
    rm -r "$tmp/q" "$tmp/r"
done

"$TOOLS/make_model" odd "$tmp/odd.safetensors"
for format in $formats; do
    in_turn || continue
    case $format in ggml-* | q[2-6]_* | iq4_*) # blocks of byte structs have no short rows: refused before anything is written
        expect 3 quantize "$tmp/odd.safetensors" -f "$format" -o "$tmp/q.safetensors"
        check "$format: the reason" grep -q "no short ones" "$tmp/err"
        check "$format: no output" test ! -e "$tmp/q.safetensors"
        continue
        ;;
    esac
    trip "$tmp/odd.safetensors" "$format" "$tmp/q.safetensors" "$tmp/r.safetensors" \
        --tensor "column.weight=$format" --tensor "vector=$format" --tensor "scalar=$format"
    rm "$tmp/q.safetensors" "$tmp/r.safetensors"
done

# Casts to the type that the source has lose nothing at all.
"$KERF" quantize "$model/model.safetensors" -f bf16 -o "$tmp/cast.safetensors" 2>/dev/null
"$KERF" dequantize "$tmp/cast.safetensors" -o "$tmp/back.safetensors" 2>/dev/null
same_file "$tmp/back.safetensors" "$model/model.safetensors"

# --- types of decoded tensors -------------------------------------------------------------------
"$KERF" quantize "$model" -f nvfp4 -o "$tmp/q" 2>/dev/null
for dtype in bf16:BF16 fp16:F16 fp32:F32 source:BF16; do
    expect 0 dequantize "$tmp/q" --dtype "${dtype%:*}" -y -o "$tmp/r.safetensors"
    expect 0 inspect "$tmp/r.safetensors" --json
    row_is weights model.layers.0.mlp.down_proj.weight dtype "${dtype#*:}"
    expect 0 verify "$tmp/q" "$tmp/r.safetensors"
done
expect 0 dequantize "$tmp/q" -y -o "$tmp/r.safetensors" --json
json_is schema kerf.dequantize/1
json_is decoded 28

# --- compressed files ---------------------------------------------------------------------------
source=$model/model.safetensors
expect 0 quantize "$source" -f int8 -o "$tmp/plain.safetensors"
expect 0 quantize "$source" -f int8 -o "$tmp/packed.safetensors.zst"
check "a packed file is smaller" test "$(stat -c %s "$tmp/packed.safetensors.zst")" -lt \
    "$(stat -c %s "$tmp/plain.safetensors")"
if command -v zstd >/dev/null; then
    zstd -q -d "$tmp/packed.safetensors.zst" -o "$tmp/unpacked.safetensors"
    same_file "$tmp/unpacked.safetensors" "$tmp/plain.safetensors"
fi
expect 0 verify "$source" "$tmp/packed.safetensors.zst"
expect 0 dequantize "$tmp/packed.safetensors.zst" -o "$tmp/a.safetensors"
expect 0 dequantize "$tmp/plain.safetensors" -o "$tmp/b.safetensors"
same_file "$tmp/a.safetensors" "$tmp/b.safetensors"
expect 0 quantize "$source" -f int8 -y -j 1 --zstd-level 3 -o "$tmp/packed1.safetensors.zst"
same_file "$tmp/packed1.safetensors.zst" "$tmp/packed.safetensors.zst"
expect 0 dequantize "$tmp/plain.safetensors" -o "$tmp/dense.safetensors.zst"
expect 0 quantize "$tmp/dense.safetensors.zst" -f nf4 -o "$tmp/from-packed.safetensors"
expect 0 quantize "$tmp/a.safetensors" -f nf4 -o "$tmp/from-plain.safetensors"
same_file "$tmp/from-packed.safetensors" "$tmp/from-plain.safetensors"

# --- folders and shards -------------------------------------------------------------------------
"$TOOLS/make_model" shards "$tmp/shards"
trip "$tmp/shards" nvfp4:4/6 "$tmp/sq" "$tmp/sr"
check "the names of shards stay" diff <(ls "$tmp/shards") <(ls "$tmp/sq")
expect 0 inspect "$tmp/sq" --planes --wide
output_says '^lm_head.weight .*model-00003-of-00003.safetensors'
output_says '^layers.1.q_proj.weight_scale .*model-00002-of-00003.safetensors'
check "metadata of the source is carried over" \
    grep -aq '"author":"nobody"' "$tmp/sq/model-00001-of-00003.safetensors"
expect 0 quantize "$tmp/shards" -f nvfp4:4/6 -o "$tmp/merged.safetensors"
expect 0 verify "$tmp/sq" "$tmp/merged.safetensors"
expect 0 verify "$tmp/shards" "$tmp/merged.safetensors"
expect 0 quantize "$source" -f mxfp4 -o "$tmp/as-folder"
expect 0 verify "$source" "$tmp/as-folder"
finish
