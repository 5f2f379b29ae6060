#!/usr/bin/env bash
# bench.sh - times of this machine: what is printed feeds compare, hardware and predict.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 0 bench gemv -f nvfp4,int8 --shape 64x256,100x1000 --batch 1,3 -n 3
check "eight lines" test "$(grep -cE '^(64x256|100x1000) ' "$tmp/out")" -eq 8
output_says 'this machine reads'

expect 0 bench gemv -f 'nvfp4*,nf4-dq,fp8-e4m3-128x128,ggml-q8_0' --shape 256x512 -n 2 --dtype fp32 --json -j 1
json_is schema kerf.bench.gemv/1
json_is results.# 4
check "these formats" test "$(json 'results.*.format' | sort | tr '\n' ' ')" = 'fp8-e4m3-128x128 ggml-q8_0 nf4-dq nvfp4 '
json_is results.0.batch 1
json_is machine.threads 1
# Both sides ran: a kernel that leaves y alone is off by all of it.
check "errors are those of rounding" test -z "$(json 'results.*.rms_error' | awk '!($1 < 1e-4)')"
check "times are positive" test -z "$(json 'results.*.us' | awk '!($1 > 0)')"
cp "$tmp/out" "$tmp/bench.json"
expect 0 compare "$tmp/bench.json" --hardware epyc-9654
expect 0 bench gemv -f all --shape 128x256 -n 1 --json
check "every format" test "$(json results.#)" -ge 49

expect 0 hardware --measure -f nvfp4 -n 1
json_is schema kerf.hardware/1
json_is kind cpu
json_is tables.0.us.# 24 # whether a line fits them depends on what else runs
check "a stream was measured" awk -v x="$(json facts.stream_gbps.value)" 'BEGIN { exit !(x > 0.01) }'
check "corners, and no line has two" test "$(json 'tables.0.n.*' | sort -n | uniq -c | awk '$1 > 2 { n++ } END { print n + 0 }')" -eq 0
json_is tables.0.n.0 1024.0
check "rows end in all ways" test "$(json 'tables.0.k.*' | awk '{ print $1 % 512 == 0 ? "whole" : $1 % 256 == 0 ? "half" : "odd" }' | sort -u | wc -l)" -eq 3
cp "$tmp/out" "$tmp/mine.json"
expect 0 predict --hardware "$tmp/mine.json" --shape 3000x3000 -f nvfp4 --json
json_is predictions.0.tier table
expect 0 hardware --measure -f q6_k,fp8-e4m3 -n 1 # blocks have anchors of their own
json_is tables.# 2
json_is tables.1.format q6_k
json_is tables.1.us.# 24
check "rows of whole blocks, some of whole copies" test "$(json 'tables.1.k.*' | awk '{ print $1 % 2048 == 0 ? "copies" : $1 % 256 == 0 ? "blocks" : "part" }' | sort -u | tr '\n' ' ')" = 'blocks copies '
check "others as before" test "$(json 'tables.0.k.*' | tr '\n' ' ')" = "$("$TOOLS/json_get" 'tables.0.k.*' <"$tmp/mine.json" | tr '\n' ' ')"
expect 0 hardware h200 --measure -f nvfp4 -n 1 --shape 64x64,64x128,128x64,128x128
json_is tables.0.us.# 4
json_is facts.bandwidth_gbps.value "$("$KERF" hardware h200 --json | "$TOOLS/json_get" facts.bandwidth_gbps.value)"

expect 2 bench
expect 2 bench gemm
error_says 'gemv'
expect 2 bench gemv --hardware h200
error_says 'add --device cuda'
expect 2 bench gemv --batch 17
error_says 'at most 16'
expect 2 bench gemv --shape 64
expect 2 bench gemv -f nvfp5
expect 2 bench gemv -n 0
expect 0 hardware h200 --measure -f nvfp4 -n 1 --shape 64x64,64x128,128x64,128x128
for option in '-f nvfp4' '-n 1' '-b 4' '--dtype fp16' '--shape 64x64'; do
    # shellcheck disable=SC2086
    expect 2 hardware h200 $option
    error_says 'is for --measure$'
done
expect 2 hardware h200 --measure --measured "$tmp/bench.json"
finish
