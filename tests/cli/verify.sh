#!/usr/bin/env bash
# verify.sh - the gate passes what is right and stops what is not, with and without limits.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$model/model.safetensors
"$KERF" quantize "$source" -f nvfp4:4/6 -o "$tmp/good.safetensors" 2>/dev/null
"$KERF" quantize "$source" -f nvfp4:amax -o "$tmp/worse.safetensors" 2>/dev/null

expect 0 verify "$source" "$tmp/good.safetensors"
output_says '^passed: 28 tensors measured, 10 equal'
expect 0 verify "$source" "$tmp/good.safetensors" --json
json_is schema kerf.verify/1
json_is pass true
json_is tensors.# 38
expect 0 verify "$source" "$source"
output_says '^passed: 0 tensors measured, 38 equal'

# --- limits -------------------------------------------------------------------------------------
expect 0 verify "$source" "$tmp/good.safetensors" --write-limits "$tmp/limits.json"
expect 0 verify "$source" "$tmp/good.safetensors" --limits "$tmp/limits.json"
expect 1 verify "$source" "$tmp/worse.safetensors" --limits "$tmp/limits.json"
output_says '^over its limit '
output_says '^failed: '
expect 1 verify "$source" "$tmp/worse.safetensors" --limits "$tmp/limits.json" --json
json_is pass false
check "what is over, and by how much" test "$(json 'tensors.*.over.*.measured' | wc -l)" -ge 28
expect 4 verify "$source" "$tmp/good.safetensors" --write-limits "$tmp/limits.json"
expect 0 verify "$source" "$tmp/good.safetensors" --write-limits "$tmp/limits.json" -y

limits() { # EXPECTED-CODE TEXT
    echo "$2" >"$tmp/l.json"
    expect "$1" verify "$source" "$tmp/good.safetensors" --limits "$tmp/l.json"
}
limits 3 '{"schema": "kerf.limits/1"}'
limits 3 '{"schema": "kerf.limits/1", "tensors": {"*": {}}}'
limits 0 '{"schema": "kerf.limits/1", "default": {"t2": 0.01}}'
limits 1 '{"schema": "kerf.limits/1", "default": {"t2": 0.001}}'
limits 1 '{"schema": "kerf.limits/1", "default": {"bias": 0.0001}}'
limits 1 '{"schema": "kerf.limits/1", "default": {"max_error": 0.01}}'
limits 1 '{"schema": "kerf.limits/1", "default": {"bpw": 4}}'
limits 0 '{"schema": "kerf.limits/1", "tensors": {"*.mlp.*": {"bpw": 4.5}}}' # as the table has it, to three digits
limits 1 '{"schema": "kerf.limits/1", "default": {"t2": 0.1}, "tensors": {"*v_proj*": {"t2": 0.001}}}'
limits 0 '{"schema": "kerf.limits/1", "default": {"t2": 0.001}, "tensors": {"*": {"t2": 0.1}}}'
limits 2 '{"schema": "kerf.limits/1", "default": {"t2": 0.1}, "tensors": {"*v_projj*": {"t2": 0.001}}}'
error_says 'the limits for \*v_projj\* match no tensor; kerf inspect .* lists them'
limits 2 '{"schema": "kerf.limits/1", "tensors": {"*": {"t2": 0.1}, "model.layers.0.mlp.up_proj": {"t2": 0.001}}}'
limits 3 '{"schema": "kerf.limits/1", "tensors": {"*norm*": {"t2": 0.1}}}'
error_says 'the limits match none of the .* tensors that were measured'
limits 3 '{"schema": "kerf.limits/2"}'
limits 3 '{"schema": "kerf.limits/1", "default": {"mse": 1}}'
error_says 'unknown figure "mse"'
limits 3 '{"schema": "kerf.limits/1", "default": {"t2": "low"}}'
limits 3 '{"schema": "kerf.limits/1", "default": {"t2": -1}}'
limits 3 '{"schema": "kerf.limits/1", "tensor": {}}'
limits 3 '{"schema": "kerf.limits/1"'
limits 3 '[]'
expect 4 verify "$source" "$tmp/good.safetensors" --limits "$tmp/none.json"

# --- structure ----------------------------------------------------------------------------------
"$TOOLS/make_model" groups "$tmp/groups.safetensors"
expect 1 verify "$source" "$tmp/groups.safetensors"
output_says 'model.norm.weight: is missing'
output_says 'vision_tower.proj.weight: is not in the source'

# One byte of a kept tensor, then one of the codes and one of the scales.
flip() { # TENSOR: the first byte of a tensor of good.safetensors becomes 0x7f
    local offset
    cp "$tmp/good.safetensors" "$tmp/flipped.safetensors"
    offset=$("$KERF" inspect "$tmp/good.safetensors" --planes --wide | awk -v t="$1" '$1 == t { print $NF }')
    printf '\177' | dd of="$tmp/flipped.safetensors" bs=1 seek="$offset" conv=notrunc 2>/dev/null
}
flip model.norm.weight
expect 1 verify "$source" "$tmp/flipped.safetensors"
output_says 'model.norm.weight: differs from the source at byte 0'
flip model.layers.0.mlp.up_proj.weight
expect 1 verify "$tmp/good.safetensors" "$tmp/flipped.safetensors"
output_says 'up_proj.weight: differs'
flip model.layers.0.mlp.up_proj.weight_scale
expect 1 verify "$source" "$tmp/flipped.safetensors"
output_says 'decoded elements are NaN'

# A decoding that is not the exact one.
"$KERF" dequantize "$tmp/good.safetensors" -o "$tmp/restored.safetensors" 2>/dev/null
expect 0 verify "$tmp/good.safetensors" "$tmp/restored.safetensors"
expect 1 verify "$tmp/worse.safetensors" "$tmp/restored.safetensors"
output_says 'is not the decoding of the source: first differs at element'
expect 1 verify "$source" "$tmp/restored.safetensors"
expect 0 verify "$source" "$tmp/restored.safetensors" --by-value
limits=$tmp/l.json
echo '{"schema": "kerf.limits/1", "default": {"t2": 0.005}}' >"$limits"
expect 1 verify "$source" "$tmp/restored.safetensors" --by-value --limits "$limits"
# Numbers that are equal on both sides and none: said, and no loss.
cp -r "$model" "$tmp/nan"
norm=model.layers.1.input_layernorm.weight
at=$("$KERF" inspect "$model" --planes --wide | awk -v n="$norm" '$1 == n { print $NF }')
printf '\377\377' | dd of="$tmp/nan/model.safetensors" bs=1 seek="$at" conv=notrunc 2>/dev/null
expect 0 quantize "$tmp/nan" -f int8 -o "$tmp/nan8"
expect 0 verify "$tmp/nan" "$tmp/nan8"
output_says "^note: $norm has NaN or Inf, in the source as well"
expect 0 verify "$tmp/nan" "$tmp/nan8" --json
json_is nonfinite 1
expect 0 dequantize "$tmp/nan8" -o "$tmp/nan16"
error_says "^note: $norm has NaN or Inf in the output"
expect 0 verify "$tmp/nan8" "$tmp/nan16"
output_says "^note: $norm has NaN or Inf"
expect 0 verify "$model" "$model" --json
json_is nonfinite 0
# --- NaN of the source, which quantize was told to make something of ---------------------------------
# What the refusal names is there: each verb that reads the numbers has --nan.
"$TOOLS/make_model" nan "$tmp/nan.safetensors"
"$KERF" quantize "$tmp/nan.safetensors" -f nvfp4 --nan zero -y -o "$tmp/made.safetensors" 2>/dev/null
expect 0 verify "$tmp/nan.safetensors" "$tmp/made.safetensors"
expect 3 verify "$tmp/nan.safetensors" "$tmp/made.safetensors" --exact
error_says '^kerf: a.weight: element 327 is -*NaN, at \[5, 7\]; --nan zero or --nan saturate accepts it$'
expect 0 verify "$tmp/nan.safetensors" "$tmp/made.safetensors" --exact --nan zero
scores="$tmp/nan_scores.json"
expect 3 advise "$tmp/nan.safetensors" --budget 9bits -f nvfp4 --cache "$scores"
error_says '^kerf: a.weight: .*; --nan zero or --nan saturate accepts it$'
expect 0 advise "$tmp/nan.safetensors" --budget 9bits -f nvfp4 --cache "$scores" --nan zero
expect 3 advise "$tmp/nan.safetensors" --budget 9bits -f nvfp4 --cache "$scores" # which are of zeros
expect 3 score "$tmp/nan.safetensors" -f nvfp4
expect 0 score "$tmp/nan.safetensors" -f nvfp4 --nan zero
finish
