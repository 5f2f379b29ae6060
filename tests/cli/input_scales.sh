#!/usr/bin/env bash
# input_scales.sh - kerf quantize --input-scales: scales of inputs from a calibration, as loaders of
# each layout read them, and the same by another way: converted from the other layout.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cal="$tmp/cal"
q=quantization_config
config() { "$TOOLS/json_get" "$2" <"$1/config.json"; }

# scale FOLDER TENSOR: the number of a tensor of one F32.
scale() {
    python3 - "$1/model.safetensors" "$2" <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n, = struct.unpack_from("<Q", data)
entry = json.loads(data[8:8 + n])[sys.argv[2]]
assert entry["dtype"] == "F32", entry
print(repr(struct.unpack_from("<f", data, 8 + n + entry["data_offsets"][0])[0]), *entry["shape"])
END
}

# near A B: within a unit of the last place of a float or so.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && (a / b - 1) ^ 2 < (2e-7) ^ 2) }'
}

expect 0 calibrate "$model" --tokens "$model/eval.u16" --length 32 --rows 0:4 --alpha-by none -o "$cal" --json
cp "$tmp/out" "$tmp/cal.json"
# largest WEIGHT: what the calibration found of its inputs.
largest() {
    "$TOOLS/json_get" weights <"$tmp/cal.json" | python3 -c '
import json, sys
print(next(w["amax"] for w in json.load(sys.stdin) if w["name"] == sys.argv[1]))' "$1"
}
layer=model.layers.2.mlp.down_proj

for pair in nvfp4=2688 fp8-e4m3=448; do
    format=${pair%=*} whole=${pair#*=}
    rm -rf "$tmp"/o-*
    for layout in modelopt compressed-tensors; do
        expect 0 quantize "$model" -f "$format" --layout "$layout" --calibration "$cal" --input-scales -o "$tmp/o-$layout" --json
        check "$format, $layout: how many is said" test "$(json 'notes.*' | grep -c '^28 layers have a scale of inputs')" = 1
        check "$format, $layout: the imatrix is no surplus" test "$(json 'notes.*' | grep -c 'changes nothing')" = 0
        expect 0 inspect "$tmp/o-$layout" --json
        json_is findings "[]"
        expect 0 verify "$model" "$tmp/o-$layout" --exact
    done
    check "$format: input_scale is the largest input / $whole" near \
        "$(scale "$tmp/o-modelopt" $layer.input_scale)" \
        "$(awk -v a="$(largest $layer.weight)" -v n="$whole" 'BEGIN { printf "%.9g", a / n }')"
    # one input for what loaders merge
    check "$format: q, k and v have one" test "$(for p in q k v; do
        scale "$tmp/o-modelopt" model.layers.1.self_attn.${p}_proj.input_scale; done | sort -u | wc -l)" = 1
    check "$format: layers differ" test "$(scale "$tmp/o-modelopt" $layer.input_scale)" != \
        "$(scale "$tmp/o-modelopt" model.layers.1.self_attn.q_proj.input_scale)"
    expect 0 convert "$tmp/o-modelopt" --layout compressed-tensors -o "$tmp/o-converted"
    same_file "$tmp/o-converted/model.safetensors" "$tmp/o-compressed-tensors/model.safetensors"
    same_file "$tmp/o-converted/config.json" "$tmp/o-compressed-tensors/config.json"
    # the weights are those of a run without
    [ "$format" != nvfp4 ] || expect 0 quantize "$model" -f "$format" --layout modelopt -o "$tmp/o-alone"
    [ "$format" != nvfp4 ] || check "W4A16 without" test "$(config "$tmp/o-alone" $q.quant_algo)" != NVFP4
    case $format in
    nvfp4)
        check "W4A4 with" test "$(config "$tmp/o-modelopt" $q.quant_algo)" = NVFP4
        check "compressed-tensors divides" near \
            "$(scale "$tmp/o-compressed-tensors" $layer.input_global_scale | cut -d' ' -f1)" \
            "$(awk -v a="$(largest $layer.weight)" 'BEGIN { printf "%.9g", 2688 / a }')"
        check "and finds scales of blocks as they come" test \
            "$(config "$tmp/o-compressed-tensors" $q.config_groups.group_0.input_activations.dynamic)" = local
        check "two kinds of output differ" test "$(scale "$tmp/o-compressed-tensors" $layer.input_global_scale | wc -w)" = 2
        ;;
    *)
        check "FP8" test "$(config "$tmp/o-modelopt" $q.quant_algo)" = FP8
        check "one scale for all" test \
            "$(config "$tmp/o-compressed-tensors" $q.config_groups.group_0.input_activations.dynamic)" = false
        ;;
    esac
done

# --- a mixture, parts, a run that goes on --------------------------------------------------------

mix=(-f nvfp4 --tensor '*down_proj*=fp8-e4m3' --layout compressed-tensors --calibration "$cal" --input-scales)
expect 0 quantize "$model" "${mix[@]}" -o "$tmp/mix"
check "each format has its own" test "$(config "$tmp/mix" "$q.config_groups.*.input_activations.num_bits" | sort | tr '\n' ' ')" = "4 8 "
check "what is kept has none" test "$(grep -c 'lm_head.input' "$tmp/mix/model.safetensors")" = 0
expect 0 inspect "$tmp/mix" --json
json_is findings "[]"
expect 0 quantize "$model" "${mix[@]}" --shard-size 1MB -o "$tmp/shards"
expect 0 inspect "$tmp/shards" --json
json_is findings "[]"
for i in 1 2; do expect 0 quantize "$model" "${mix[@]}" --shard-size 1MB -o "$tmp/parts" --part $i/2; done
expect 0 merge "$tmp/parts"
check "parts are the whole" diff -r "$tmp/shards" "$tmp/parts"

# --- a source with scales of its own -------------------------------------------------------------

# As AutoFP8 has it: FP8 that is decoded on the way in. Its scales of inputs were made for other codes.
expect 0 quantize "$model" -f fp8-e4m3 --layout modelopt --calibration "$cal" --input-scales -o "$tmp/of-fp8"
mkdir "$tmp/auto"
python3 - "$tmp/of-fp8" "$tmp/auto" <<'END'
import json, struct, sys
data = open(sys.argv[1] + "/model.safetensors", "rb").read()
n, = struct.unpack_from("<Q", data)
header = json.loads(data[8:8 + n])
header.pop("__metadata__")
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[2] + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data[8 + n:])
config = json.load(open(sys.argv[1] + "/config.json"))
config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "static"}
json.dump(config, open(sys.argv[2] + "/config.json", "w"))
END
expect 0 calibrate "$tmp/auto" --tokens "$model/eval.u16" --length 32 --rows 0:4 --alpha-by none -o "$tmp/auto-cal" --json
cp "$tmp/out" "$tmp/cal.json"
expect 0 quantize "$tmp/auto" -f nvfp4 --layout modelopt --calibration "$tmp/auto-cal" --input-scales -o "$tmp/from-fp8"
check "W4A4 from static FP8" test "$(config "$tmp/from-fp8" $q.quant_algo)" = NVFP4
check "with scales for NVFP4" near "$(scale "$tmp/from-fp8" $layer.input_scale)" \
    "$(awk -v a="$(largest $layer.weight)" 'BEGIN { printf "%.9g", a / 2688 }')"

# --- refusals ------------------------------------------------------------------------------------

expect 2 quantize "$model" -f nvfp4 --layout modelopt --input-scales -o "$tmp/x"
error_says 'needs --calibration CAL'
expect 2 quantize "$model" -f nvfp4 --calibration "$cal" --input-scales -o "$tmp/x"
error_says 'layout kerf stores no scales of inputs'
expect 2 quantize "$model" -f int4-g128 --layout compressed-tensors --calibration "$cal" --input-scales -o "$tmp/x"
error_says 'beside nvfp4 and fp8-e4m3'
expect 3 quantize "$model" -f fp8-e4m3 --layout modelopt -o "$tmp/x"
error_says 'kerf calibrate finds them for kerf quantize --calibration CAL --input-scales'
check "nothing is left behind" test ! -e "$tmp/x"
finish
