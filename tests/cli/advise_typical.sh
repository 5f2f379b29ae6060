#!/usr/bin/env bash
# advise_typical.sh - which format, from a config.json alone. A second or two.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
config=$DATA/configs/llama-3.1-8b.json

expect 0 advise "$config" --hardware rtx4090 --budget 60tok/s
output_says 'typical t2'
output_says 'With the weights, kerf advise FOLDER measures them'
check "it fits 80 columns" awk 'length > 80 { bad = 1 } END { exit bad }' "$tmp/out"
expect 0 advise "$config" --hardware 'RTX 4090' --budget 60tok/s:likely --json
json_is schema kerf.advise-typical/1
check "16 GB do not fit with 24 GB less than 1" awk -v g="$(json formats.0.weight_bytes)" 'BEGIN { exit !(g > 4e9 && g < 12e9) }'
check "errors rise" awk 'NR > 1 && $1 < last { exit 1 } { last = $1 }' <(json 'formats.*.typical_t2')
best=$(json best)
check "there is a best one" test -n "$best"
check "and it holds" awk -v b="$best" 'BEGIN { bad = 1 } $1 == b { bad = $2 != 2 } END { exit bad }' <(paste <(json 'formats.*.codec') <(json 'formats.*.holds'))
check "all before it do not" awk -v b="$best" '$1 == b { exit } $2 == 2 { bad = 1 } END { exit bad }' <(paste <(json 'formats.*.codec') <(json 'formats.*.holds'))
# The slow end is harder to meet than the middle.
expect 0 advise "$config" --hardware rtx4090 --budget 60tok/s --json
slow=$(json 'formats.*.holds' | grep -c 2)
expect 0 advise "$config" --hardware rtx4090 --budget 60tok/s:likely --json
check "fewer hold at the slow end" test "$slow" -lt "$(json 'formats.*.holds' | grep -c 2)"
# Memory, with the cache.
expect 0 advise "$DATA/configs/llama-3.1-70b.json" --hardware rtx4090 --budget 1tok/s --json
check "70 billion do not fit a card of 24 GB" bash -c "! grep -q '\"fits\": true' '$tmp/out'"
expect 0 advise "$config" --hardware rtx4090 --batch 64 --context 32768 --budget 1tok/s --json
check "nor does such a cache" bash -c "! grep -q '\"fits\": true' '$tmp/out'"
expect 0 advise "$DATA/configs/llama-3.1-70b.json" --hardware rtx4090 --budget 1tok/s
output_says 'No format fits in the memory of rtx4090'
expect 0 advise "$config" --hardware gb10 --budget 60tok/s
output_says 'not even at the fast end of its band'
expect 0 advise "$config" --hardware gb10 --budget 35tok/s
output_says 'No format holds at the slow end'
# What is too large for a limit of size is not said to be too slow, and what would do does.
expect 0 advise "$config" --hardware rtx4090 --budget 3bits
output_says 'within the budget: the least is 4.1250 bits, 5.71 GB of weights'
expect 0 advise "$config" --hardware rtx4090 --budget 3GB --budget 300tok/s
output_says 'within the budget: the least is 4.1250 bits, 5.71 GB of weights'
expect 0 advise "$config" --hardware rtx4090 --budget 4.125bits --budget 5.71GB
output_says 'the least error of what fits and holds'
# Runtimes and layouts leave what they load.
expect 0 advise "$config" --runtime vllm --hardware b200 --budget 16bits --json
check "no int8 on sm_100" bash -c "! grep -q '\"codec\": \"int8:' '$tmp/out'"
expect 0 advise "$config" --layout gptq --hardware a100 --budget 16bits --json
check "gptq has integers" bash -c "! grep -q '\"codec\": \"nvfp4' '$tmp/out'"
expect 0 advise "$config" --runtime llama.cpp --hardware rtx4090 --budget 60tok/s
output_says '^q4_k:ggml: the least error of what fits'
check "it fits 80 columns" awk 'length > 80 { bad = 1 } END { exit bad }' "$tmp/out"
# Blocks of 256 do not go into rows of 896.
sed 's/"hidden_size": [0-9]*/"hidden_size": 896/; s/"num_attention_heads": [0-9]*/"num_attention_heads": 14/
    s/"num_key_value_heads": [0-9]*/"num_key_value_heads": 2/' "$config" >"$tmp/short.json"
expect 0 advise "$tmp/short.json" --layout gguf --hardware rtx4090 --budget 16bits --json
check "q8_0 for short rows" grep -q 'ggml-q8_0:ggml' "$tmp/out"
check "and no q4_k" bash -c "! grep -q 'q4_k' '$tmp/out'"
# An object inside a config.json leaves out what is usual: Gemma 3 its vocabulary and heads.
expect 0 advise "$DATA/configs/gemma-3-4b.json" --hardware rtx4090 --budget 60tok/s --json
json_is type gemma3_text
check "its 3.9 billion parameters" awk -v b="$(json 'formats.*.weight_bytes' | sort -g | tail -1)" 'BEGIN { exit !(b > 4.5e9 && b < 4.7e9) }'
expect 0 predict --hardware rtx4090 --model "$DATA/configs/gemma-3-4b.json"
# Bits are held to a limit as they are printed: 4.500 of nvfp4.
expect 0 advise "$config" --hardware rtx4090 --budget 4.5bits -f nvfp4 --json
json_is best nvfp4:amax
expect 0 advise "$config" --hardware rtx4090 --budget 4.5bits -f nvfp4,mxfp8-e4m3
check "nvfp4 is 4.500 bits and within the budget" grep -q '^nvfp4:amax  *4.500 .* yes$' "$tmp/out"
expect 0 advise "$config" --hardware rtx4090 --budget 4.499bits -f nvfp4
output_says 'No format that fits is within the budget: the least is 4.5001 bits'
# What needs the weights is refused.
expect 2 advise "$config" --hardware rtx4090 --budget 60tok/s -o "$tmp/r.json"
error_says 'needs the weights'
for option in --bos --length=64 --rows=0:2 --keep='*' --only='*' --nan=zero; do
    expect 2 advise "$config" --hardware rtx4090 --budget 60tok/s "$option"
    error_says "${option%=*} needs the weights"
done
expect 2 advise "$config" --hardware rtx4090 --budget 60tok/s --budget 0.01t2
error_says 'a limit on t2 needs the weights'
expect 2 advise "$config" --budget 60tok/s
error_says 'hardware NAME is needed'
expect 3 advise "$config" --hardware rtx4090 --budget 60tok/s --layout torchao
finish
