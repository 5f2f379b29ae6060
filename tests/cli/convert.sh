#!/usr/bin/env bash
# convert.sh - from layout to layout and back: the same bytes, or the count of what is not.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Tensor data of two checkpoints of one layout, name by name.
equal() { "$KERF" verify "$1" "$2" >"$tmp/verify" 2>&1; }

while read -r layout format; do
    "$KERF" quantize "$model" -f "$format" -o "$tmp/own" -y 2>/dev/null
    expect 0 convert "$tmp/own" --layout "$layout" -o "$tmp/there" -y --json
    json_is layout "$layout"
    json_is converted 28
    json_is losses "[]"
    expect 0 convert "$tmp/there" --layout kerf -o "$tmp/back" -y --json
    json_is losses "[]"
    same_file "$tmp/own/model.safetensors" "$tmp/back/model.safetensors"
    same_file "$tmp/own/config.json" "$tmp/back/config.json"
    check "$layout $format: equal in every plane" equal "$tmp/own" "$tmp/there"
    # What quantize writes there itself, but for fused scales, which these formats have not.
    "$KERF" quantize "$model" -f "$format" --layout "$layout" -o "$tmp/direct" -y 2>/dev/null
    same_file "$tmp/direct/model.safetensors" "$tmp/there/model.safetensors"
    same_file "$tmp/direct/config.json" "$tmp/there/config.json"
done <<'END'
modelopt mxfp8-e4m3
modelopt fp8-e4m3-row
modelopt fp8-e4m3-128x128
modelopt int8
compressed-tensors mxfp4
compressed-tensors fp8-e4m3-128x128
compressed-tensors int4-g128
compressed-tensors int4-g64-asym
compressed-tensors int8
deepseek fp8-e4m3-128x128
bitsandbytes nf4
bitsandbytes nf4-dq
bitsandbytes int8
gptq int4-g128-f16
gptq int4-g64
gptq int4-row
gptq int8-g128
gptq-v2 int4-g128-f16
gptq-v2 int4-g32-asym-f16
gptq-v2 int4-row-asym
gptq-v2 int8-g128-asym
END

# --- the reciprocal of a tensor scale -----------------------------------------------------------
"$KERF" quantize "$model" -f nvfp4 --layout modelopt -o "$tmp/mo" 2>/dev/null
expect 0 convert "$tmp/mo" --layout compressed-tensors -o "$tmp/ct" --json
lost=$(json 'losses.*' | grep -o '^[0-9]*')
expect 0 convert "$tmp/ct" --layout modelopt -o "$tmp/mo2" --json
json_is losses "[]"
differ=0
"$KERF" verify "$tmp/mo" "$tmp/mo2" >"$tmp/verify" || differ=$(grep -c 'differs from the source' "$tmp/verify")
check "counted $lost scales that do not turn back, $differ differ" test "${lost:-0}" = "$differ"
check "codes and block scales all turned back" test \
    "$(grep -c 'at byte 0$' "$tmp/verify")" = "$differ" # those of 4 bytes alone
expect 0 convert "$tmp/mo" --layout kerf -o "$tmp/own2" --json
json_is losses "[]"
expect 0 convert "$tmp/own2" --layout modelopt -o "$tmp/mo3"
same_file "$tmp/mo/model.safetensors" "$tmp/mo3/model.safetensors"
same_file "$tmp/mo/hf_quant_config.json" "$tmp/mo3/hf_quant_config.json"

# Scales of fused layers that were chosen alone are a loss where loaders merge them.
"$KERF" quantize "$model" -f nvfp4 -o "$tmp/alone" 2>/dev/null
expect 0 convert "$tmp/alone" --layout modelopt -o "$tmp/merged" --json
check "says that loaders merge scales" test "$(json 'losses.*' | grep -c 'groups of layers')" = 1

# --- what cannot move ---------------------------------------------------------------------------
# Scales that are not a 127th of any number: counted, and no more of them differ.
"$KERF" quantize "$model" -f int8:search -o "$tmp/s8" 2>/dev/null
expect 0 convert "$tmp/s8" --layout bitsandbytes -o "$tmp/scb" --json
lost=$(json 'losses.*' | grep -o '^[0-9]*')
expect 0 convert "$tmp/scb" --layout kerf -o "$tmp/s8b" --json
json_is losses "[]"
check "some scales have no SCB: $lost" test "${lost:-0}" -gt 0
"$KERF" dequantize "$tmp/s8" --dtype fp32 -o "$tmp/d1" -y 2>/dev/null
"$KERF" dequantize "$tmp/s8b" --dtype fp32 -o "$tmp/d2" -y 2>/dev/null
check "and show" test "$(cmp -l "$tmp/d1/model.safetensors" "$tmp/d2/model.safetensors" | wc -l)" -gt 0

# Zero points: version 1 of GPTQ has no 0, symmetric formats have none.
"$KERF" quantize "$model" -f int4-g128-asym-f16 --layout gptq-v2 -o "$tmp/g2" 2>/dev/null
expect 3 convert "$tmp/g2" --layout gptq -o "$tmp/x"
error_says 'has no place for 0'
expect 0 convert "$tmp/g2" --layout compressed-tensors -o "$tmp/g2ct" --json
json_is losses "[]"
expect 0 convert "$tmp/g2ct" --layout gptq-v2 -o "$tmp/g2back"
same_file "$tmp/g2/model.safetensors" "$tmp/g2back/model.safetensors"
same_file "$tmp/g2/quantize_config.json" "$tmp/g2back/quantize_config.json"

# Columns sorted by activation: their groups have no format.
"$KERF" quantize "$model" -f int4-g128-f16 --layout gptq -o "$tmp/act" 2>/dev/null
run inspect "$tmp/act" --planes --wide
at=$(awk '$1 == "model.layers.2.mlp.up_proj.g_idx" { print $NF }' "$tmp/out")
LC_ALL=C sed -i '1s/"kerf":"{/"gone":"{/' "$tmp/act/model.safetensors"
printf '\1' | dd of="$tmp/act/model.safetensors" bs=1 seek="$at" conv=notrunc 2>/dev/null
expect 3 convert "$tmp/act" --layout compressed-tensors -o "$tmp/x"
error_says 'up_proj.g_idx is not in order: columns were sorted by activation (desc_act)'
error_says '"desc_act": true in config.json'
expect 3 dequantize "$tmp/act" -o "$tmp/x"
error_says 'desc_act'
absent "$tmp/x"
# Where config.json says so they are read as numbers, and one of them, which is not the first weight, is
# enough: codes that are in order would move beside it.
sed -i 's/"desc_act": false/"desc_act": true/' "$tmp/act"/*.json
expect 3 convert "$tmp/act" --layout compressed-tensors -o "$tmp/x"
error_says 'layers.2.mlp.up_proj.weight: no layout has a place for codes as these are (int4-sorted-f16): kerf quantize'
absent "$tmp/x"
expect 0 quantize "$tmp/act" -f int4-g128 --layout compressed-tensors -o "$tmp/x"
rm -r "$tmp/x"

# --- files, shards, refusals --------------------------------------------------------------------
expect 0 convert "$tmp/mo/model.safetensors" --layout kerf -o "$tmp/file.safetensors"
expect 0 verify "$tmp/mo" "$tmp/file.safetensors"
"$TOOLS/make_model" shards "$tmp/shards"
"$KERF" quantize "$tmp/shards" -f int8 -o "$tmp/q" 2>/dev/null
expect 0 convert "$tmp/q" --layout compressed-tensors -o "$tmp/q2"
expect 0 convert "$tmp/q2" --layout kerf -o "$tmp/q3"
for f in "$tmp/q"/*.safetensors; do same_file "$f" "$tmp/q3/${f##*/}"; done
same_file "$tmp/q/model.safetensors.index.json" "$tmp/q3/model.safetensors.index.json"
expect 3 convert "$tmp/mo" --layout deepseek -o "$tmp/x"
error_says 'does not take nvfp4'
expect 3 convert "$model" --layout modelopt -o "$tmp/x"
error_says 'holds no quantized tensor'
expect 2 convert "$tmp/mo" -o "$tmp/x"
expect 2 convert "$tmp/mo" --layout kerf
expect 2 convert "$tmp/mo" --layout kerf -o "$tmp/mo" -y
absent "$tmp/x"
# --- scales of inputs ---------------------------------------------------------------------------
# Whoever calibrated them has them in the source; they move with their layers, and loaders are told.
config() { "$TOOLS/json_get" "$2" <"$1/config.json"; }
q=quantization_config
"$TOOLS/make_model" inputs "$tmp/inputs"
echo '{}' >"$tmp/inputs/config.json"
for pair in nvfp4=NVFP4 fp8-e4m3=FP8; do
    format=${pair%=*}
    rm -rf "$tmp"/in-*
    expect 0 quantize "$tmp/inputs" -f "$format" --layout modelopt -o "$tmp/in-mo"
    check "$format: algorithm" test "$(config "$tmp/in-mo" $q.quant_algo)" = "${pair#*=}"
    check "$format: algorithm in its file" test \
        "$("$TOOLS/json_get" quantization.quant_algo <"$tmp/in-mo/hf_quant_config.json")" = "${pair#*=}"
    expect 0 inspect "$tmp/in-mo" --json
    json_is findings "[]"
    [ "$format" != nvfp4 ] || expect 3 quantize "$tmp/inputs" -f nvfp4 --layout compressed-tensors -o "$tmp/x"
    [ "$format" != nvfp4 ] || error_says 'calls the scale of inputs X.input_global_scale, the source has X.input_scale'
    expect 0 convert "$tmp/in-mo" --layout compressed-tensors -o "$tmp/in-ct" --json
    json_is losses "[]"
    expect 0 inspect "$tmp/in-ct" --json
    json_is findings "[]"
    expect 0 convert "$tmp/in-ct" --layout modelopt -o "$tmp/in-back" --json
    json_is losses "[]"
    same_file "$tmp/in-mo/model.safetensors" "$tmp/in-back/model.safetensors"
    same_file "$tmp/in-mo/config.json" "$tmp/in-back/config.json"
    expect 0 convert "$tmp/in-mo" --layout kerf -o "$tmp/in-own" --json
    check "$format: kerf keeps them as they are" test "$(json 'losses.*' | grep -c '^3 scales of activations')" = 1
    expect 0 convert "$tmp/in-own" --layout modelopt -o "$tmp/in-back" -y
    same_file "$tmp/in-mo/model.safetensors" "$tmp/in-back/model.safetensors"
    case $format in
    nvfp4)
        check "$format: what finds scales of blocks" test \
            "$(config "$tmp/in-ct" $q.config_groups.group_0.input_activations.dynamic)" = local
        "$KERF" inspect "$tmp/in-ct" --planes --wide >"$tmp/out"
        output_says '^layers.0.mlp.up_proj.input_global_scale *F32 *1 '
        ;;
    *)
        check "$format: static" test \
            "$(config "$tmp/in-ct" $q.config_groups.group_0.input_activations.strategy)" = tensor
        "$KERF" inspect "$tmp/in-ct" --planes --wide >"$tmp/out"
        output_says '^layers.0.mlp.up_proj.input_scale *F32 *1 '
        ;;
    esac
done
finish
