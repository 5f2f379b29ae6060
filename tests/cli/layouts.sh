#!/usr/bin/env bash
# layouts.sh - checkpoints as other programs name them: what is written, that it is read back
# equal with and without kerf's own description, and what is refused.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# has NAME DTYPE SHAPE: the last inspect --json holds such a stored tensor.
has() {
    local got
    checks=$((checks + 1))
    got=$(paste <(json 'weights.*.planes.*.name') <(json 'weights.*.planes.*.dtype') |
        awk -F '\t' -v n="$1" '$1 == n { print $2 }')
    [ "$got" = "$2" ] || note_failure "tensor $1 is '$got', not $2"
}

# Drops kerf's description from a file, as a program would that knows nothing of it. The key is
# overwritten in place by one of the same length that nobody reads.
forget() {
    LC_ALL=C sed -i '1s/"kerf":"{/"gone":"{/' "$1/model.safetensors"
}

config() { "$TOOLS/json_get" "$2" <"$1/config.json"; }

last=
while read -r layout format; do
    [ "$layout" != "$last" ] || in_turn || continue # each layout at least once
    last=$layout out=$tmp/$layout-$format
    "$KERF" quantize "$model" -f "$format" -o "$tmp/own-$format" -y 2>/dev/null
    expect 0 quantize "$model" -f "$format" --layout "$layout" -o "$out"
    expect 0 verify "$model" "$out"
    expect 0 inspect "$out" --json
    json_is totals.quantized 28
    check "$layout $format: kept its layout" test "$(json 'weights.*.layout' | grep -c "^$layout$")" = 28
    same_file "$out/tokenizer.json" "$model/tokenizer.json"
    case $format in
    nvfp4 | fp8-e4m3) ;; # fused layers share a scale there
    *) # the numbers are those of layout kerf
        "$KERF" dequantize "$tmp/own-$format" -o "$tmp/a" -y 2>/dev/null
        "$KERF" dequantize "$out" -o "$tmp/b" -y 2>/dev/null
        same_file "$tmp/a/model.safetensors" "$tmp/b/model.safetensors"
        ;;
    esac
    "$KERF" dequantize "$out" -o "$tmp/described" -y 2>/dev/null
    forget "$out"
    expect 0 inspect "$out" --json
    json_is totals.quantized 28
    "$KERF" dequantize "$out" -o "$tmp/recognized" -y 2>/dev/null
    expect 0 verify "$tmp/described" "$tmp/recognized"
    expect 0 verify "$out" "$tmp/described"
    check "$layout $format: no quantization left" test "$(grep -c quantization_config "$tmp/described/config.json")" = 0
    rm -rf "$out" "$tmp/own-$format"
done <<'END'
modelopt nvfp4
modelopt fp8-e4m3-row
modelopt fp8-e4m3-128x128
modelopt mxfp8-e4m3
modelopt int8
compressed-tensors nvfp4
compressed-tensors mxfp4
compressed-tensors mxfp8-e4m3
compressed-tensors fp8-e4m3
compressed-tensors fp8-e4m3-row
compressed-tensors fp8-e4m3-128x128
compressed-tensors-naive fp8-e4m3-row
compressed-tensors-naive fp8-e4m3-128x128
compressed-tensors-naive fp8-e4m3
compressed-tensors int8
compressed-tensors int4-g128
compressed-tensors int4-g32-asym
compressed-tensors int4-row-asym
compressed-tensors int8-g128
compressed-tensors int8-g128-asym
compressed-tensors int2-g64
deepseek fp8-e4m3-128x128
bitsandbytes nf4
bitsandbytes nf4-dq
bitsandbytes int8
gptq int4-g128-f16
gptq int4-g64
gptq int4-row
gptq int8-g128
gptq-v2 int4-g32-f16
gptq-v2 int4-row-asym
gptq-v2 int4-g128-asym-f16
gptq-v2 int8-g128-asym
END

# --- what loaders are told ----------------------------------------------------------------------
"$KERF" quantize "$model" -f nvfp4 --layout compressed-tensors -o "$tmp/ct" 2>/dev/null
check "config: method" test "$(config "$tmp/ct" quantization_config.quant_method)" = compressed-tensors
check "config: format" test "$(config "$tmp/ct" quantization_config.format)" = nvfp4-pack-quantized
check "config: every layer that is not quantized" test \
    "$(config "$tmp/ct" 'quantization_config.ignore.*' | paste -sd,)" = model.embed_tokens,lm_head
check "config: the model's own keys" test "$(config "$tmp/ct" hidden_size)" = 256
expect 0 inspect "$tmp/ct" --json
has model.layers.0.mlp.up_proj.weight_packed U8
has model.layers.0.mlp.up_proj.weight_scale F8_E4M3
has model.layers.0.mlp.up_proj.weight_global_scale F32
json_is findings "[]"

"$KERF" quantize "$model" -f nvfp4 --layout modelopt --keep '*layers.0.*' -o "$tmp/mo" 2>/dev/null
check "hf_quant_config.json: algorithm" test \
    "$("$TOOLS/json_get" quantization.quant_algo <"$tmp/mo/hf_quant_config.json")" = W4A16_NVFP4
check "hf_quant_config.json: kept layers" test \
    "$("$TOOLS/json_get" 'quantization.exclude_modules.*' <"$tmp/mo/hf_quant_config.json" | grep -c '^model.layers.0')" = 7

# Algorithms are spelled as Model-Optimizer does it; integers of weights alone are W8A16 there.
for pair in int8:W8A16 fp8-e4m3-128x128:fp8_pb_wo mxfp8-e4m3:MXFP8; do
    "$KERF" quantize "$model" -f "${pair%:*}" --layout modelopt -o "$tmp/mo-${pair%:*}" 2>/dev/null
    check "config: algorithm of ${pair%:*}" test \
        "$(config "$tmp/mo-${pair%:*}" quantization_config.quant_algo)" = "${pair#*:}"
    check "hf_quant_config.json: algorithm of ${pair%:*}" test \
        "$("$TOOLS/json_get" quantization.quant_algo <"$tmp/mo-${pair%:*}/hf_quant_config.json")" = "${pair#*:}"
done
check "modelopt int8: type" test "$(config "$tmp/mo-int8" quantization_config.config_groups.group_0.weights.type)" = int
expect 0 inspect "$tmp/mo-int8" --json
has model.layers.1.mlp.up_proj.weight I8
has model.layers.1.mlp.up_proj.weight_scale F32
json_is findings "[]"

# Formats can be mixed where the loaders can be told, with modules by name.
"$KERF" quantize "$model" -f nvfp4 --tensor '*down_proj*=int8' --layout compressed-tensors \
    -o "$tmp/mixed" 2>/dev/null
check "mixed: format" test "$(config "$tmp/mixed" quantization_config.format)" = mixed-precision
check "mixed: targets" test "$(config "$tmp/mixed" 'quantization_config.config_groups.*.targets.*' | grep -c down_proj)" = 4
expect 0 verify "$model" "$tmp/mixed"

# --- what other loaders are told ----------------------------------------------------------------
"$KERF" quantize "$model" -f int4-g128-f16:gptq --layout gptq --keep '*layers.0.*' -o "$tmp/gptq" 2>/dev/null
q=quantization_config
check "gptq: method" test "$(config "$tmp/gptq" $q.quant_method)" = gptq
check "gptq: version" test "$(config "$tmp/gptq" $q.checkpoint_format)" = gptq
check "gptq: bits, group" test "$(config "$tmp/gptq" $q.bits)$(config "$tmp/gptq" $q.group_size)" = 4128
check "gptq: symmetric" test "$(config "$tmp/gptq" $q.sym)$(config "$tmp/gptq" $q.desc_act)" = truefalse
check "gptq: kept layers" test "$(grep -c '"-:^model\\\\.layers\\\\.0\\\\.' "$tmp/gptq/config.json")" = 7
check "gptq: its own file" test "$("$TOOLS/json_get" checkpoint_format <"$tmp/gptq/quantize_config.json")" = gptq
expect 0 inspect "$tmp/gptq" --json
has model.layers.1.mlp.up_proj.qweight I32
has model.layers.1.mlp.up_proj.scales F16
has model.layers.1.mlp.up_proj.qzeros I32
has model.layers.1.mlp.up_proj.g_idx I32
json_is findings "[]"
"$KERF" quantize "$model" -f int4-g64-asym --layout gptq-v2 -o "$tmp/gptq2" 2>/dev/null
check "gptq-v2: version" test "$(config "$tmp/gptq2" $q.checkpoint_format)" = gptq_v2
check "gptq-v2: asymmetric" test "$(config "$tmp/gptq2" $q.sym)" = false
expect 3 quantize "$model" -f int4-g64-asym --layout gptq -o "$tmp/x"
error_says 'has no place for 0; layout gptq-v2 has'
expect 3 quantize "$model" -f int4-g128-asym-f16 --layout awq -o "$tmp/x"
error_says 'AutoAWQ is no longer made'

"$KERF" quantize "$model" -f int8:bnb --layout bitsandbytes -o "$tmp/bnb" 2>/dev/null
check "bitsandbytes int8: config" test \
    "$(config "$tmp/bnb" $q.load_in_8bit)$(config "$tmp/bnb" $q.load_in_4bit)" = truefalse
check "bitsandbytes int8: kept layers" test \
    "$(config "$tmp/bnb" "$q.llm_int8_skip_modules.*" | paste -sd,)" = model.embed_tokens,lm_head
expect 0 inspect "$tmp/bnb" --json
has model.layers.1.mlp.up_proj.weight I8
has model.layers.1.mlp.up_proj.SCB F32
has model.layers.1.mlp.up_proj.weight_format U8
json_is findings "[]"

# naive-quantized is another word for the tensors of float-quantized and int-quantized, of weights
# alone.
"$KERF" quantize "$model" -f fp8-e4m3-row --layout compressed-tensors-naive -o "$tmp/alone8" 2>/dev/null
check "naive: format" test "$(config "$tmp/alone8" $q.format)" = naive-quantized
check "naive: method" test "$(config "$tmp/alone8" $q.quant_method)" = compressed-tensors
check "naive: activations" test "$(config "$tmp/alone8" $q.config_groups.group_0.input_activations)" = null
expect 0 inspect "$tmp/alone8" --json
json_is findings "[]"
expect 0 convert "$tmp/alone8" --layout compressed-tensors -o "$tmp/with8" --json
json_is losses "[]"
"$KERF" quantize "$model" -f fp8-e4m3-row --layout compressed-tensors -o "$tmp/own8" 2>/dev/null
same_file "$tmp/own8/model.safetensors" "$tmp/with8/model.safetensors"
same_file "$tmp/own8/config.json" "$tmp/with8/config.json"
expect 3 quantize "$model" -f int8 --layout compressed-tensors-naive -o "$tmp/x"
error_says 'layout compressed-tensors has them'
"$KERF" quantize "$model" -f fp8-e4m3-row:ct --layout compressed-tensors -o "$tmp/naive" 2>/dev/null
forget "$tmp/naive"
expect 0 inspect "$tmp/naive" --json
json_is findings "[]"
sed -i 's/float-quantized/naive-quantized/' "$tmp/naive/config.json"
expect 0 inspect "$tmp/naive" --json
json_is totals.quantized 28
json_is findings "[]"

# --- experts ------------------------------------------------------------------------------------
"$TOOLS/make_model" moe "$tmp/moe"
echo '{"model_type": "gpt_oss"}' >"$tmp/moe/config.json"
expect 0 quantize "$tmp/moe" -f mxfp4 --layout gpt-oss -o "$tmp/oss"
expect 0 verify "$tmp/moe" "$tmp/oss"
expect 0 inspect "$tmp/oss" --json
json_is totals.quantized 4 # those of layer 0 were stacked
json_is findings "[]"
has layers.1.mlp.experts.gate_up_proj_blocks U8
has layers.1.mlp.experts.gate_up_proj_scales U8
check "gpt-oss: method" test "$(config "$tmp/oss" $q.quant_method)" = mxfp4
check "gpt-oss: kept layers" test \
    "$(config "$tmp/oss" "$q.modules_to_not_convert.*" | paste -sd,)" = layers.0.self_attn.q_proj,lm_head
expect 0 inspect "$tmp/oss" --planes
output_says '^layers.1.mlp.experts.gate_up_proj_blocks *U8 *4x64x2x16 '
output_says '^layers.1.mlp.experts.gate_up_proj_scales *U8 *4x64x2 '
"$KERF" quantize "$tmp/moe" -f mxfp4 --only '*experts*' -o "$tmp/own-oss" 2>/dev/null
expect 0 convert "$tmp/own-oss" --layout gpt-oss -o "$tmp/oss2"
same_file "$tmp/oss/model.safetensors" "$tmp/oss2/model.safetensors"
same_file "$tmp/oss/config.json" "$tmp/oss2/config.json"
expect 0 dequantize "$tmp/oss" -o "$tmp/oss-plain"
error_says 'note: stacked experts are'
forget "$tmp/oss"
expect 0 convert "$tmp/oss" --layout kerf -o "$tmp/own-oss2"
cp -r "$tmp/oss" "$tmp/oss-makers"
LC_ALL=C sed -i '1s/_proj_blocks/_proj.blocks/g; 1s/_proj_scales/_proj.scales/g' "$tmp/oss-makers/model.safetensors"
expect 1 inspect "$tmp/oss-makers" --json
check "blocks and scales of both are strays" test "$(json 'findings.*.tensor' | grep -c '_proj[.]')" = 8
expect 3 dequantize "$tmp/oss-makers" -o "$tmp/x"
expect 0 verify "$tmp/own-oss" "$tmp/own-oss2"
expect 3 convert "$tmp/oss" --layout modelopt -o "$tmp/x"
error_says 'layout modelopt does not take mxfp4'
expect 3 quantize "$tmp/moe" -f mxfp4 --layout gpt-oss --keep '*down_proj' -o "$tmp/x"
error_says 'experts of a layer are one module'
"$TOOLS/make_model" turned "$tmp/turned.safetensors"
expect 0 quantize "$tmp/turned.safetensors" -f mxfp4 --layout gpt-oss -o "$tmp/turned-oss"
expect 0 verify "$tmp/turned.safetensors" "$tmp/turned-oss"
expect 0 inspect "$tmp/turned.safetensors" --json
row_is weights layers.0.mlp.experts.gate_up_proj orientation in,out

# One by one they are layers like others, in every layout of matrices; stacks are taken apart, but
# for transformers, which stacks them itself.
while read -r layout format count; do
    in_turn || continue
    expect 0 quantize "$tmp/moe" -f "$format" --layout "$layout" -o "$tmp/q" -y
    expect 0 verify "$tmp/moe" "$tmp/q"
    expect 0 inspect "$tmp/q" --json
    json_is findings "[]"
    json_is totals.quantized "$count"
    expect 0 convert "$tmp/q" --layout kerf -o "$tmp/q2" -y
    expect 0 convert "$tmp/q2" --layout "$layout" -o "$tmp/q3" -y
    expect 0 verify "$tmp/q" "$tmp/q3"
    same_file "$tmp/q/config.json" "$tmp/q3/config.json"
    [ "$count" -gt 13 ] || check "$layout $format: stacked experts are named" grep -q 'layers[.\\]*1[.\\]*mlp[.\\]*experts["$]' "$tmp/q/config.json"
    expect 3 quantize "$tmp/moe" -f "$format" --layout "$layout" --keep '*experts.2.*' -o "$tmp/x"
    error_says 'experts of a layer are one module'
done <<'END'
modelopt nvfp4 25
modelopt mxfp8-e4m3 25
compressed-tensors nvfp4 25
compressed-tensors mxfp4 25
compressed-tensors int4-g32 25
gptq int4-g32-f16 25
gptq-v2 int4-g32-asym 25
bitsandbytes int8 13
bitsandbytes nf4 13
END
gate=layers.0.mlp.experts.1.gate_proj up=layers.0.mlp.experts.1.up_proj
"$KERF" quantize "$tmp/moe" -f nvfp4 --layout modelopt -o "$tmp/moe-mo" 2>/dev/null

# The same experts in every form become the same bytes, and one form is converted into the other.
for form in single stacked turned oss oss-single oss-turned; do
    "$TOOLS/make_model" experts "$tmp/x-$form" $form
    echo '{}' >"$tmp/x-$form/config.json"
    for format in nvfp4 fp8-e4m3-128x128 int4-g32-asym; do
        expect 0 quantize "$tmp/x-$form" -f $format --layout compressed-tensors -o "$tmp/x-$form-$format"
        expect 0 verify "$tmp/x-$form" "$tmp/x-$form-$format"
        case $form in
        oss*) same_file "$tmp/x-oss-$format/model.safetensors" "$tmp/x-$form-$format/model.safetensors" ;;
        *) same_file "$tmp/x-single-$format/model.safetensors" "$tmp/x-$form-$format/model.safetensors" ;;
        esac
    done
    expect 0 quantize "$tmp/x-$form" -f mxfp4 --layout compressed-tensors -o "$tmp/x-$form-ct"
    expect 0 quantize "$tmp/x-$form" -f mxfp4 --layout gpt-oss -o "$tmp/x-$form-oss"
    expect 0 verify "$tmp/x-$form" "$tmp/x-$form-oss"
    expect 0 inspect "$tmp/x-$form-oss" --json
    json_is totals.quantized 2
done
for form in oss-single oss-turned; do
    same_file "$tmp/x-oss-oss/model.safetensors" "$tmp/x-$form-oss/model.safetensors"
    same_file "$tmp/x-oss-oss/config.json" "$tmp/x-$form-oss/config.json"
done
expect 0 convert "$tmp/x-oss-oss" --layout compressed-tensors -o "$tmp/c1"
same_file "$tmp/x-oss-ct/model.safetensors" "$tmp/c1/model.safetensors"
same_file "$tmp/x-oss-ct/config.json" "$tmp/c1/config.json"
expect 0 verify "$tmp/x-oss-oss" "$tmp/c1"
expect 0 convert "$tmp/c1" --layout gpt-oss -o "$tmp/c2"
same_file "$tmp/x-oss-oss/model.safetensors" "$tmp/c2/model.safetensors"
expect 0 verify "$tmp/c1" "$tmp/c2"
"$KERF" quantize "$tmp/x-stacked" -f nvfp4 -o "$tmp/own-stacked" 2>/dev/null
expect 0 convert "$tmp/own-stacked" --layout compressed-tensors -o "$tmp/c3"
same_file "$tmp/x-single-nvfp4/model.safetensors" "$tmp/c3/model.safetensors"
# Patterns for a stack mean its experts; what --keep names stays whole.
expect 0 quantize "$tmp/moe" -f nvfp4 --layout compressed-tensors --keep '*layers.1.*experts.*_proj' -o "$tmp/k" --json
check "what is kept stays a stack" test "$(json 'tensors.*.name' | grep -c 'layers.1.mlp.experts')" = 3
expect 0 quantize "$tmp/x-stacked" -f nvfp4 --tensor '*experts.gate_up_proj=mxfp4' --tensor '*experts.down_proj=mxfp4' \
    --layout compressed-tensors --dry-run --json
row_is tensors layers.0.mlp.experts.2.up_proj.weight format mxfp4:even
# Experts that are not all there, or of another shape, stay as they are.
LC_ALL=C sed 's/experts.2.up_proj.weight/experts.7.up_proj.weight/' "$tmp/x-oss-single/model.safetensors" >"$tmp/few.safetensors"
expect 0 quantize "$tmp/few.safetensors" -f mxfp4 --layout compressed-tensors -o "$tmp/few-ct"
expect 2 quantize "$tmp/few.safetensors" -f mxfp4 --layout gpt-oss -o "$tmp/x"

# --- one scale for fused layers -----------------------------------------------------------------
# The largest of the scales that the members have alone, and no other difference in the way it is
# chosen: the member with the largest magnitude keeps its bytes.
second() { # FOLDER NAME
    "$KERF" inspect "$1" --json >"$tmp/out"
    local at file
    at=$(paste <(json 'weights.*.planes.*.name') <(json 'weights.*.planes.*.offset') |
        awk -F '\t' -v n="$2" '$1 == n { print $2 }')
    file=$1/model.safetensors
    od -An -tf4 -j "$at" -N 4 "$file" | tr -d ' '
}
"$KERF" quantize "$model" -f nvfp4 -o "$tmp/alone" 2>/dev/null
"$KERF" quantize "$model" -f nvfp4 --layout modelopt -o "$tmp/fused" 2>/dev/null
for block in 'self_attn q_proj k_proj v_proj' 'mlp gate_proj up_proj'; do
    # shellcheck disable=SC2086
    set -- $block
    part=$1 && shift
    alone=$(for m in "$@"; do second "$tmp/alone" "model.layers.1.$part.$m.weight_scale_2"; done | sort -g | tail -n 1)
    for m in "$@"; do
        got=$(second "$tmp/fused" "model.layers.1.$part.$m.weight_scale_2")
        check "$m shares the largest scale of its group: $got, $alone" test "$got" = "$alone"
    done
done

check "experts share the scale of gate and up" test "$(second "$tmp/moe-mo" $gate.weight_scale_2)" = \
    "$(second "$tmp/moe-mo" $up.weight_scale_2)"

# --- what inspect finds -------------------------------------------------------------------------
# A tensor that lost its name, as after a wrong merge of shards: the rest is no weight any more.
cp -r "$tmp/ct" "$tmp/stray"
forget "$tmp/stray"
LC_ALL=C sed -i '1s/layers.1.mlp.up_proj.weight_global_scale/layers.1.mlp.up_proj.weight_global_scalX/' \
    "$tmp/stray/model.safetensors"
expect 1 inspect "$tmp/stray" --json
json_is totals.quantized 27
check "codes and scales are both named" test "$(json 'findings.*.tensor' | sort | paste -sd,)" = \
    model.layers.1.mlp.up_proj.weight_packed,model.layers.1.mlp.up_proj.weight_scale
cp "$tmp/mo/config.json" "$tmp/stray/config.json"
cp "$tmp/ct/model.safetensors" "$tmp/stray/model.safetensors"
expect 1 inspect "$tmp/stray"
output_says 'is in layout compressed-tensors, but config.json names modelopt'
cp "$model/config.json" "$tmp/stray/config.json"
expect 1 inspect "$tmp/stray"
output_says 'config.json names none'

# --- refusals -----------------------------------------------------------------------------------
expect 2 quantize "$model" -f nvfp4 --layout model-optimum -o "$tmp/x"
error_says 'expected one of kerf, modelopt'
expect 3 quantize "$model" -f nf4 --layout compressed-tensors -o "$tmp/x"
error_says 'does not take nf4'
expect 3 quantize "$model" -f fp8-e4m3 --layout modelopt -o "$tmp/x"
error_says 'input scale'
expect 2 quantize "$model" -f nvfp4 --layout modelopt --keep '*q_proj*' -o "$tmp/x"
error_says 'one matrix to the loaders'
expect 3 quantize "$model" -f nvfp4 --tensor '*down_proj*=int8' --layout modelopt -o "$tmp/x"
error_says 'int8 for a whole checkpoint alone, here is nvfp4 too'
expect 3 quantize "$model" -f nf4 --tensor '*down_proj*=int8:bnb' --layout bitsandbytes -o "$tmp/x"
error_says 'one format for a whole checkpoint'
expect 3 quantize "$tmp/ct" -f nvfp4 -o "$tmp/x"
error_says 'in layout compressed-tensors'
"$TOOLS/make_model" odd "$tmp/odd.safetensors"
expect 2 quantize "$tmp/odd.safetensors" -f nvfp4 --tensor 'experts*=nvfp4' --layout modelopt -o "$tmp/x"
error_says 'matrices only'
expect 0 quantize "$tmp/odd.safetensors" -f fp8-e4m3-row --layout compressed-tensors --dry-run --json
row_is tensors experts.down_proj.weight reason "layout compressed-tensors takes matrices only"
row_is tensors tail.weight format fp8-e4m3-row:amax
"$KERF" quantize "$model" -f nvfp4 --layout compressed-tensors --keep '*layers.0.*' -o "$tmp/some" 2>/dev/null
expect 0 quantize "$tmp/some/model.safetensors" -f int8 --layout compressed-tensors --dry-run --json
row_is tensors model.layers.0.mlp.up_proj.weight format int8:amax
absent "$tmp/x"
# Embeddings, which no layer multiplies by: loaders look them up as they are.
while read -r layout format; do
    expect 2 quantize "$model" -f "$format" --tensor "*embed_tokens*=$format" --layout "$layout" -o "$tmp/x"
    error_says "layout $layout: its loaders take no quantized embedding; layouts kerf and gguf do; --tensor 'model.embed_tokens.weight=keep'"
    absent "$tmp/x"
    [ "$layout" != gpt-oss ] || continue # which has no other matrices
    expect 0 quantize "$model" -f "$format" --tensor '*=keep' --tensor "*embed_tokens*=$format" \
        --tensor '*up_proj*='"$format" --tensor '*gate_proj*='"$format" \
        --tensor 'model.embed_tokens.weight=keep' --layout "$layout" --dry-run
done <<'END'
compressed-tensors nvfp4
compressed-tensors int4-g128
compressed-tensors-naive fp8-e4m3-row
modelopt nvfp4
gptq int4-g128
gptq-v2 int4-g128
bitsandbytes nf4
deepseek fp8-e4m3-128x128
gpt-oss mxfp4
END
expect 0 quantize "$model" -f nvfp4 --tensor '*embed_tokens*=nvfp4' -o "$tmp/looked"
expect 0 quantize "$model" -f q4_k --tensor '*embed_tokens*=q6_k' -o "$tmp/looked.gguf"
expect 0 inspect "$tmp/looked.gguf" --json
row_is weights token_embd.weight format q6_k
expect 3 convert "$tmp/looked" --layout compressed-tensors -o "$tmp/x"
error_says 'embed_tokens.weight: loaders of layout compressed-tensors take no quantized embedding: kerf dequantize makes'
absent "$tmp/x"
cp -r "$model" "$tmp/bad"
echo '{"a": [1, 2' >"$tmp/bad/config.json"
expect 3 quantize "$tmp/bad" -f nvfp4 --layout modelopt -o "$tmp/x"
absent "$tmp/x"
finish
