#!/usr/bin/env bash
# findings.sh - each fault that inspect knows, in a file that has it, beside the file that has not.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# make FORMAT LAYOUT [OPTION...]: a sound folder $tmp/m, which inspect has nothing against.
make() {
    local format=$1 layout=$2
    shift 2
    "$KERF" quantize "$model" -f "$format" --layout "$layout" -o "$tmp/m" -y "$@" 2>/dev/null
    [ "$layout" = kerf ] || forget
    expect 0 inspect "$tmp/m" --json
    json_is findings "[]"
}

# Drops kerf's own description: other writers have none.
forget() { header 's/"kerf":"{/"gone":"{/'; }

# header SCRIPT: edits the header; its length must stay.
header() { LC_ALL=C sed -i "1$1" "$tmp/m/model.safetensors"; }
config() { sed -i "$1" "$tmp/m/config.json"; }

place() { # TENSOR: its offset and bytes
    "$KERF" inspect "$tmp/m" --planes --wide | awk -v n="$1" '$1 == n { print $NF, $4 }'
}

# spoil KIND TENSOR [N [M]]: N: bytes, or rows of tiles; 0: all bytes.
spoil() {
    local kind=$1 at bytes n=${3:-0} m=${4:-}
    read -r at bytes <<<"$(place "$2")"
    [ "$n" -gt 0 ] || n=$bytes
    # shellcheck disable=SC2086 # none or one word
    "$TOOLS/spoil" "$kind" "$tmp/m/model.safetensors" "$at" "$n" $m
}

# finds SEVERITY PATTERN
finds() {
    expect "$([ "$1" = error ] && echo 1 || echo 0)" inspect "$tmp/m"
    output_says "^$1: .*$2"
}

up=model.layers.1.mlp.up_proj q=model.layers.2.self_attn.q_proj

# --- scales -------------------------------------------------------------------------------------
make nvfp4 modelopt
spoil bytes $up.weight_scale 1 0x7f
finds error "$up.weight: 1 of 12288 scales are NaN"
make nvfp4 modelopt
spoil bytes $up.weight_scale 1 0x90
finds error "$up.weight: 1 of 12288 scales are negative"
expect 1 verify "$model" "$tmp/m" # which no limit on sums would notice
output_says "$up.weight: has a negative scale, number 0"
make nvfp4 modelopt
spoil bytes $up.weight_scale_2 4 0
finds error "$up.weight: all 1 second-level scales are zero"
make nvfp4 modelopt
spoil bytes $up.weight_scale_2 2 1
finds note 'tensor scale .*same fused group .*loaders that merge them take the larger'
make fp8-e4m3 compressed-tensors
spoil bytes $q.weight_scale 2 1
finds note "$q.weight: tensor scale .*k_proj.weight of the same fused group"
# The scale of a matrix is a factor for some loaders and a divisor for others.
make nvfp4 modelopt
spoil inverse $up.weight_scale_2
finds error "$up.weight: 1 of 1 second-level scales are above 16: they seem to be divisors"
make nvfp4 compressed-tensors
spoil inverse $up.weight_global_scale
finds error "$up.weight: 1 of 1 second-level scales are above 16: they seem to be divisors"
make fp8-e4m3-128x128 deepseek
spoil inverse $up.weight_scale_inv
finds error "$up.weight: 12 of 12 scales are above 16: they seem to be divisors"
make nvfp4 modelopt
header "s/$up.weight_scale_2/$up.weight_scale_X/"
finds error "$up.weight: holds codes, but no layout has them so: $up.weight_scale_2 is missing"
make nvfp4 compressed-tensors
header "s/$up.weight_global_scale/$up.weight_global_scalX/"
finds error "$up.weight_packed: .*$up.weight_global_scale is missing"

# Scales of two levels: what is below a second-level scale of zero is lost, unless it was zero itself.
for layout in kerf bitsandbytes; do
    nested=$([ $layout = kerf ] && echo _scale_2 || echo .nested_absmax)
    make nf4-dq $layout
    spoil bytes $up.weight$nested 4 0
    finds error "$up.weight: 1 of 12 second-level scales are zero, the first at 0, though the codes"
done
make nf4-dq kerf
spoil bytes $up.weight_zero_point 4 0
finds error "$up.weight: the offset of its block scales is zero, though second-level scales are not"
spoil bytes $up.weight_zero_point 4 0xff
finds error "$up.weight: the offset of its block scales is NaN or infinite"
spoil bytes $up.weight_zero_point 4 0x80
finds error "$up.weight: the offset of its block scales is negative"
# A matrix of zeros has zeros for scales, and nothing is wrong with it.
offset=$("$KERF" inspect "$model" --planes --wide | awk -v n="$up.weight" '$1 == n { print $NF }')
cp "$model/model.safetensors" "$tmp/zeros.safetensors"
"$TOOLS/spoil" bytes "$tmp/zeros.safetensors" "$offset" $((768 * 256 * 2)) 0
for format in nf4 nf4-f16 nf4-dq nvfp4 mxfp4; do
    expect 0 quantize "$tmp/zeros.safetensors" -f $format --only "$up*" -y -o "$tmp/z.safetensors"
    expect 0 inspect "$tmp/z.safetensors"
    output_says "^note: $up.weight: .* are zero: "
done

# GGUF's blocks hold their scales among the codes: OFFSET of the number in each of N blocks of BYTES.
in_gguf() { # FORMAT BYTES OFFSET SIZE VALUE BLOCKS
    local at i
    rm -f "$tmp/g.gguf"
    expect 0 quantize "$model" -f "$1" --only "*layers.0.self_attn.k_proj*" -o "$tmp/g.gguf"
    expect 0 inspect "$tmp/g.gguf" --json
    json_is findings "[]"
    at=$("$KERF" inspect "$tmp/g.gguf" --planes --wide | awk '$1 == "blk.0.attn_k.weight" { print $NF }')
    for ((i = 0; i < $6; i++)); do
        "$TOOLS/spoil" bytes "$tmp/g.gguf" $((at + i * $2 + $3)) "$4" "$5" || note_failure "$1 cannot be spoiled"
    done
    run inspect "$tmp/g.gguf"
}
for case in "ggml-q8_0 34 0 2 0x7f" "q4_k 144 0 2 0xff" "q6_k 210 208 2 0x7d" "ggml-mxfp4 17 0 1 0xff" "ggml-nvfp4 36 3 1 0x7f"; do
    # shellcheck disable=SC2086 # words
    in_gguf $case 1
    check "inspect $case ends with 1" test "$code" = 1
    output_says "^error: blk.0.attn_k.weight: 1 of [0-9]* scales are NaN or infinite, the first at"
done
in_gguf q4_1 20 2 2 0x7f 1
output_says "^error: blk.0.attn_k.weight: 1 of 1024 minima are NaN or infinite, the first at 0"
in_gguf q6_k 210 208 2 0 128
output_says "^error: blk.0.attn_k.weight: all 128 scales are zero: so are all of its weights, though its codes differ"
in_gguf q4_k 144 0 2 0 128
output_says "^error: blk.0.attn_k.weight: all 128 scales are zero: each block is its minimum, though its codes differ"

# Scales as kernels want them: padded, which shows in the shape, or only in another order.
make nvfp4 modelopt
header "s/\"$up.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":\[768,16\]/\"$up.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[192,64]/"
finds error "$up.weight_scale is F8_E4M3 \[192,64\], not F8_E4M3 \[768,16\]: padded to the tiles of a kernel"
make nvfp4 modelopt
spoil tiles $q.weight_scale 256 16
finds error "$q.weight: scales seem to lie in tiles of 128 x 4"
make mxfp4 compressed-tensors
spoil tiles $q.weight_scale 256 8
finds error "$q.weight: scales seem to lie in tiles of 128 x 4"

# --- codes --------------------------------------------------------------------------------------
for format in nvfp4 mxfp4 int4-g128; do
    make $format compressed-tensors
    spoil nibbles $up.weight_packed
    finds error "$up.weight: the two codes of each byte seem to be swapped"
done
make nf4 bitsandbytes
spoil nibbles $up.weight
finds error "$up.weight: the two codes of each byte seem to be swapped"

# --- zero points of GPTQ's two versions ---------------------------------------------------------
make int4-g128-f16 gptq-v2
config 's/gptq_v2/gptq/'
finds error 'zero points are one above the middle: they were stored as GPTQ.s version 2'
make int4-g128-f16 gptq
config 's/"gptq",/"gptq",/; s/"checkpoint_format": "gptq"/"checkpoint_format": "gptq_v2"/'
finds error 'zero points are one below the middle: they were stored as GPTQ.s version 1'
make int8-g128 gptq
config 's/"checkpoint_format": "gptq"/"checkpoint_format": "gptq_v2"/'
finds error 'zero points are one below the middle'
make int4-g128-asym-f16 gptq-v2
spoil bytes $up.qzeros 1 0xff # read as version 1: two zero points of 0
config 's/gptq_v2/gptq/'
finds note "$up.weight: [0-9]* of [0-9]* zero points are 0, which version 1 stores as the largest"

# --- config.json --------------------------------------------------------------------------------
make int4-g128-f16 gptq
config 's/"bits": 4/"bits": 8/'
finds error 'bits in config.json says otherwise'
make int4-g128-f16 gptq
config 's/"group_size": 128/"group_size": 64/'
finds error 'group_size in config.json says otherwise'
make int4-g128-f16 gptq
config 's/"sym": true/"sym": false/'
finds error 'sym in config.json says otherwise'
make int4-g128 compressed-tensors
config 's/"group_size": 128/"group_size": 32/'
finds error 'config_groups in config.json says otherwise'
make nvfp4 modelopt
config 's/W4A16_NVFP4/MXFP8/'
finds error 'quant_algo in config.json says otherwise'
make int8 modelopt
config 's/W8A16/MXFP8/'
finds error 'quant_algo in config.json says otherwise'
make int8 modelopt
config 's/W8A16/w8a16/' # loaders take either case
expect 0 inspect "$tmp/m" --json
json_is findings "[]"
config 's/w8a16/W8A8_SQ_PER_CHANNEL/' # the same tensors, and a scale of the inputs
finds error 'has no input_scale, as 28 layers: quant_algo'
make fp8-e4m3-128x128 modelopt
config 's/fp8_pb_wo/FP8_PB_WO/'
expect 0 inspect "$tmp/m" --json
json_is findings "[]"
make int8 bitsandbytes
config 's/"load_in_8bit": true/"load_in_8bit": false/'
finds error 'load_in_8bit in config.json says otherwise'
make fp8-e4m3-128x128 deepseek
config 's/^      128/      64/'
finds error 'weight_block_size in config.json says otherwise'
make nvfp4 modelopt
config 's/"W4A16_NVFP4"/"NVFP4"/'
finds error 'has no input_scale, as 28 layers: quant_algo'
make nvfp4 compressed-tensors
config 's/"input_activations": null/"input_activations": {"dynamic": "local"}/'
finds error 'has no input_global_scale, as 28 layers: input_activations'
make nvfp4 modelopt --keep '*layers.1.mlp*'
config 's/"model.layers.1.mlp.down_proj"/"model.layers.1.mlp.down_prox"/'
finds error 'layers.1.mlp.down_proj.weight: is not quantized as its like in other layers are'
make nvfp4 compressed-tensors
config "s/\"lm_head\"/\"$up\"/"
finds error "$up.weight: is quantized, but config.json lists it"
make nvfp4 compressed-tensors --tensor '*layers.0.mlp.[gu]*=mxfp4'
"$KERF" convert "$tmp/m" --layout kerf -o "$tmp/own" -y 2>/dev/null
rm -rf "$tmp/m" && mv "$tmp/own" "$tmp/m"
cp "$model/config.json" "$tmp/m/config.json"
expect 0 inspect "$tmp/m" # a mixture is no fault where nobody merges layers

# Older exports of Model-Optimizer have all of it in hf_quant_config.json.
make nvfp4 modelopt
cp "$model/config.json" "$tmp/m/config.json"
expect 0 inspect "$tmp/m" --json
json_is findings "[]"
sed -i 's/W4A16_NVFP4/MXFP8/' "$tmp/m/hf_quant_config.json"
finds error 'quant_algo in hf_quant_config.json says otherwise'
rm "$tmp/m/hf_quant_config.json"
finds error 'is in layout modelopt, but config.json names none'
make nvfp4 modelopt # both, and only one is right
sed -i "s/\"lm_head\"/\"$up\"/" "$tmp/m/hf_quant_config.json"
finds error "$up.weight: is quantized, but hf_quant_config.json lists it"

# --- what kerf does not read --------------------------------------------------------------------
make int8 compressed-tensors
header "s/\"$up.weight\"/\"model.layers.11.mlp._weight_qdata\"/"
finds error 'model.layers.11.mlp._weight_qdata: holds codes, .* model.layers.11.mlp._weight_scale is missing'
make nvfp4 modelopt
header "s/\"$up.weight\"/\"model.layers.11.mlp._weight_qdata\"/"
finds error '_weight_qdata: is a tensor of torchao, of a class that kerf does not read'
# What it reads of torchao: both classes, as their own layout, but not with what they add to it.
for format in int8 fp8-e4m3-row; do
    make $format compressed-tensors
    cp "$model/config.json" "$tmp/m/config.json"
    header "s/\"$up.weight\"/\"model.layers.11.mlp._weight_qdata\"/; s/\"$up.weight_scale\"/\"model.layers.11.mlp._weight_scale\"      /"
    run inspect "$tmp/m" --json
    row_is weights model.layers.11.mlp.weight layout torchao
    row_is weights model.layers.11.mlp.weight format $format
    header 's/"model.layers.0.self_attn.q_proj.weight_scale"/"model.layers.11.mlp._weight_zero_point"      /'
    run inspect "$tmp/m"
    output_says 'model.layers.11.mlp._weight_qdata: .*zero_point has no place beside it'
done
expect 3 quantize "$model" -f int8 --layout torchao -o "$tmp/x"
error_says 'change with its releases'
# Negative zeros: four codes in three bytes have their signs at other places than nibbles.
rm -rf "$tmp/m" && cp -r "$model" "$tmp/m"
read -r at bytes <<<"$(place $up.weight)"
printf '\000\200' >"$tmp/zeros"
while [ "$(wc -c <"$tmp/zeros")" -lt "$bytes" ]; do cat "$tmp/zeros" "$tmp/zeros" >"$tmp/more" && mv "$tmp/more" "$tmp/zeros"; done
head -c "$bytes" "$tmp/zeros" | dd of="$tmp/m/model.safetensors" bs=1M oflag=seek_bytes seek="$at" conv=notrunc 2>/dev/null
for format in mxfp4 mxfp6-e2m3 mxfp6-e3m2 mxfp8-e4m3; do
    "$KERF" quantize "$tmp/m" -f $format -o "$tmp/negative" -y 2>/dev/null
    expect 0 inspect "$tmp/negative"
    output_says "^note: $up.weight: all .* scales are zero: so are all of its weights$"
done
rm -rf "$tmp/m" && cp -r "$model" "$tmp/m"
header "s/\"$up.weight\":{\"dtype\":\"BF16\",/\"$up.weight\":{\"dtype\":\"U16\" ,/"
finds error "$up.weight: holds numbers of type U16 where a matrix of a layer should be"
make int4-g128-f16 gptq
spoil bytes $up.g_idx 1 1
finds error "$up.qweight: .*$up.g_idx is not in order: columns were sorted by activation"
make int4-g64 gptq
header "s/\"$up.scales\":{\"dtype\":\"BF16\",/\"$up.scales\":{\"dtype\":\"F16\" ,/"
finds error "$up.weight of the same fused group is int4-g64-f16"
output_says "^note: $up.weight: 1 weight is in a form that kerf has no format for, the first as int4-g64-f16:"
spoil bytes $up.scales 2 0x7e
finds error "$up.weight: 1 of 3072 scales are NaN or infinite"
make int4-row gptq
header "s/\"$up.scales\":{\"dtype\":\"BF16\",/\"$up.scales\":{\"dtype\":\"F16\" ,/"
finds error "$up.weight of the same fused group is int4-row-f16"
make int4-g128-f16 gptq
config 's/"desc_act": false/"desc_act": true/'
spoil bytes $up.g_idx 1 1
finds error "$up.weight of the same fused group is int4-sorted-f16"
spoil bytes $up.g_idx 1 9
finds error "$up.qweight: .*$up.g_idx is not in order"
make int4-row gptq
config 's/"group_size": -1/"group_size": 128/'
finds error 'group_size in config.json says otherwise'
make int8 bitsandbytes
spoil bytes $up.weight_format 1 2
finds error "$up.weight: .*$up.weight_format is not 0"
make mxfp4 kerf
header "s/layers.0.input_layernorm.weight/layers.0.inp_ln.pre_quant_scale/"
finds note 'inputs of this layer are multiplied by it'

# --- embeddings ---------------------------------------------------------------------------------
# A matrix that becomes a table of tokens by its name; vLLM takes one that a group names.
table=transformer.aaaaaaaaaa.wte
embedding() { # FORMAT LAYOUT
    make "$1" "$2" --keep '*layers.1.self_attn*' --keep '*layers.1.mlp.down*'
    header "s/$up/$table/g"
    ! grep -q '"ignore"' "$tmp/m/config.json" || config 's/"ignore": \[/"ignore": [ "model.layers.1.mlp.gate_proj",/'
}
for pair in nvfp4=compressed-tensors int4-g128=compressed-tensors nvfp4=modelopt int4-g128=gptq nf4=bitsandbytes \
    fp8-e4m3-128x128=deepseek; do
    embedding "${pair%=*}" "${pair#*=}"
    finds error "$table.weight: is a quantized embedding, which loaders of layout ${pair#*=} do not look for"
done
for target in Embedding VocabParallelEmbedding "$table" 're:.*wte$'; do
    embedding int4-g128 compressed-tensors
    config "s/\"Linear\"/\"Linear\", \"$target\"/"
    run inspect "$tmp/m"
    check "vLLM takes one that $target names" test "$(grep -c 'quantized embedding' "$tmp/out")" = 0
done
expect 0 quantize "$tmp/m" -f int4-g128 --layout compressed-tensors -o "$tmp/x" --dry-run # which names none
output_says "$table.weight .*decoded to BF16"
embedding nvfp4 compressed-tensors # but integers alone
config 's/"Linear"/"Linear", "Embedding"/'
finds error "$table.weight: is a quantized embedding"
finish
