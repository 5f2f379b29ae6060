#!/usr/bin/env bash
# terminal.sh - what people see: names as they write them, tables that fit, colours, notes, and what
# happens to outputs that are no files. Takes a few seconds.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$model/model.safetensors
unset COLUMNS NO_COLOR GITHUB_STEP_SUMMARY
export TERM=xterm

# --- names ---------------------------------------------------------------------------------------
expect 0 formats NVFP4
output_says '^nvfp4:'
expect 0 score "$source" -f NVFP4:4-6,INT8 --only '*layers.0.mlp.up*'
output_says 'nvfp4:4/6'
output_says 'int8:amax'
expect 0 score "$source" -f 'NVFP4:A*' --only '*layers.0.mlp.up*'
output_says 'nvfp4:amax'
expect 0 hardware RTX-4090
output_says '^rtx4090:'
expect 0 hardware 4090
output_says '^rtx4090:'
expect 2 hardware H20
error_says 'kerf hardware lists them'
for name in fp8 int4 awq gptq q4_k_m w4a16; do
    expect 2 quantize "$source" -f "$name" -o "$tmp/o.safetensors"
    check "no word is suggested for $name" bash -c "! grep -q 'did you mean' '$tmp/err'"
done
expect 2 quantize "$source" -f nvfp4 --layout vllm -o "$tmp/o/"
error_says 'is a program'
expect 0 quantize "$model" -f NVFP4 --layout CT -o "$tmp/ct/"
expect 0 inspect "$tmp/ct" --json
check "CT is a layout" grep -q '"layout": "compressed-tensors"' "$tmp/out"

# --- widths --------------------------------------------------------------------------------------
# longest: the widest line of the last output, in characters.
longest() { LC_ALL=C.UTF-8 awk '{ n = length($0); if (n > most) most = n } END { print most + 0 }' "$tmp/out"; }
fits() {
    expect 0 "$@"
    check "kerf $* fits 80 columns, has $(longest)" test "$(longest)" -le 80
}
fits formats
fits hardware
fits predict --hardware h100 --model "$DATA/configs/llama-3.1-8b.json"
fits predict --hardware h100 --shape 4096x4096
fits score "$source" -f nvfp4,int8 --zstd-level 3
fits inspect "$source"
fits quantize "$source" -f nvfp4 --dry-run
expect 0 quantize "$source" -f nvfp4 -o "$tmp/q.safetensors"
fits verify "$source" "$tmp/q.safetensors"
export COLUMNS=60 # a window that is narrower than names and figures
fits inspect "$source"
check "names lose their middle" grep -q '\.\.' "$tmp/out"
unset COLUMNS
expect 0 inspect "$source"
check "names are whole where no window is" bash -c "! grep -q '\.\.' '$tmp/out'"
expect 0 formats --wide
check "--wide has every column" grep -q 'encoders, default first *note' "$tmp/out"
expect 0 quantize "$source" -f nvfp4 --dry-run
output_says 'bpw: bits per weight'

# --- a terminal ----------------------------------------------------------------------------------
# on_terminal COLUMNS COMMAND: its output on a terminal of that width, in $tmp/screen.
on_terminal() {
    TMP=$tmp script -qec "stty cols $1 rows 24; $2" /dev/null >"$tmp/screen" 2>&1 </dev/null
}
if command -v script >/dev/null && on_terminal 70 "true"; then
    widest() { tr '\r' '\n' <"$tmp/screen" | sed 's/\x1b\[[0-9;]*[mK]//g' | LC_ALL=C.UTF-8 awk '{ n = length($0); if (n > most) most = n } END { print most + 0 }'; }
    for columns in 44 70 132; do
        on_terminal "$columns" "'$KERF' quantize '$source' -f nvfp4:sweep -o '$tmp/t$columns.safetensors' -j 1 -q; '$KERF' inspect '$source'"
        grep -e '^model' -e '^---' "$tmp/screen" >"$tmp/rows" && mv "$tmp/rows" "$tmp/screen"
        check "a table fits $columns columns, has $(widest)" test "$(widest)" -le "$columns"
        on_terminal "$columns" "'$KERF' score '$source' -f 'nvfp4:*' -j 1 --progress bar >/dev/null"
        check "there is a bar at $columns columns" grep -q '%' "$tmp/screen"
        check "the bar fits $columns columns, has $(widest)" test "$(widest)" -lt "$columns"
    done
    on_terminal 80 "'$KERF' verify '$source' '$tmp/q.safetensors' --progress none"
    check "passed is coloured" grep -q $'\x1b\[1;32mpassed' "$tmp/screen"
    on_terminal 80 "NO_COLOR=1 '$KERF' verify '$source' '$tmp/q.safetensors' --progress none"
    check "NO_COLOR has none" bash -c "! grep -q $'\x1b' '$tmp/screen'"
fi

# --- notes ---------------------------------------------------------------------------------------
expect 0 quantize "$source" -f nvfp4 -o "$tmp/q.safetensors" -y
error_says 'bits per weight of all tensors'
expect 0 quantize "$source" -f nvfp4 -o "$tmp/q.safetensors" -y -q
check "-q says nothing" test ! -s "$tmp/err"
expect 4 quantize "$source" -f nvfp4 -o "$tmp/q.safetensors" -q
expect 0 quantize "$source" -f nvfp4 -o "$tmp/q.safetensors" -y -v
check "-v has a line for every tensor" test "$(grep -c '^model\..*: ' "$tmp/err")" -ge 37

# --- outputs that are no files, names that end oddly, outputs that exist --------------------------
expect 2 quantize "$source" -f nvfp4 -o -
error_says 'a stream cannot'
expect 2 inspect -
error_says 'give a file'
expect 2 advise "$model" --budget 5bits -f int8 -o -
for name in o.bin o.pt o.safetensor o.onnx; do
    expect 2 quantize "$source" -f nvfp4 -o "$tmp/$name"
    error_says 'expected a name that ends in .safetensors, .safetensors.zst, .gguf, or a folder'
    absent "$tmp/$name"
done
expect 2 advise "$model" --budget 5bits -f int8 -o "$tmp/recipe.yaml"
error_says 'ends in .json'
expect 0 quantize "$source" -f nvfp4 -o "$tmp/Model-3.1-8B"
expect 0 quantize "$source" -f nvfp4 -o "$tmp/o.new/"
expect 4 quantize "$source" -f nvfp4 -o "$tmp/o.new/"

# --- failures as documents ------------------------------------------------------------------------
expect 3 inspect "$DATA/tiny-llama/config.json" --json
json_is schema kerf.error/1
json_is exit_code 3
json_is status KERF_E_DATA
expect 2 inspect --json
json_is exit_code 2
expect 2 quantize "$source" -f 'a"b\c' --json -o "$tmp/x/"
json_is status KERF_E_ARG
check "the text is whole" bash -c "'$TOOLS/json_get' error <'$tmp/out' | grep -qF 'a\"b\\c'"
expect 4 inspect "$tmp/none.safetensors" --json
json_is status KERF_E_IO
expect 4 quantize "$source" -f nvfp4 -o "$tmp/q.safetensors" --json
json_is status KERF_E_EXISTS

# --- for programs that run it ----------------------------------------------------------------------
expect 0 quantize "$model" -f nvfp4 -o "$tmp/sums" --sha256
check "sha256sum reads the sums of a folder" bash -c "cd '$tmp' && sha256sum -c --strict --quiet sums.sha256"
check "there is a sum for each file" test "$(wc -l <"$tmp/sums.sha256")" -eq "$(find "$tmp/sums" -type f | wc -l)"
expect 0 quantize "$source" -f nvfp4 -o "$tmp/one.safetensors" --sha256
check "sha256sum reads the sum of a file" bash -c "cd '$tmp' && sha256sum -c --strict --quiet one.safetensors.sha256"
rm -r "$tmp/sums"
expect 4 quantize "$model" -f nvfp4 -o "$tmp/sums/" --sha256 # the sums of before are there
absent "$tmp/sums"
expect 2 quantize "$model" -f nvfp4 --dry-run --sha256

verify=(verify "$source" "$tmp/q.safetensors")
export GITHUB_STEP_SUMMARY=$tmp/summary
expect 0 "${verify[@]}" --junit "$tmp/a.xml" --markdown "$tmp/a.md" --summary --annotations
check "no annotation without a fault" bash -c "! grep -q '^::' '$tmp/out'"
check "a test per tensor" test "$(grep -c '<testcase' "$tmp/a.xml")" -eq 38
check "none failed" bash -c "! grep -q '<failure' '$tmp/a.xml'"
check "Markdown says it" grep -q '^Passed: ' "$tmp/a.md"
check "the summary is the same" cmp -s "$tmp/a.md" <(sed '$d' "$tmp/summary")
expect 4 "${verify[@]}" --junit "$tmp/a.xml"
echo '{"schema": "kerf.limits/1", "tensors": {"*layers.1.*": {"t2": 0.001}}}' >"$tmp/l.json"
expect 1 "${verify[@]}" --limits "$tmp/l.json" --junit "$tmp/a.xml" -y --markdown "$tmp/b.md" --annotations --summary
check "seven failures" test "$(grep -c '<failure message="t2 .* is over its limit 0.001"/>' "$tmp/a.xml")" -eq 7
check "and the head says so" grep -q 'tests="38" failures="7"' "$tmp/a.xml"
check "seven annotations" test "$(grep -c '^::error title=kerf verify::model.layers.1' "$tmp/out")" -eq 7
check "Markdown says failed" grep -q '^\*\*Failed\*\*' "$tmp/b.md"
check "the summary has both runs" test "$(grep -c '^# kerf verify' "$tmp/summary")" -eq 2
if command -v xmllint >/dev/null; then check "it is XML" xmllint --noout "$tmp/a.xml"; fi
if command -v python3 >/dev/null; then
    check "Python reads the XML" python3 -c 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])' "$tmp/a.xml"
fi
unset GITHUB_STEP_SUMMARY
expect 2 "${verify[@]}" --summary
error_says 'GITHUB_STEP_SUMMARY is not set'
expect 2 "${verify[@]}" --junit "$tmp/a.txt"
expect 2 "${verify[@]}" --junit "$source" -y
finish
