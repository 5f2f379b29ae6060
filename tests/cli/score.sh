#!/usr/bin/env bash
# score.sh - figures of real weights, and the order in which encoders must stand.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Four Over Six beats plain amax on every matrix, and the sweep beats both over the model.
expect 0 score "$model" -f nvfp4:amax,nvfp4:4/6,nvfp4:sweep --zstd-level 0 --json
json_is schema kerf.score/1
json_is tensors.# $((28 * 3))
paste <(json 'tensors.*.format') <(json 'tensors.*.t2') <(json 'tensors.*.name') >"$tmp/t2"
wins=$(awk -F '\t' '$1 == "nvfp4:amax" { amax[$3] = $2 }
    $1 == "nvfp4:4/6" { fos[$3] = $2 }
    END { for (n in amax) wins += (fos[n] + 0 < amax[n] + 0); print wins }' "$tmp/t2")
check "4/6 has the lower t2 on all 28 matrices, not on $wins" test "$wins" -eq 28
order=$(paste <(json 'totals.*.format') <(json 'totals.*.t2') | sort -g -k 2 | cut -f 1 | paste -sd ' ')
check "sweep, 4/6, amax; not $order" test "$order" = "nvfp4:sweep nvfp4:4/6 nvfp4:amax"

# Sums over tensors give the totals.
expect 0 score "$model" -f mxfp4,int8 --imatrix "$model/imatrix.safetensors" --json
for key in elements bytes zstd_bytes; do
    sum=$(paste <(json 'tensors.*.format') <(json "tensors.*.$key") |
        awk '$1 == "mxfp4:even" { sum += $2 } END { printf "%d", sum }')
    json_is "totals.0.$key" "$sum"
done
json_is totals.0.bpw 4.25
check "weighted errors" test "$(json 'tensors.*.weighted_t2' | wc -l)" -eq 56
totals=$(json totals)
for j in 1 3; do
    expect 0 score "$model" -f mxfp4,int8 --imatrix "$model/imatrix.safetensors" --json -j "$j"
    check "-j $j gives the same figures" test "$totals" = "$(json totals)"
done

# An importance of one everywhere is no importance; figures are those of verify.
expect 0 score "$model" -f nf4 --json
t2=$(json totals.0.t2) max_error=$(json totals.0.max_error)
"$KERF" quantize "$model" -f nf4 -o "$tmp/q" 2>/dev/null
expect 0 verify "$model" "$tmp/q" --json
json_is total.t2 "$t2"
json_is total.max_error "$max_error"

# Three panels of a tensor, of which a crew takes parts: one worker or five find the same bits, with
# values that a matrix has once, second-level scales, and bands that are not of one size.
"$TOOLS/make_model" big "$tmp/big.safetensors" 12
codecs=nvfp4,nvfp4:4/6,nf4-dq,int8-tensor,fp8-e4m3-128x128,mxfp6-e2m3
expect 0 score "$tmp/big.safetensors" -f "$codecs" --json -j 1
totals=$(json totals)
json_is totals.# 6
json_is totals.0.t2 0.00071138883952332344
for j in 2 5; do
    expect 0 score "$tmp/big.safetensors" -f "$codecs" --json -j "$j"
    check "-j $j gives the same figures of panels" test "$totals" = "$(json totals)"
done
for codec in nvfp4 int8-tensor nf4-dq; do
    expect 0 score "$tmp/big.safetensors" -f "$codec" --json
    t2=$(json totals.0.t2) bias=$(json totals.0.bias)
    "$KERF" quantize "$tmp/big.safetensors" -f "$codec" -y -o "$tmp/q.safetensors" 2>/dev/null
    for j in 1 3; do
        expect 0 verify "$tmp/big.safetensors" "$tmp/q.safetensors" --json -j "$j"
        json_is total.t2 "$t2"
        json_is total.bias "$bias"
    done
done

# Gaussian weights: t2 as published, within 2 %.
"$TOOLS/make_model" gaussian "$tmp/gaussian.safetensors"
published="bf16:rne 2.75e-6
int8:amax 7.5e-5
fp8-e4m3-row:amax 7.02e-4
mxfp8-e4m3:floor 8.60e-4
mxfp6-e2m3:floor 7.85e-4
nvfp4:amax 9.04e-3
nvfp4:4/6 7.56e-3
nvfp4:sweep 6.59e-3
nf4:bnb-cpu 8.46e-3
mxfp4:floor 1.30e-2
mxfp4:rceil 1.40e-2
int4-g128:amax 1.38e-2
int4-g32-asym:minmax 6.53e-3"
list=$(cut -d ' ' -f 1 <<<"$published" | paste -sd ,)
expect 0 score "$tmp/gaussian.safetensors" -f "$list" --zstd-level 0 --json
near=$(paste -d ' ' <(json 'totals.*.format') <(json 'totals.*.t2') | awk '
    NR == FNR { t2[$1] = $2; next }
    { off = t2[$1] / $2 - 1; if (off < 0.02 && off > -0.02) n++; else print $1, t2[$1] > "/dev/stderr" }
    END { print n }' - <(echo "$published"))
check "13 formats have the published t2, not $near" test "$near" -eq 13

# --- lists --------------------------------------------------------------------------------------
count() { # EXPECTED LIST
    expect 0 score "$model" -f "$2" --only '*layers.0.*v_proj*' --zstd-level 0 --json
    json_is totals.# "$1"
}
count 1 nvfp4
count "$("$KERF" formats nvfp4 --json | "$TOOLS/json_get" 'formats.*.encoders.*.name' | wc -l)" 'nvfp4:*'
count 2 nf4,int8
count 2 int8,int8,nf4
count 3 'nf4*'

# Of a pattern, what cannot encode BF16 weights is left out with the reason; by name it is refused.
all=$("$KERF" formats --json | "$TOOLS/json_get" 'formats.*.encoders.*.name' | wc -l)
expect 0 score "$model" -f all --only '*layers.0.*v_proj*' --zstd-level 0 --json
json_is totals.# "$((all - $(grep -c '^left out: ' "$tmp/err")))"
error_says '^left out: int4-g32-f16:ct: .*scales in the type of the source, BF16'
expect 3 score "$model" -f nvfp4,int4-g32-f16:ct
error_says 'int4-g32-f16:ct computes its scales'
expect 0 score "$model" -f nvfp4 --only '*v_proj*'
output_says '^model.layers.3.self_attn.v_proj.weight  nvfp4:amax'
expect 0 score "$model" -f nvfp4
check "one line for the model" test "$(grep -c nvfp4 "$tmp/out")" -eq 1
expect 0 score "$model" -f nvfp4 --per-tensor
check "one line per tensor" test "$(grep -c nvfp4 "$tmp/out")" -eq 29
expect 0 score "$model" -f bf16 --all-tensors --json
json_is tensors.# 38
json_is totals.0.t2 0.0

# --- wrong --------------------------------------------------------------------------------------
expect 3 score "$model" -f nvfp4 --imatrix "$model/config.json"
"$TOOLS/make_model" groups "$tmp/groups.safetensors"
expect 3 score "$tmp/groups.safetensors" -f nvfp4 --imatrix "$tmp/groups.safetensors"
error_says 'one value per column'
expect 3 score "$model" -f nvfp4 --imatrix "$tmp/groups.safetensors"
error_says 'names none of the tensors'
"$TOOLS/make_model" nan "$tmp/nan.safetensors"
expect 3 score "$tmp/nan.safetensors" -f nvfp4
error_says 'a.weight: element 327'
expect 0 score "$tmp/nan.safetensors" -f nvfp4 --nan zero
# A part that cannot be read, while workers with later parts wait for it: all of them stop.
"$KERF" quantize "$tmp/big.safetensors" -f mxfp4 -o "$tmp/big-q.safetensors" 2>/dev/null
"$KERF" dequantize "$tmp/big-q.safetensors" -o "$tmp/bad.safetensors.zst" 2>/dev/null
printf '\125\252\125\252\125\252\125\252' | dd of="$tmp/bad.safetensors.zst" bs=1 conv=notrunc \
    seek=$(($(stat -c %s "$tmp/bad.safetensors.zst") / 4)) 2>/dev/null
for run in "verify $tmp/bad.safetensors.zst $tmp/big-q.safetensors" \
    "score $tmp/bad.safetensors.zst -f mxfp4,int4-g128"; do
    for threads in 1 2 3 5; do
        # shellcheck disable=SC2086 # words
        code=0 && timeout 60 "$KERF" $run -j $threads >/dev/null 2>"$tmp/err" || code=$?
        check "a damaged part ends ${run%% *} with $threads threads" test $code -eq 3
        error_says 'zstd frame [0-9]* is damaged'
    done
done
# In two parts of a tensor, found by different workers: the first one is told.
for at in 9000000 3000000; do
    printf '\377\377' | dd of="$tmp/big.safetensors" bs=1 seek=$at conv=notrunc 2>/dev/null
done
for codecs in mxfp4,int4-g128 nvfp4,mxfp4; do
    expect 3 score "$tmp/big.safetensors" -f "$codecs" -j 4
    error_says 'layers.0.weight: element 1499936 is NaN, at \[366, 800\]'
done
finish
