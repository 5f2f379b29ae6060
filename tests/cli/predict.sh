#!/usr/bin/env bash
# predict.sh - predictions of shapes and of models, in text, CSV and JSON.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
configs=$DATA/configs

# A band, its label, and bytes that are those of the format.
expect 0 predict --hardware gb10 --shape 4096x4096 -f fp16,nvfp4
output_says 'nvfp4 .* 9.454  spec-only'
output_says 'fp16 .*33.571  spec-only'
output_says 'spec-only: from the data sheet of gb10'
expect 0 predict --hardware h200 --shape 4096x4096,7168x16384 -f nvfp4,int8 --batch 1,4096 --json
json_is schema kerf.predict/1
json_is predictions.# 8
json_is predictions.0.tier spec-only
json_is predictions.0.bound memory
json_is predictions.0.bytes 9453572.0
json_is predictions.2.bound math
json_is predictions.2.batch 4096
check "low below high" awk 'NR == FNR { low[NR] = $1; next } $1 <= low[FNR] { exit 1 }' \
    <(json 'predictions.*.low_us') <(json 'predictions.*.high_us')
expect 0 predict --hardware h200 --shape 4096x4096,7168x16384 -f nvfp4,int8 --batch 1,4096 --csv
check "a line per prediction and one of names" test "$(wc -l <"$tmp/out")" -eq 9
check "16 columns everywhere" awk -F , 'NF != 16 { exit 1 }' "$tmp/out"

# A pattern names each format once, whatever its encoders.
expect 0 predict --hardware b200 --shape 512x512 -f 'nvfp4:*' --json
json_is predictions.# 1

# Fits and tables of a file come first, and the label says so.
said='"source": "test", "date": "2026-11"'
fit='{"format": "nvfp4", "batch": [1, 8], "fixed_us": 2, "bandwidth_gbps": 4000, '$said'}'
table='{"format": "int8", "batch": 1, "n": [4096], "k": [4096], "us": [7.5], '$said'}'
"$KERF" hardware h200 --json |
    sed -e "s/\"fits\": \[\]/\"fits\": [$fit]/" -e "s/\"tables\": \[\]/\"tables\": [$table]/" >"$tmp/mine.json"
expect 0 predict --hardware "$tmp/mine.json" --shape 4096x4096 -f nvfp4,int8,mxfp4 --json
json_is predictions.0.tier spec-only
json_is predictions.1.tier fitted
json_is predictions.2.tier table
check "7.5 us" awk '{ exit !($1 > 7.4999 && $1 < 7.5001) }' <(json predictions.2.us)

# --- models -------------------------------------------------------------------------------------
expect 0 predict --hardware h200 --model "$configs/llama-3.1-8b.json" -f bf16 --wide
output_says '8.030 G parameters, 7.505 G pass per token'
output_says '65536 KV elements per token'
output_says '114512$'
output_says '^q_proj+k_proj+v_proj  *32 '
expect 0 predict --hardware h200 --model "$configs/deepseek-v3.json" -f fp8-e4m3-128x128,nvfp4 \
    --batch 1,64 --json
json_is schema kerf.predict-model/1
json_is parameters 671026419200.0
json_is predictions.# 4
json_is predictions.0.fits false
expect 0 predict --hardware h200 --model "$configs/gpt-oss-20b.json" -f bf16 --experts mxfp4 --csv
check "two lines" test "$(wc -l <"$tmp/out")" -eq 2
expect 0 predict --hardware epyc-9654 --model "$model" -f nvfp4 --prefill --context 128
output_says '^llama: 0.004 G parameters'
output_says 'prefill on epyc-9654'

expect 0 predict --hardware h100 --model "$configs/llama-3.1-70b.json" -f bf16 --gpus 4 --json
json_is gpus 4
json_is predictions.0.fits true
check "exchanges are labelled" grep -q '"all-reduce"' "$tmp/out"
expect 0 advise "$configs/llama-3.1-70b.json" --hardware h100 --gpus 4 --budget 40tok/s
output_says 'On 4 GPUs: [0-9.]* GB on each'
expect 2 predict --hardware h100 --model "$configs/llama-3.1-70b.json" --gpus 3
error_says 'cannot be divided by 3 GPUs'
expect 2 predict --hardware h100 --shape 64x64 --gpus 2

# --- wrong --------------------------------------------------------------------------------------
expect 2 predict --shape 4096x4096
error_says -- '--hardware NAME is missing'
expect 2 predict --hardware h200
error_says 'say what'
expect 2 predict --hardware hh200 --shape 1x1
error_says 'did you mean h200'
for wrong in 4096 4096x 0x4096 4096x4096x1 -1x5 4096x4096, 99999999999999999999x1; do
    expect 2 predict --hardware h200 --shape "$wrong"
    error_says 'expected NxK'
done
expect 2 predict --hardware h200 --shape 1x1 --batch 0
expect 2 predict --hardware h200 --shape 1x1 --context 5
error_says 'needs --model'
expect 2 predict --hardware h200 --shape 1x1 --model "$model"
expect 2 predict --hardware h200 --shape 1x1 --csv --json
expect 2 predict --hardware h200 --shape 1x1 --activations nvfp5
expect 3 predict --hardware h200 --model "$model/meta.json"
error_says 'no model_type'
expect 4 predict --hardware h200 --model "$tmp/absent"
finish
