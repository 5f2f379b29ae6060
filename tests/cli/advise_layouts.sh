#!/usr/bin/env bash
# advise_layouts.sh - from advice to a checkpoint in every layout with nothing but the recipe, and what
# runtimes leave of the candidates. About twenty seconds.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
scores=(--cache "$tmp/scores.json")

advised() { "$TOOLS/json_get" "$1" <"$tmp/advice"; }
# through LAYOUT BUDGET: advise, quantize by the recipe alone, read, verify.
through() {
    rm -rf "$tmp/out.d" "$tmp/r.json"
    expect 0 advise "$model" --layout "$1" --budget "$2" "${scores[@]}" -o "$tmp/r.json" --json
    json_is layout "$1"
    cp "$tmp/out" "$tmp/advice"
    expect 0 quantize "$model" --recipe "$tmp/r.json" -o "$tmp/out.d/" --json
    error_says 'tensors measured as promised, 0 not, 0 edited'
    check "to the byte as large in $1" awk -v advised="$(advised total.bytes)" -v kept="$(advised kept_bytes)" \
        "BEGIN { exit !($(json totals.bytes_out) == advised + kept) }"
    expect 0 inspect "$tmp/out.d" --json
    [ "$1" = kerf ] || check "all in layout $1" test "$(json 'weights.*.layout' | grep -v null | sort -u)" = "$1"
    expect 0 verify "$model" "$tmp/out.d"
}
for layout in kerf compressed-tensors compressed-tensors-naive modelopt deepseek bitsandbytes gptq gptq-v2; do
    through "$layout" 9bits
done
through compressed-tensors 5.2bits
check "it mixes formats" test "$(sort -u <("$TOOLS/json_get" 'groups.*.codec' <"$tmp/advice") | wc -l)" -ge 2
# Model-Optimizer's way of a mixture: what its loaders can mix, each layer named in both files, and its own
# converter makes of the one file what stands in the other.
through modelopt 5.9bits
[ -z "${MODELOPT_PYTHON:-}" ] || check "its converter agrees" "$MODELOPT_PYTHON" - "$tmp/out.d" <<'END'
import importlib.util, json, sys
spec = importlib.util.find_spec("modelopt").submodule_search_locations[0]
spec = importlib.util.spec_from_file_location("convert", spec + "/torch/export/convert_hf_config.py")
convert = importlib.util.module_from_spec(spec)
spec.loader.exec_module(convert)
ours = json.load(open(sys.argv[1] + "/config.json"))["quantization_config"]
theirs = convert.convert_hf_quant_config_format(json.load(open(sys.argv[1] + "/hf_quant_config.json")))
groups = lambda c: sorted((sorted(g["targets"]), json.dumps(g["weights"], sort_keys=True)) for g in c["config_groups"].values())
assert groups(ours) == groups(theirs), (groups(ours), groups(theirs))
assert ours["quantized_layers"] == theirs["quantized_layers"] and ours["quant_algo"] == theirs["quant_algo"] == "MIXED_PRECISION"
END
check "the mixture is named" grep -q '"quant_algo": "MIXED_PRECISION"' "$tmp/out.d/config.json"
check "and each layer, for older loaders too" test \
    "$("$TOOLS/json_get" 'quantization.quantized_layers.*.quant_algo' <"$tmp/out.d/hf_quant_config.json" | sort | uniq -c | wc -l)" -eq 2
sed -i '0,/"quant_algo": "MXFP8"/s//"quant_algo": "W4A16_NVFP4"/' "$tmp/out.d/config.json"
expect 1 inspect "$tmp/out.d"
output_says 'quantized_layers in config.json says otherwise'
expect 3 quantize "$model" --layout modelopt -f nvfp4 --tensor '*down_proj.weight=int8' -o "$tmp/refused.d/"
error_says 'has int8 for a whole checkpoint alone, here is nvfp4 too'
# Bits of advice are those of the file, bpw of a score is the format's: where they differ, it is said.
expect 0 advise "$model" --layout gptq -f int4-g128:gptq --budget 4.26bits
output_says '^0.125 of these bits are for what layout gptq stores beside codes and scales'
expect 0 advise "$model" --layout modelopt -f nvfp4 --budget 5bits
check "no more than planes" bash -c "! grep -q 'of these bits' '$tmp/out'"
for layout in bitsandbytes gptq; do # one format, and what is kept beside it
    through "$layout" 5.2bits
    formats=$("$TOOLS/json_get" 'groups.*.codec' <"$tmp/advice" | grep -v keep | sort -u | wc -l)
    check "$layout has one format, not $formats" test "$formats" -eq 1
done

# Of formats that cannot be mixed, the refusal says the least that any of them takes, in whichever order.
for list in int4-g128 int8-g128,int4-g128 int4-g128,int8-g128; do
    expect 5 advise "$model" --layout gptq -f "$list" --hardware l4 --budget 99999tok/s
    [ "$list" != int4-g128 ] || least=$(grep -o 'or [0-9.]* us a step' "$tmp/err")
    error_says "$least"
done

# Candidates that are named must fit; those of a pattern are left out.
expect 3 advise "$model" --layout modelopt --budget 9bits -f nf4
error_says 'does not take nf4'
expect 0 advise "$model" --layout modelopt --budget 9bits -f '*' --json "${scores[@]}"
expect 3 advise "$model" --layout gguf --budget 9bits -f int8

# GGUF has blocks of its own, which lose less than what other layouts have with as many bits: without a list of
# formats these are chosen from, also for llama.cpp, and the recipe makes the file.
expect 0 advise "$model" --layout gguf --budget 5bits -f nvfp4:4/6,nvfp4:sweep,mxfp4:even "${scores[@]}" --json
others=$(json total.t2)
expect 0 advise "$model" --runtime llama.cpp --budget 5bits "${scores[@]}" --json
own=$(json total.t2)
expect 0 advise "$model" --layout gguf --budget 5bits "${scores[@]}" -o "$tmp/r.json" -y --json
json_is total.t2 "$own"
check "its own blocks" test "$(json 'groups.*.codec' | grep -vcE '^(iq|q|ggml-q)[0-9]')" -eq 0
check "with less error" awk -v own="$own" -v others="$others" 'BEGIN { exit !(own < 0.8 * others) }'
expect 0 quantize "$model" --recipe "$tmp/r.json" -o "$tmp/own.gguf"
error_says '28 tensors measured as promised, 0 not, 0 edited'
expect 0 verify "$model" "$tmp/own.gguf"
# Blocks of 256 are no candidates where no row has as many; asked for, they are refused.
"$TOOLS/make_model" groups "$tmp/short.safetensors"
expect 0 advise "$tmp/short.safetensors" --layout gguf --budget 6bits --json
check "blocks of 32" test "$(json 'groups.*.codec' | grep -c '_k:\|_xs:')" -eq 0
check "and not all kept" grep -q '"codec": "i*q[45]_' "$tmp/out"
expect 3 advise "$tmp/short.safetensors" --layout gguf --budget 6bits -f q4_k,q5_0
error_says 'f q4_k:ggml: q4_k has blocks of 256'

# What another program quantized costs, when it is kept, what it is decoded to.
"$KERF" quantize "$model" -f fp8-e4m3-128x128 --layout deepseek -o "$tmp/fp8" -y 2>/dev/null
LC_ALL=C sed -i '1s/"kerf":"{/"gone":"{/' "$tmp/fp8/model.safetensors"
expect 0 advise "$tmp/fp8" --layout compressed-tensors --budget 9bits -o "$tmp/r.json" -y --json
promised=$(awk "BEGIN { print $(json total.bytes) + $(json kept_bytes) }" </dev/null)
expect 0 quantize "$tmp/fp8" --recipe "$tmp/r.json" --layout compressed-tensors -o "$tmp/9bits" -y --json
check "as many bytes as promised" awk "BEGIN { exit !($(json totals.bytes_out) < 1.001 * $promised) }"

# What has the chosen format already is written as it is, and keeps its promise: it lost nothing.
expect 0 advise "$tmp/fp8" -f fp8-e4m3-128x128,nvfp4 --budget 8.3bits -o "$tmp/r.json" -y
expect 0 quantize "$tmp/fp8" --recipe "$tmp/r.json" -o "$tmp/exact" -y
error_says '28 tensors measured as promised, 0 not, 0 edited'
# A part of it: the whole is what was encoded and what was not, for verify as for score.
"$KERF" quantize "$model" -f fp8-e4m3-128x128 --layout deepseek --keep '*o_proj*' -o "$tmp/half" -y 2>/dev/null
LC_ALL=C sed -i '1s/"kerf":"{/"gone":"{/' "$tmp/half/model.safetensors"
expect 0 score "$tmp/half" -f fp8-e4m3-128x128 --json
scored=$(json totals.0.t2)
expect 0 advise "$tmp/half" -f fp8-e4m3-128x128,nvfp4 --budget 8.05bits -o "$tmp/r.json" -y
expect 0 quantize "$tmp/half" --recipe "$tmp/r.json" -o "$tmp/whole" -y
error_says '28 tensors measured as promised, 0 not, 0 edited'
expect 0 verify "$tmp/half" "$tmp/whole" --json
json_is measured 4
check "the whole is the same for score and verify" awk -v a="$scored" -v b="$(json total.t2)" \
    'BEGIN { exit !(a > 0 && b > 0.999999999 * a && b < 1.000000001 * a) }'
expect 0 verify "$tmp/half" "$tmp/whole"
output_says '^all 28, of which the worst are above'

# Runtimes.
on() { expect 0 advise "$model" --runtime "$1" --hardware "$2" --budget "$3" "${scores[@]}" -o "$tmp/r.json" -y --json; }
on vLLM b200 9bits
json_is runtime vllm
json_is layout compressed-tensors
check "no int8 on sm_100" bash -c "! grep -q '\"codec\": \"int8:' '$tmp/out'"
on vllm b200 5.9bits
on vllm h100 9bits
check "but on sm_90" grep -q '"codec": "int8:' "$tmp/out"
on sglang h100 6bits
check "one format" test "$(json 'groups.*.codec' | grep -v keep | sort -u | wc -l)" -eq 1
on TensorRT-LLM h200 9bits
json_is layout modelopt
expect 0 advise "$model" --runtime trtllm --hardware 5090 --budget 9bits "${scores[@]}"
output_says 'for layout modelopt, as TensorRT-LLM loads it'
expect 2 advise "$model" --runtime ollama --budget 9bits
error_says 'expected one of vllm'
expect 3 advise "$model" --runtime vllm --hardware b200 --budget 9bits -f int8
error_says 'from sm_75 to before sm_100, and b200 is sm_100'
expect 3 advise "$model" --runtime trtllm --layout compressed-tensors --budget 9bits
error_says 'TensorRT-LLM'
check "the recipe names its runtime" grep -q '"runtime": "trtllm"' "$tmp/r.json"
finish
