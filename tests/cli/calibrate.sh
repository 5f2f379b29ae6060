#!/usr/bin/env bash
# calibrate.sh - kerf calibrate and eval on some rows of the small model: what they print, write and
# refuse, and that advice, scores and encoders take the folder.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
text="--tokens $model/eval.u16 --length 32"

# --- calibrate -----------------------------------------------------------------------------------

# shellcheck disable=SC2086 # words
expect 0 calibrate "$model" $text --rows 0:4 --gram --imatrix-gguf "$tmp/i.gguf" -o "$tmp/cal" --json
json_is schema kerf.calibrate/1
json_is tokens 128
json_is weights.# 28
json_is weights.0.gram true
check "time and memory are told" grep -q '128 tokens, 4 layers, 28 weights, 16 groups .* s, .*iB' "$tmp/err"
check "a file per layer and an index" test "$(find "$tmp/cal" -type f | wc -l)" -eq 5
# shellcheck disable=SC2086
expect 4 calibrate "$model" $text --rows 0:4 -o "$tmp/cal"
# shellcheck disable=SC2086
expect 2 calibrate "$model" $text --rows 4:2 -o "$tmp/other"
# shellcheck disable=SC2086
expect 2 calibrate "$model" $text --rows 0:2 -o "$tmp/other"
check "and says how to go on" grep -q -e '--length N' "$tmp/err"
expect 2 calibrate "$model" -o "$tmp/other"
expect 2 calibrate "$model" --tokens "$model/eval.u16"
: >"$tmp/there.gguf" # found before the work, not after it
# shellcheck disable=SC2086
expect 4 calibrate "$model" $text --rows 0:4 --imatrix-gguf "$tmp/there.gguf" -o "$tmp/other"
error_says 'exists; -y replaces it'
check "nothing is left behind" test ! -e "$tmp/other"
# shellcheck disable=SC2086
expect 2 calibrate "$model" $text --rows 0:4 --alpha 8 --alpha-by none -o "$tmp/other"
error_says 'not both'

# --- what takes it -------------------------------------------------------------------------------

expect 0 score "$model" -f mxfp4 --calibration "$tmp/cal" --zstd-level 0 --json
full=$(json totals.0.weighted_t2)
expect 0 score "$model" -f mxfp4 --imatrix "$tmp/cal" --zstd-level 0 --json
weighted=$(json totals.0.weighted_t2)
check "Gram matrices say more than their diagonals" awk -v a="$weighted" -v b="$full" \
    'BEGIN { exit !(b > 0 && (a - b) ^ 2 > (1e-3 * a) ^ 2 && b < 2 * a && a < 2 * b) }'
expect 0 score "$model" -f mxfp4 --imatrix "$tmp/i.gguf" --zstd-level 0 --json
check "llama.cpp's file says the same" awk -v a="$weighted" -v b="$(json totals.0.weighted_t2)" \
    'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (1e-5 * a) ^ 2) }'
expect 0 advise "$model" --budget 5bits -f nvfp4,mxfp6-e2m3 --calibration "$tmp/cal" -o "$tmp/r.json" --json
check "advice says what its alpha is" grep -q 'KL of the next token' "$tmp/out"
expect 0 quantize "$model" --recipe "$tmp/r.json" -o "$tmp/q"
expect 0 dequantize "$tmp/q" -o "$tmp/changed"
expect 3 advise "$tmp/changed" --budget 5bits --calibration "$tmp/cal"
check "another model's calibration is refused" grep -q 'another model' "$tmp/err"
expect 3 advise "$model" --budget 5bits --calibration "$model"

# --- error feedback ------------------------------------------------------------------------------

expect 0 score "$model" -f mxfp4 --calibration "$tmp/cal" --feedback --zstd-level 0 --json
check "the error of outputs falls" awk -v a="$full" -v b="$(json totals.0.weighted_t2)" \
    'BEGIN { exit !(b > 0 && b < 0.8 * a) }'
once=$(json totals.0.weighted_t2)
one=1 # thread, and the same bytes as by five; where memory is looked at five are enough
[ "${KERF_TEST_EVERY:-1}" -eq 1 ] || one=
for j in $one 5; do
    expect 0 quantize "$model" -f mxfp4 --calibration "$tmp/cal" --feedback -j $j -o "$tmp/f$j.safetensors"
done
[ -z "$one" ] || check "the same bytes for any threads" cmp "$tmp/f1.safetensors" "$tmp/f5.safetensors"
expect 0 verify "$model" "$tmp/f5.safetensors" --exact --calibration "$tmp/cal"
expect 1 verify "$model" "$tmp/f5.safetensors" --exact
check "and says what is missing" grep -q 'calibration [0-9a-f]\{16\}' "$tmp/out"
expect 2 quantize "$model" -f mxfp4 --feedback -o "$tmp/none"
expect 2 quantize "$model" -f bf16 --calibration "$tmp/cal" --feedback -o "$tmp/none"
error_says 'error feedback would change nothing: .*, for one, becomes bf16$'
expect 2 verify "$model" "$tmp/f5.safetensors" --calibration "$tmp/cal"
error_says 'calibration is for --exact'

expect 0 score "$model" -f mxfp4 --calibration "$tmp/cal" --feedback --again --zstd-level 0 --json
check "and falls further" awk -v a="$once" -v b="$(json totals.0.weighted_t2)" 'BEGIN { exit !(b > 0 && b < a) }'
for j in $one 5; do
    expect 0 quantize "$model" -f mxfp4 --calibration "$tmp/cal" --feedback --again -j $j -o "$tmp/g$j.safetensors"
done
[ -z "$one" ] || check "the same bytes for any threads" cmp "$tmp/g1.safetensors" "$tmp/g5.safetensors"
check "other bytes than without --again" test "$(cmp -s "$tmp/f5.safetensors" "$tmp/g5.safetensors"; echo $?)" = 1
expect 0 verify "$model" "$tmp/g5.safetensors" --exact --calibration "$tmp/cal"
expect 1 verify "$model" "$tmp/g5.safetensors" --exact
expect 2 quantize "$model" -f mxfp4 --calibration "$tmp/cal" --again -o "$tmp/none"
expect 2 score "$model" -f mxfp4 --calibration "$tmp/cal" --again
expect 0 advise "$model" --budget 5bits -f nvfp4,mxfp6-e2m3 --calibration "$tmp/cal" --feedback --again -o "$tmp/ra.json"
expect 0 quantize "$model" --recipe "$tmp/ra.json" --calibration "$tmp/cal" -o "$tmp/qa"
expect 0 verify "$model" "$tmp/qa" --exact --calibration "$tmp/cal"
expect 0 advise "$model" --budget 5bits -f nvfp4,mxfp6-e2m3 --calibration "$tmp/cal" --feedback \
    --tokens "$model/eval.u16" --length 32 --rows 4:6 -o "$tmp/rf.json" --json
json_is measured.# 4
n=0
while [ "$(json measured.$n.recommended)" != true ] && [ $n -lt 3 ]; do n=$((n + 1)); done
told=$(json measured.$n.kl)
expect 2 quantize "$model" --recipe "$tmp/rf.json" -o "$tmp/qf"
error_says 'the recipe asks for'
# shellcheck disable=SC2086
expect 0 calibrate "$model" $text --rows 0:1 --gram --alpha-by none -o "$tmp/cal2"
expect 3 quantize "$model" --recipe "$tmp/rf.json" --calibration "$tmp/cal2" -o "$tmp/qf"
error_says 'the recipe was made with calibration [0-9a-f]*, and this is [0-9a-f]*: kerf advise --calibration'
expect 0 quantize "$model" --recipe "$tmp/rf.json" --calibration "$tmp/cal" -o "$tmp/qf"
# shellcheck disable=SC2086
expect 0 eval "$model" "$tmp/qf" $text --rows 4:6 --json
check "what was measured is what was written" awk -v a="$(json candidates.0.kl)" -v b="$told" \
    'BEGIN { exit !(a > 1e-4 && (a - b) ^ 2 <= (1e-6 * a) ^ 2) }'

# --- eval ----------------------------------------------------------------------------------------

# shellcheck disable=SC2086
expect 0 eval "$model" "$tmp/q" "$model" $text --rows 4:8 --json --markdown "$tmp/e.md"
json_is schema kerf.eval/1
json_is predictions 124
check "KL against itself" awk -v kl="$(json candidates.1.kl)" 'BEGIN { exit !(kl <= 1e-6) }'
check "and of the quantized one" awk -v kl="$(json candidates.0.kl)" 'BEGIN { exit !(kl > 1e-4 && kl < 1) }'
check "a page" grep -q 'same top token' "$tmp/e.md"

# Rows that begin as the template of the tokenizer says: those of a stream are rows that are made so
# by hand.
cp -r "$model" "$tmp/begins" && chmod -R u+w "$tmp/begins"
sed -i 's/"post_processor": null/"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [3]}}}/' \
    "$tmp/begins/tokenizer.json"
od -An -v -tu2 -w2 "$model/eval.u16" | awk 'NR <= 60 {
    if (NR % 15 == 1) printf "\\003\\000"
    printf "\\%03o\\%03o", $1 % 256, $1 / 256 }' >"$tmp/rows.octal"
# shellcheck disable=SC2059 # it is a format
printf "$(cat "$tmp/rows.octal")" >"$tmp/rows.u16"
expect 0 eval "$tmp/begins" --tokens "$tmp/rows.u16" --length 16 --json
begun=$(json source.perplexity)
expect 0 eval "$tmp/begins" --tokens "$model/eval.u16" --bos --length 16 --rows 0:4 --json
json_is source.perplexity "$begun"
expect 0 eval "$tmp/begins" --tokens "$model/eval.u16" --length 16 --rows 0:4 --json
expect 0 eval "$tmp/begins" --tokens "$tmp/rows.u16" --bos --length 5 --json
json_is predictions 64 # 64 tokens are 16 rows of four behind the one that begins them
check "other rows without" test "$(json source.perplexity)" != "$begun"
expect 3 eval "$model" --tokens "$model/eval.u16" --bos --length 16
expect 2 eval "$tmp/begins" --tokens "$tmp/rows.u16" --bos --length 66
echo '{"schema": "kerf.eval-limits/1", "kl": 0.00001, "flips": 1}' >"$tmp/limits.json"
cd "$tmp" && ln -s "$model" tiny # short names: what goes into a file is never shortened
# shellcheck disable=SC2086
GITHUB_STEP_SUMMARY=$tmp/summary expect 1 eval tiny q $text --rows 4:8 --limits limits.json \
    --junit e.xml --markdown f.md --summary --annotations
check "an annotation" grep -q '^::error title=kerf eval::.*: kl .* is over its limit 1e-05' "$tmp/out"
check "the summary is the page" cmp -s "$tmp/f.md" <(sed '$d' "$tmp/summary")
check "it says which limit" grep -q 'kl .* is over its limit 1e-05' "$tmp/out"
check "so does the test" grep -q '<failure message="kl ' "$tmp/e.xml"
check "80 columns" awk '!/^::/ && length > 80 { exit 1 }' "$tmp/out"
(unset GITHUB_STEP_SUMMARY && "$KERF" eval "$model" $text --summary 2>"$tmp/err")
check "no such file" test $? -eq 2
echo '{"schema": "kerf.eval-limits/1", "k": 1}' >"$tmp/limits.json"
# shellcheck disable=SC2086
expect 3 eval "$model" "$tmp/q" $text --limits "$tmp/limits.json"
echo '{"schema": "kerf.eval-limits/1"}' >"$tmp/limits.json"
# shellcheck disable=SC2086
expect 3 eval "$model" "$tmp/q" $text --limits "$tmp/limits.json"
error_says 'limits nothing'
echo '{"schema": "kerf.eval-limits/1", "kl": 1}' >"$tmp/limits.json"
# shellcheck disable=SC2086
expect 2 eval "$model" $text --limits "$tmp/limits.json"
error_says 'limits are for quantized models'
expect 3 eval "$model" --tokens "$model/config.json"

# One row says nothing of how rows differ, and a percentile has no more than its share above it.
# shellcheck disable=SC2086
expect 0 eval "$model" "$tmp/q" $text --rows 4:5 --json
json_is candidates.0.kl_interval.0 null
# shellcheck disable=SC2086
expect 0 eval "$model" "$tmp/q" $text --rows 4:5 --wide
output_says ' -  *[0-9.]*  *[0-9.]* %'
expect 0 eval "$model" "$tmp/q" --tokens "$model/eval.u16" --length 3 --rows 4:8 --json
check "99 % of few are all" test "$(json candidates.0.kl_p99)" = "$(json candidates.0.kl_most)"
expect 0 advise "$model" --budget 5bits -f nvfp4,mxfp6-e2m3 --tokens "$model/eval.u16" --length 16 --rows 4:5 --json
json_is measured.0.kl_interval.1 null

# --- a model that predicts no numbers --------------------------------------------------------------

cp -r "$model" "$tmp/ruined"
chmod -R u+w "$tmp/ruined"
"$TOOLS/spoil" bytes "$tmp/ruined/model.safetensors" $(($(stat -c %s "$model/model.safetensors") - 512)) 512 127
# shellcheck disable=SC2086
expect 1 eval "$model" "$tmp/ruined" $text --rows 4:6
output_says 'ruined: kl is no number: what it predicts is NaN or infinite'
for candidate in '' "$tmp/q"; do # which is not at fault
    # shellcheck disable=SC2086
    expect 3 eval "$tmp/ruined" $candidate $text --rows 4:6 --junit "$tmp/ruined.xml"
    error_says 'ruined: what it predicts is NaN or infinite: one of its weights is ruined'
    check "no report of it" test ! -e "$tmp/ruined.xml"
done
# shellcheck disable=SC2086
expect 3 calibrate "$tmp/ruined" $text --rows 4:8 --alpha 2 -q -o "$tmp/cal3"
error_says 'what noise in it costs is no number'
check "nothing is left behind" test ! -e "$tmp/cal3"
"$TOOLS/spoil" bytes "$tmp/ruined/model.safetensors" 4200448 512 127 # model.layers.2.input_layernorm
# shellcheck disable=SC2086
expect 3 calibrate "$tmp/ruined" $text --rows 4:8 --alpha-by none -q -o "$tmp/cal3"
error_says 'model.layers.2.*: its inputs are NaN or infinite'
finish
