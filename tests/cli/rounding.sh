#!/usr/bin/env bash
# rounding.sh - quantize --kv: scales of the KV cache by a calibration, as loaders of each layout read
# them; and eval, which rounds inputs and caches as runtimes do.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cal="$tmp/cal"
q=quantization_config
text="--tokens $model/eval.u16 --length 64"
config() { "$TOOLS/json_get" "$2" <"$1/config.json"; }

# scale FOLDER TENSOR: the number of a tensor of one F32, and its shape. CAL has several files.
scale() {
    python3 - "$1" "$2" <<'END'
import glob, json, struct, sys
for path in glob.glob(sys.argv[1] + "/*.safetensors"):
    data = open(path, "rb").read()
    n, = struct.unpack_from("<Q", data)
    entry = json.loads(data[8:8 + n]).get(sys.argv[2])
    if entry:
        assert entry["dtype"] == "F32", entry
        print(repr(struct.unpack_from("<f", data, 8 + n + entry["data_offsets"][0])[0]), *entry["shape"])
END
}

near() { awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN { exit !(a > 0 && (a / b - 1) ^ 2 < d ^ 2) }'; }
above() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }

expect 0 calibrate "$model" --tokens "$model/eval.u16" --length 32 --rows 0:4 --alpha-by none -o "$cal"
at=model.layers.2

# --- the scales ---------------------------------------------------------------------------------

for layout in modelopt compressed-tensors; do
    expect 0 quantize "$model" -f nvfp4 --layout $layout --calibration "$cal" --input-scales --kv fp8-e4m3 -o "$tmp/$layout" --json
    check "$layout: it is said" test "$(json 'notes.*' | grep -c '^the KV cache is fp8-e4m3: 4 layers have scales')" = 1
    expect 0 inspect "$tmp/$layout" --json
    json_is findings "[]"
    expect 0 verify "$model" "$tmp/$layout" --exact
    for c in k v; do
        own=self_attn.${c}_scale
        [ $layout = compressed-tensors ] || own=self_attn.${c}_proj.${c}_scale
        check "$layout: the largest $c / 448" near "$(scale "$tmp/$layout" $at.$own | cut -d' ' -f1)" \
            "$(awk -v a="$(scale "$cal" $at.${c}_amax | cut -d' ' -f1)" 'BEGIN { printf "%.9g", a / 448 }')" 2e-7
        check "$layout: one for each layer" test "$(grep -ao "layers\.[0-9]*\.$own" "$tmp/$layout/model.safetensors" | sort -u | wc -l)" = 4
    done
    check "$layout: the scheme" test "$(config "$tmp/$layout" $q.kv_cache_scheme.num_bits) $(config "$tmp/$layout" $q.kv_cache_scheme.type)" = "8 float"
done
check "for older loaders" test "$("$TOOLS/json_get" quantization.kv_cache_quant_algo <"$tmp/modelopt/hf_quant_config.json")" = FP8
check "two kinds of output differ" test "$(scale "$tmp/compressed-tensors" $at.self_attn.k_scale | wc -w)" = 2
expect 0 quantize "$model" -f int4-g32 --layout compressed-tensors --calibration "$cal" --kv fp8-e4m3 -o "$tmp/int4"
check "beside weights whose inputs stay" test "$(config "$tmp/int4" $q.kv_cache_scheme.strategy)" = tensor
expect 0 convert "$tmp/int4" --layout compressed-tensors -o "$tmp/same"
same_file "$tmp/same/model.safetensors" "$tmp/int4/model.safetensors"
expect 0 quantize "$model" -f nvfp4 --layout modelopt --calibration "$cal" --kv fp8-e4m3 --shard-size 1MB -o "$tmp/shards"
for i in 1 2; do
    expect 0 quantize "$model" -f nvfp4 --layout modelopt --calibration "$cal" --kv fp8-e4m3 --shard-size 1MB -o "$tmp/parts" --part $i/2
done
expect 0 merge "$tmp/parts"
check "parts are the whole" diff -r "$tmp/shards" "$tmp/parts"

# --- eval ---------------------------------------------------------------------------------------

# kl FOLDER [OPTION...]: of the folder beside the model.
kl() {
    local folder=$1
    shift
    expect 0 eval "$model" "$folder" $text --rows 32:40 --json "$@"
    json 'candidates.*.kl'
}
kl "$tmp/modelopt" >"$tmp/kl"
json_is 'candidates.*.inputs.*' nvfp4
json_is 'candidates.*.cache' fp8-e4m3
json_is source.cache null
rounded=$(cat "$tmp/kl")
kl "$tmp/modelopt" --weights-only >"$tmp/kl"
json_is 'candidates.*.inputs' "[]"
json_is 'candidates.*.cache' null
weights=$(cat "$tmp/kl")
check "inputs of 4 bits cost" above "$rounded" "$weights"
check "both layouts are run alike" near "$(kl "$tmp/compressed-tensors")" "$rounded" 2e-2
check "weights alone are what they are without scales of inputs" test "$(kl "$tmp/shards" --weights-only)" = "$weights"
json_is 'candidates.*.cache' null
expect 0 quantize "$model" -f nvfp4 -o "$tmp/kerf"
cached=$(kl "$tmp/int4")
json_is 'candidates.*.inputs' "[]"
check "a cache costs something" above "$cached" "$(kl "$tmp/int4" --weights-only)"
expect 0 eval "$model" "$tmp/modelopt" "$tmp/kerf" $text --rows 32:33
check "it is said for whom" test "$(grep -c ': inputs of 28 weights in nvfp4; KV cache in fp8-e4m3, as it is run$' "$tmp/out")" = 1
expect 0 quantize "$model" -f int8 --layout compressed-tensors -o "$tmp/int8"
check "8 bits as they come, by the token" above "$(kl "$tmp/int8")" "$(kl "$tmp/int8" --weights-only)"

# --- refusals -----------------------------------------------------------------------------------

expect 2 quantize "$model" -f nvfp4 --layout modelopt --kv fp8-e4m3 -o "$tmp/x"
error_says '--kv needs --calibration CAL: kerf calibrate makes one'
expect 2 quantize "$model" -f nvfp4 --layout modelopt --calibration "$cal" --kv nvfp4 -o "$tmp/x"
error_says '--kv: loaders have a KV cache in fp8-e4m3, not in nvfp4'
expect 2 quantize "$model" -f nvfp4 --calibration "$cal" --kv fp8-e4m3 -o "$tmp/x"
error_says 'layout kerf has no words for a KV cache: layouts modelopt and compressed-tensors have'
# a source that has them already, in weights that stay
expect 0 quantize "$model" -f int4-g32 --keep '*layers.3.mlp.down_proj*' --layout compressed-tensors --calibration "$cal" --kv fp8-e4m3 -o "$tmp/most"
expect 0 calibrate "$tmp/most" --tokens "$model/eval.u16" --length 32 --rows 0:4 --alpha-by none -o "$tmp/cal4"
expect 2 quantize "$tmp/most" -f nvfp4 --layout compressed-tensors --calibration "$tmp/cal4" --kv fp8-e4m3 -o "$tmp/x"
error_says 'model.layers.0.self_attn.k_scale is a scale of the KV cache already, and stays: leave --kv away'
check "nothing is left behind" test ! -e "$tmp/x"
finish
