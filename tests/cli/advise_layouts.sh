#!/usr/bin/env bash
# advise_layouts.sh - from advice to a checkpoint in every layout with nothing but the recipe, and what
# runtimes leave of the candidates. About twenty seconds.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
scores=(--cache "$tmp/scores.json")

# through LAYOUT BUDGET: advise, quantize by the recipe alone, read, verify.
through() {
    rm -rf "$tmp/out.d" "$tmp/r.json"
    expect 0 advise "$model" --layout "$1" --budget "$2" "${scores[@]}" -o "$tmp/r.json" --json
    json_is layout "$1"
    cp "$tmp/out" "$tmp/advice"
    expect 0 quantize "$model" --recipe "$tmp/r.json" -o "$tmp/out.d/"
    error_says 'tensors measured as promised, 0 not, 0 edited'
    expect 0 inspect "$tmp/out.d" --json
    [ "$1" = kerf ] || check "all in layout $1" test "$(json 'weights.*.layout' | grep -v null | sort -u)" = "$1"
    expect 0 verify "$model" "$tmp/out.d"
}
for layout in kerf compressed-tensors compressed-tensors-naive modelopt deepseek bitsandbytes gptq gptq-v2; do
    through "$layout" 9bits
done
through compressed-tensors 5.2bits
check "it mixes formats" test "$(sort -u <("$TOOLS/json_get" 'groups.*.codec' <"$tmp/advice") | wc -l)" -ge 2
for layout in modelopt bitsandbytes gptq; do # one format, and what is kept beside it
    through "$layout" 5.2bits
    formats=$("$TOOLS/json_get" 'groups.*.codec' <"$tmp/advice" | grep -v keep | sort -u | wc -l)
    check "$layout has one format, not $formats" test "$formats" -eq 1
done

# Candidates that are named must fit; those of a pattern are left out.
expect 3 advise "$model" --layout modelopt --budget 9bits -f nf4
error_says 'does not take nf4'
expect 0 advise "$model" --layout modelopt --budget 9bits -f '*' --json "${scores[@]}"
expect 3 advise "$model" --layout gguf --budget 9bits -f int8

# Runtimes.
on() { expect 0 advise "$model" --runtime "$1" --hardware "$2" --budget "$3" "${scores[@]}" -o "$tmp/r.json" -y --json; }
on vLLM b200 9bits
json_is runtime vllm
json_is layout compressed-tensors
check "no int8 on sm_100" bash -c "! grep -q '\"codec\": \"int8:' '$tmp/out'"
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
