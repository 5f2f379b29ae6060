#!/bin/sh
# e2e.sh - what quantization costs a real model: quantize it with the command, run it, compare its
# perplexity with the one that its trainers measured.
#
#   e2e.sh CASE PERPLEXITY KERF MODEL     one case of those below; exit 1 when it does not hold
set -eu
export LC_ALL=C

case_name=$1 perplexity=$2 kerf=$3 model=$4
reference=7.8341 # meta.json of the model: BF16 weights, float32 activations

work=$(mktemp -d "${TMPDIR:-/tmp}/kerf-e2e.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() { echo "e2e $case_name: $*" >&2; exit 1; }

# evaluate FOLDER -> sets $value to its perplexity, every digit of it, and $quantized
evaluate() {
    report=$("$perplexity" "$1" "$model/eval.u16" --json)
    value=$(printf '%s\n' "$report" | sed -n 's/.*"perplexity": \([0-9.e+]*\).*/\1/p')
    quantized=$(printf '%s\n' "$report" | sed -n 's/.*"quantized": \([0-9]*\).*/\1/p')
    echo "e2e $case_name: $1: perplexity $value, $quantized quantized weights"
    [ -n "$value" ] || fail "no perplexity"
}

# near EXPECTED TOLERANCE: what $value must be
near() {
    awk -v v="$value" -v e="$1" -v tolerance="$2" \
        'BEGIN { exit !(v >= e - tolerance && v <= e + tolerance) }' ||
        fail "$value is not $1 within $2"
}

# quantize CODEC: the model becomes $work/quantized, whose 28 matrices are no longer dense
quantize() { "$kerf" quantize "$model" -f "$1" -o "$work/quantized" >/dev/null; }

case $case_name in
bf16)
    evaluate "$model"
    [ "$quantized" = 0 ] || fail "the model itself is dense"
    near $reference 0.005
    ;;
nvfp4) # decoded by the library as it reads, or by the command beforehand: the same model; 8.505
       # is what the definition of 4/6 gives, written down once more in NumPy and doubles
    quantize nvfp4:4/6
    evaluate "$work/quantized"
    [ "$quantized" = 28 ] || fail "$quantized of 28 matrices quantized"
    near 8.505 0.005
    direct=$value
    "$kerf" dequantize "$work/quantized" --dtype fp32 -o "$work/dense" >/dev/null
    evaluate "$work/dense"
    [ "$quantized" = 0 ] || fail "dequantize left $quantized matrices"
    [ "$value" = "$direct" ] || fail "dequantized $value, decoded directly $direct"
    ;;
int8)
    quantize int8
    evaluate "$work/quantized"
    [ "$quantized" = 28 ] || fail "$quantized of 28 matrices quantized"
    near $reference 0.02
    ;;
advised) # fewer bits than the best single format of its size class, int4-g32-asym:search, allows,
         # and less perplexity than its 8.4457: a recipe must be worth its name
    "$kerf" advise "$model" --budget 4.625bits -f nvfp4:sweep,int4-g32-asym:search,mxfp6-e2m3,nf4-dq \
        -o "$work/recipe.json" >/dev/null
    "$kerf" quantize "$model" --recipe "$work/recipe.json" -o "$work/quantized" >/dev/null
    evaluate "$work/quantized"
    [ "$quantized" = 28 ] || fail "$quantized of 28 matrices quantized"
    awk -v v="$value" 'BEGIN { exit !(v < 8.40) }' || fail "$value is not below 8.40"
    ;;
*) fail "no such case" ;;
esac
