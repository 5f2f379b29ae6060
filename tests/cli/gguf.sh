#!/usr/bin/env bash
# gguf.sh - GGUF files through every verb: keys and what is not quantized stay byte for byte, blocks
# and planes turn into each other and back, and what cannot be is refused.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for kind in bf16 f16 f32 aligned foreign nvfp4; do "$TOOLS/make_gguf" $kind "$tmp/$kind.gguf"; done
in=$tmp/bf16.gguf

# --- inspect ------------------------------------------------------------------------------------
for kind in bf16 f16 f32 aligned foreign nvfp4; do expect 0 inspect "$tmp/$kind.gguf"; done
run inspect "$in" --json
row_is weights blk.0.attn_q.weight dtype BF16
check "dimensions are outermost first" \
    test "$(json 'weights.5.shape.*' | tr '\n' ' ')" = "5 33 192 "
run inspect "$tmp/nvfp4.gguf" --json
row_is weights s.weight format nvfp4
row_is weights s.weight layout gguf
row_is weights e_exps.weight bytes 228 # with the scales beside it
row_is weights plain.weight format ggml-nvfp4
json_is totals.quantized 3
run inspect "$tmp/foreign.gguf"
output_says 'k.weight *attention k *2x256 *IQ2_XXS .* 2.06'

# --- quantize -----------------------------------------------------------------------------------
# Only what changes differs: the keys but for the file type, and all tensors that are kept.
bytes_at() { tail -c +$(($2 + 1)) "$1" | head -c "$3"; }
file_type_at() { grep -abo general.file_type "$1" | head -n 1 | cut -d : -f 1; }
file_type() { bytes_at "$1" $(($(file_type_at "$1") + 21)) 4 | od -An -tu4 | tr -d ' '; }
tensor_bytes() { # FILE TENSOR
    local offset size
    read -r offset size < <("$KERF" inspect "$1" --planes --wide | awk -v name="$2" '$1 == name { print $6, $4 }')
    bytes_at "$1" "$offset" "$size"
}
for pair in ggml-q8_0=7 ggml-q4_0=2 ggml-mxfp4=38 ggml-nvfp4=39 nvfp4:4/6=39 mxfp4:even=38 \
    int4-g32-f16:search=2; do
    format=${pair%=*} type=${pair#*=}
    out=$tmp/q-${format//[:\/]/-}.gguf
    expect 0 quantize "$in" -f "$format" -o "$out"
    check "file type of $format" test "$(file_type "$out")" = "$type"
    at=$(($(file_type_at "$in") + 25)) end=$(grep -abo token_embd.weight "$in" | head -n 1 | cut -d : -f 1)
    check "keys after $format" cmp -s <(bytes_at "$in" 24 $((at - 4 - 24))) <(bytes_at "$out" 24 $((at - 4 - 24)))
    check "more keys after $format" test "$(grep -abo a.none "$in")" = "$(grep -abo a.none "$out")"
    check "rest of the keys after $format" cmp -s <(bytes_at "$in" $at $((end - 8 - at))) <(bytes_at "$out" $at $((end - 8 - at)))
    for kept in token_embd.weight blk.0.attn_norm.weight blk.0.attn_q.bias blk.0.ffn_gate_inp.weight output.weight; do
        check "$kept after $format" cmp -s <(tensor_bytes "$in" $kept) <(tensor_bytes "$out" $kept)
    done
    expect 0 inspect "$out" --json
    json_is totals.quantized 4
    expect 0 verify "$in" "$out"
    expect 0 quantize "$in" -f "$format" -o "$out" -y -j 1
done
# Rows that blocks of 256 do not fit get what llama.cpp takes for them.
"$TOOLS/make_gguf" rows "$tmp/rows.gguf"
for pair in q2_k=ggml-q4_0 q3_k=ggml-q4_0 q4_k=q5_0 q5_k=q5_1 q6_k=ggml-q8_0 iq4_xs=iq4_nl; do
    expect 0 quantize "$tmp/rows.gguf" -f "${pair%=*}" -o "$tmp/fit.gguf" -y
    error_says "3 of 4 tensors quantized"
    error_says "2 tensors in ${pair#*=} in place of ${pair%=*}, .*: blk.0.ffn_down.weight, blk.0.ffn_up.weight"
    error_says "1 tensor kept, which layout gguf cannot hold in ${pair%=*}: blk.0.attn_output.weight"
    expect 0 verify "$tmp/rows.gguf" "$tmp/fit.gguf"
    "$KERF" quantize "$tmp/rows.gguf" -f "${pair#*=}" -o "$tmp/named.gguf" -y >/dev/null 2>&1
    for name in blk.0.ffn_down.weight blk.0.ffn_up.weight; do
        check "${pair%=*} is ${pair#*=} there" cmp -s <(tensor_bytes "$tmp/fit.gguf" $name) <(tensor_bytes "$tmp/named.gguf" $name)
    done
    run inspect "$tmp/fit.gguf" --json
    row_is weights blk.0.attn_q.weight format "${pair%=*}"
    row_is weights blk.0.attn_output.weight dtype BF16
done
expect 0 quantize "$tmp/rows.gguf" -f q4_k -o "$tmp/x.gguf" --dry-run
output_says 'blk.0.ffn_down.weight .*q5_0:ggml (q4_k takes no rows of 320)'
output_says 'blk.0.attn_output.weight .*kept (q4_k has blocks of 256 .*; a row of 40 is no multiple of that) '
expect 0 quantize "$tmp/rows.gguf" -f q4_k -o "$tmp/x.gguf" --dry-run --json
row_is tensors blk.0.ffn_down.weight reason "q4_k takes no rows of 320"
expect 2 quantize "$tmp/rows.gguf" -f q4_k --tensor '*ffn_down*=q4_k' -o "$tmp/x.gguf" # by name it stays an error
error_says 'ffn_down.weight cannot be quantized: q4_k has blocks of 256'
expect 3 quantize "$tmp/rows.gguf" -f q4_k -o "$tmp/x.safetensors" # kerf's own layout has nothing to fall back to
error_says 'a row of 320 is no multiple of that; keep this tensor in its type'
absent "$tmp/x.gguf"
expect 2 quantize "$tmp/rows.gguf" -f q4_k:imatrix --only '*ffn_down*' -o "$tmp/x.gguf"
error_says 'q4_k:imatrix weighs errors .* or take q4_k:ggml'
{
    printf '\1\0\0\0\25\0\0\0blk.0.ffn_down.weight\2\0\0\0\100\1\0\0'
    for _ in {1..320}; do printf '\0\0\110\103'; done
} >"$tmp/imatrix.dat"
expect 0 quantize "$tmp/rows.gguf" -f q4_k:imatrix --only '*ffn_down*' --imatrix "$tmp/imatrix.dat" -o "$tmp/x.gguf" --dry-run --json
row_is tensors blk.0.ffn_down.weight format q5_0:imatrix
# ggml's own encoders write the same from every source type whose numbers are the same.
"$KERF" dequantize "$tmp/q-ggml-q8_0.gguf" -o "$tmp/wide.gguf" 2>/dev/null
expect 0 quantize "$tmp/wide.gguf" -f ggml-q8_0 -o "$tmp/again.gguf"
check "Q8_0 of what Q8_0 decodes to" \
    cmp -s <(tensor_bytes "$tmp/q-ggml-q8_0.gguf" blk.0.ffn_down.weight) <(tensor_bytes "$tmp/again.gguf" blk.0.ffn_down.weight)
expect 0 quantize "$tmp/aligned.gguf" -f ggml-nvfp4 -o "$tmp/a.gguf" --dry-run
output_says 'odd.weight .*no short ones'
output_says 'empty.weight .*kept'
expect 0 quantize "$tmp/aligned.gguf" -f ggml-nvfp4 -o "$tmp/a.gguf"
expect 0 inspect "$tmp/a.gguf" --planes
check "alignment stays 64" test "$(grep -c ' [0-9]*$' "$tmp/out")" -gt 0
for offset in $("$KERF" inspect "$tmp/a.gguf" --json | "$TOOLS/json_get" 'weights.*.planes.*.offset'); do
    check "offset $offset" test $((offset % 64)) = 0
done
check "a file type is written where there was none" test "$(file_type "$tmp/a.gguf")" = 1
expect 0 quantize "$tmp/foreign.gguf" -f ggml-q4_0 -o "$tmp/mixed.gguf"
check "IQ2_XXS stays" cmp -s <(tensor_bytes "$tmp/foreign.gguf" k.weight) <(tensor_bytes "$tmp/mixed.gguf" k.weight)
expect 0 score "$in" -f ggml-q8_0,nvfp4:4/6
expect 0 quantize "$in" -f ggml-q8_0 --dry-run --json
json_is layout gguf

# A recipe is measured on what was written, whose blocks do not name their encoder.
expect 0 advise "$in" --budget 5bits -f nvfp4:4/6,mxfp4:even,ggml-q8_0 -o "$tmp/recipe.json"
expect 0 quantize "$in" --recipe "$tmp/recipe.json" -o "$tmp/r.gguf"
error_says ' 3 tensors measured as promised, 0 not, 0 edited'
expect 0 quantize "$in" --recipe "$tmp/recipe.json" --tensor '*attn_q.weight=ggml-q4_0' -o "$tmp/r.gguf" -y
error_says ' 2 tensors measured as promised, 0 not, 1 edited'

# --- dequantize ---------------------------------------------------------------------------------
expect 0 dequantize "$tmp/q-nvfp4-4-6.gguf" -o "$tmp/d.gguf" --dtype bf16
check "file type of bf16" test "$(file_type "$tmp/d.gguf")" = 32
check "its scales are multiplied in, and gone" test "$("$KERF" inspect "$tmp/d.gguf" --planes | grep -c scale)" = 0
expect 0 verify "$tmp/d.gguf" "$tmp/q-nvfp4-4-6.gguf"
expect 0 dequantize "$tmp/q-nvfp4-4-6.gguf" -o "$tmp/d.safetensors"
run inspect "$tmp/d.safetensors" --json
row_is weights blk.0.attn_q.weight dtype F32
expect 0 dequantize "$tmp/q-ggml-q8_0.gguf" -o "$tmp/d16.gguf" --dtype fp16
check "file type of f16" test "$(file_type "$tmp/d16.gguf")" = 1
expect 3 dequantize "$tmp/mixed.gguf" -o "$tmp/x.gguf"
error_says 'does not decode blocks of type IQ2_XXS'

# --- convert, and back byte for byte ------------------------------------------------------------
for format in nvfp4-4-6 ggml-nvfp4 ggml-mxfp4 mxfp4-even ggml-q4_0 int4-g32-f16-search ggml-q8_0; do
    expect 0 convert "$tmp/q-$format.gguf" --layout kerf -o "$tmp/k.safetensors" -y --json
    json_is losses "[]"
    expect 0 verify "$tmp/q-$format.gguf" "$tmp/k.safetensors"
    expect 0 convert "$tmp/k.safetensors" --layout gguf -o "$tmp/back.gguf" -y --json
    json_is losses "[]"
    same_file "$tmp/q-$format.gguf" "$tmp/back.gguf"
done
run inspect "$tmp/k.safetensors" --json
row_is weights blk.0.attn_q.weight format ggml-q8_0 # which has no planes of its own
# Layouts for matrices take a file of matrices; llama.cpp's names stay.
"$KERF" quantize "$in" -f nvfp4:4/6 -o "$tmp/two.gguf" --keep '*exps*' --keep '*attn_v*' 2>/dev/null
"$KERF" quantize "$in" -f ggml-mxfp4 -o "$tmp/twom.gguf" --keep '*exps*' --keep '*attn_v*' 2>/dev/null
expect 3 convert "$tmp/two.gguf" --layout modelopt -o "$tmp/mo" # names of llama.cpp: it would load nowhere
error_says 'convert the model that it was made from, or give one file, -o NAME.safetensors, or --layout kerf'
absent "$tmp/mo"
expect 0 convert "$tmp/two.gguf" --layout kerf -o "$tmp/mo" && rm -r "$tmp/mo"
expect 0 convert "$tmp/two.gguf" --layout modelopt -o "$tmp/mo.safetensors"
expect 0 convert "$tmp/mo.safetensors" --layout gguf -o "$tmp/mo.gguf"
same_file "$tmp/two.gguf" "$tmp/mo.gguf"
expect 0 convert "$tmp/mo.safetensors" --layout kerf -o "$tmp/mok.safetensors"
expect 0 convert "$tmp/mok.safetensors" --layout gguf -o "$tmp/mok.gguf"
same_file "$tmp/two.gguf" "$tmp/mok.gguf"
expect 0 convert "$tmp/twom.gguf" --layout compressed-tensors -o "$tmp/ct.safetensors"
expect 0 convert "$tmp/ct.safetensors" --layout gguf -o "$tmp/ct.gguf"
same_file "$tmp/twom.gguf" "$tmp/ct.gguf"
# A scale byte that is 0 to ggml and NaN to others is kept and told.
expect 0 convert "$tmp/nvfp4.gguf" --layout kerf -o "$tmp/n.safetensors" --json
check "says that a scale is read otherwise" test "$(json 'losses.*' | grep -c '^1 block scales')" = 1
expect 0 convert "$tmp/n.safetensors" --layout gguf -o "$tmp/n.gguf"
for name in s.weight e_exps.weight plain.weight norm.weight; do
    check "$name comes back" cmp -s <(tensor_bytes "$tmp/nvfp4.gguf" $name) <(tensor_bytes "$tmp/n.gguf" $name)
done
names() { "$KERF" inspect "$1" --planes | sed '1,2d' | cut -d ' ' -f 1; }
check "and its order" cmp -s <(names "$tmp/nvfp4.gguf") <(names "$tmp/n.gguf")

# --- models of several files --------------------------------------------------------------------
"$TOOLS/make_gguf" part1 "$tmp/p-00001-of-00002.gguf"
"$TOOLS/make_gguf" part2 "$tmp/p-00002-of-00002.gguf"
first=$tmp/p-00001-of-00002.gguf
expect 0 verify "$in" "$first"
output_says ' 10 equal to the source'
for format in ggml-q8_0 nvfp4:4/6; do # into one file, which is that of a model in one file
    expect 0 quantize "$first" -f $format -o "$tmp/one.gguf" -y
    same_file "$tmp/one.gguf" "$tmp/q-${format//[:\/]/-}.gguf"
done
expect 0 quantize "$first" -f nvfp4 -o "$tmp/parts"
check "a folder has parts of its own" test "$(cd "$tmp/parts" && echo *)" = \
    "model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json"
expect 0 verify "$first" "$tmp/parts"
expect 0 convert "$tmp/parts" --layout gguf -o "$tmp/back.gguf" -y
expect 0 verify "$tmp/parts" "$tmp/back.gguf"
expect 0 verify "$first" "$tmp/back.gguf"
check "the keys come back" cmp -s <(bytes_at "$tmp/back.gguf" 24 200) <(bytes_at "$tmp/q-nvfp4-4-6.gguf" 24 200)
expect 3 inspect "$tmp/p-00002-of-00002.gguf"
error_says 'is part 2 of 2: give the first, which is named \*-00001-of-00002.gguf'
cp "$first" "$tmp/p.gguf"
expect 3 inspect "$tmp/p.gguf"
error_says 'must be named \*-00001-of-00002.gguf'
mkdir "$tmp/bad"
cp "$first" "$tmp/bad/"
expect 4 inspect "$tmp/bad/p-00001-of-00002.gguf"
cp "$first" "$tmp/bad/p-00002-of-00002.gguf"
expect 3 inspect "$tmp/bad/p-00001-of-00002.gguf"
error_says 'is not part 2 of 2, as its name says'
sed "s/split.no/split.nx/" "$tmp/p-00002-of-00002.gguf" >"$tmp/bad/p-00002-of-00002.gguf"
expect 3 inspect "$tmp/bad/p-00001-of-00002.gguf"
LC_ALL=C sed 's/blk.0.attn_v.weight/blk.0.attn_q.weight/' "$tmp/p-00002-of-00002.gguf" >"$tmp/bad/p-00002-of-00002.gguf"
expect 3 inspect "$tmp/bad/p-00001-of-00002.gguf"
error_says 'is in two shards'

# --- refusals -----------------------------------------------------------------------------------
expect 2 quantize "$in" -f ggml-q8_0 --layout gguf -o "$tmp/x.safetensors"
error_says 'named \*.gguf'
expect 2 quantize "$in" -f nvfp4 --layout kerf -o "$tmp/x.gguf"
expect 3 quantize "$in" -f int8 -o "$tmp/x.gguf"
error_says 'layout gguf does not take int8'
expect 2 quantize "$in" -f ggml-q8_0 -o "$in" -y
expect 4 quantize "$in" -f ggml-q8_0 -o "$tmp/two.gguf"
expect 3 quantize "$tmp/foreign.gguf" -f nf4 -o "$tmp/x.safetensors"
error_says 'blocks of type IQ2_XXS'
absent "$tmp/x.gguf"
absent "$tmp/x.safetensors"
same_file "$in" <("$TOOLS/make_gguf" bf16 /dev/stdout)
finish
