#!/usr/bin/env bash
# quantize.sh - decisions, safety of the output, NaN, progress, and bytes that depend on nothing
# but the source and the format.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$model/model.safetensors

# --- decisions ----------------------------------------------------------------------------------
expect 0 quantize "$source" -f nvfp4:4/6 --dry-run --json
json_is schema kerf.quantize/1
json_is dry_run true
json_is totals.quantized 28
json_is totals.kept 10
json_is totals.bytes_out 2822768
json_is tensors.0.reason embedding
json_is tensors.0.format null
json_is tensors.2.format nvfp4:4/6
check "a dry run writes nothing" test "$(ls "$tmp")" = "$(printf 'err\nout')"
expect 0 quantize "$source" -f nvfp4 --dry-run -o "$tmp/never"
output_says 'kept (norm)'
output_says '^28 quantized, 10 kept'
output_says '^7.00 MiB of tensors become 2.69 MiB.$'
absent "$tmp/never"

# What the dry run says is what is written.
"$KERF" quantize "$source" -f nvfp4 -o "$tmp/a.safetensors" --json >"$tmp/out" 2>/dev/null
json_is dry_run false
json tensors >"$tmp/written"
expect 0 quantize "$source" -f nvfp4 --dry-run --json
check "dry run and real run agree" diff <(json tensors) "$tmp/written"
expect 0 inspect "$tmp/a.safetensors" --json
json_is totals.bytes "$("$KERF" quantize "$source" -f nvfp4 --dry-run --json |
    "$TOOLS/json_get" totals.bytes_out)"

"$TOOLS/make_model" groups "$tmp/groups.safetensors"
expect 0 quantize "$tmp/groups.safetensors" -f mxfp4 --dry-run --json
json_is totals.quantized 6
json_is totals.kept 16
format_of() { # NAME: of the last JSON document
    paste <(json 'tensors.*.name') <(json 'tensors.*.format') <(json 'tensors.*.reason') |
        awk -F '\t' -v n="$1" '$1 == n { print $2 "|" $3 }'
}
decides() { # NAME EXPECTED OPTIONS...
    local name=$1 wanted=$2 got
    shift 2
    expect 0 quantize "$tmp/groups.safetensors" -f mxfp4 --dry-run --json "$@"
    got=$(format_of "$name")
    checks=$((checks + 1))
    [ "$got" = "$wanted" ] || note_failure "$* decides $name: $got, not $wanted"
}
up=layers.0.mlp.up_proj.weight
decides "$up" "mxfp4:even|null"
decides "$up" "null|--keep *up_proj*" --keep '*up_proj*'
decides "$up" "null|not in --only" --only '*q_proj*'
decides "$up" "mxfp4:even|null" --only '*q_proj*' --only '*up_proj*'
decides "$up" "int8:amax|--tensor *up_proj*=int8" --tensor '*up_proj*=int8' --keep '*up_proj*'
decides "$up" "nf4:bnb-cpu|--tensor *mlp.up*=nf4" --tensor '*up_proj*=int8' --tensor '*mlp.up*=nf4'
decides "$up" "null|--tensor *mlp.up*=keep" --tensor '*up_proj*=int8' --tensor '*mlp.up*=keep'
decides lm_head.weight "null|output head"
decides lm_head.weight "fp8-e4m3:amax|--tensor lm_head*=fp8-e4m3" --tensor 'lm_head*=fp8-e4m3'
decides layers.0.mlp.gate.weight "null|router"
decides model.embed_tokens.weight "null|embedding"
decides vision_tower.proj.weight "null|vision tower"
decides mtp.fc.weight "null|multi-token prediction"
decides layers.0.experts.gate_up_proj_bias "null|bias"

"$TOOLS/make_model" odd "$tmp/odd.safetensors"
expect 0 quantize "$tmp/odd.safetensors" -f nvfp4 --dry-run
output_says '^positions .*kept (type I64)'
output_says '^vector .*kept (1-D)'
output_says '^empty.weight .*nvfp4'
output_says '^column.weight .*kept (short rows)'
expect 2 quantize "$tmp/odd.safetensors" -f nvfp4 --dry-run --tensor 'positions=int8'
error_says 'positions cannot be quantized: type I64'

# A quantized checkpoint is not quantized again, and keeps what it has.
expect 0 quantize "$tmp/a.safetensors" -f mxfp4 --tensor '*embed*=int8' -o "$tmp/again.safetensors"
expect 0 inspect "$tmp/again.safetensors" --json
row_is weights model.layers.0.mlp.down_proj.weight format nvfp4
row_is weights model.embed_tokens.weight format int8
expect 0 verify "$source" "$tmp/again.safetensors"
expect 0 quantize "$tmp/a.safetensors" -f mxfp4 --dry-run
output_says 'mlp.down_proj.weight .*kept (already nvfp4:amax)'
output_says '0 quantized'
expect 2 quantize "$tmp/a.safetensors" -f mxfp4 -o "$tmp/nothing"
error_says 'no tensor is left to quantize: .*mlp.down_proj.weight is kept (already nvfp4:amax)'
expect 2 quantize "$tmp/a.safetensors" -f nvfp4 --dry-run --tensor '*down_proj*=mxfp4'
error_says 'already nvfp4:amax'

# --- the output is safe -------------------------------------------------------------------------
before=$(digest "$tmp/a.safetensors")
expect 4 quantize "$source" -f mxfp4 -o "$tmp/a.safetensors"
error_says 'exists'
check "a refused run leaves the old file" test "$before" = "$(digest "$tmp/a.safetensors")"
expect 0 quantize "$source" -f mxfp4 -o "$tmp/a.safetensors" -y
check "-y replaces it" test "$before" != "$(digest "$tmp/a.safetensors")"
cp "$source" "$tmp/self.safetensors"
before=$(digest "$tmp/self.safetensors")
expect 2 quantize "$tmp/self.safetensors" -f nvfp4 -o "$tmp/self.safetensors" -y
ln -s self.safetensors "$tmp/link.safetensors"
expect 2 quantize "$tmp/link.safetensors" -f nvfp4 -o "$tmp/self.safetensors" -y
check "in == out leaves the source" test "$before" = "$(digest "$tmp/self.safetensors")"
cp -r "$model" "$tmp/folder"
expect 2 quantize "$tmp/folder" -f nvfp4 -o "$tmp/folder" -y
same_file "$tmp/folder/model.safetensors" "$source"

# --- NaN and infinities -------------------------------------------------------------------------
for kind in nan inf; do
    "$TOOLS/make_model" "$kind" "$tmp/$kind.safetensors"
    for format in nvfp4 mxfp4 int8 nf4-dq fp8-e4m3 bf16; do
        expect 3 quantize "$tmp/$kind.safetensors" -f "$format" -o "$tmp/o.safetensors"
        error_says 'a.weight: element 327 is -*\(NaN\|Inf\), at \[5, 7\]'
        absent "$tmp/o.safetensors"
    done
    for nan in zero saturate; do
        expect 0 quantize "$tmp/$kind.safetensors" -f nvfp4 --nan "$nan" -y -o "$tmp/o.safetensors"
        case $nan in zero) text='NaN and Inf of the source as 0' ;; *) text='NaN as 0 and Inf as the largest number' ;; esac
        error_says "1 tensor quantized with $text.*: a.weight"
        check "$nan: not said to be kept" test "$(grep -c 'kept with NaN' "$tmp/err")" = 0
        expect 0 inspect "$tmp/o.safetensors"
    done
    rm "$tmp/o.safetensors"
done
expect 0 quantize "$tmp/nan.safetensors" -f nvfp4 --keep a.weight -o "$tmp/o.safetensors"
error_says '1 tensor kept with NaN or Inf, as the source has it .*: a.weight'

# Finite numbers that fp16 has no place for.
cp "$model/model.safetensors" "$tmp/large.safetensors"
chmod u+w "$tmp/large.safetensors"
"$TOOLS/spoil" bytes "$tmp/large.safetensors" 1053184 2 127 # model.layers.0.mlp.down_proj
# The blocks of GGUF have fp16 scales, which are Inf where ggml has them so; verify finds them.
for format in fp16 bf16 ggml-q4_0 ggml-q8_0 q5_1 q4_k nf4-f16; do
    case $format in bf16 | nf4-f16) count=0 ;; *) count=1 ;; esac
    expect 0 quantize "$tmp/large.safetensors" -f $format -y -o "$tmp/o.safetensors"
    check "$format: whether numbers became Inf" test \
        "$(grep -c '^1 tensor with numbers above the range of their new type.*: model.layers.0.mlp.down_proj.weight$' "$tmp/err")" \
        = $count
    [ $format = bf16 ] || expect 1 verify "$tmp/large.safetensors" "$tmp/o.safetensors"
    check "$format: whether verify says so" test \
        "$(grep -c 'down_proj.weight: .* decoded elements are NaN or infinite$' "$tmp/out")" = $count
    [ $count = 0 ] || check "$format: the worst comes first" \
        bash -c "sed -n 3p '$tmp/out' | grep -q '^model.layers.0.mlp.down_proj.weight '"
done

# Workers meet several at once: the first one in the tensor is told, whoever was faster.
header='{"a.weight":{"dtype":"BF16","shape":[2048,4096],"data_offsets":[0,16777216]}}   '
printf '%b\0\0\0\0\0\0\0%s' "\\x$(printf %x ${#header})" "$header" > "$tmp/many.safetensors"
truncate -s $((8 + ${#header} + 16777216)) "$tmp/many.safetensors"
for row in 2040 1500 700 300; do
    "$TOOLS/spoil" bytes "$tmp/many.safetensors" $((8 + ${#header} + row * 8192 + 10)) 2 255
done
for threads in 1 2 3 5 8 8 8; do
    for format in mxfp4 nvfp4; do
        expect 3 quantize "$tmp/many.safetensors" -f $format -j $threads -o "$tmp/o2.safetensors"
        error_says 'a.weight: element 1228805 is NaN, at \[300, 5\]'
        absent "$tmp/o2.safetensors"
    done
done

# --- progress -----------------------------------------------------------------------------------
expect 0 quantize "$source" -f nvfp4 -y -o "$tmp/o.safetensors" --progress none
check "one line of summary" test "$(wc -l <"$tmp/err")" -eq 1
error_says '28 of 38 tensors quantized'
expect 0 quantize "$source" -f nvfp4 -y -o "$tmp/o.safetensors" --progress bar
error_says '%'
expect 0 quantize "$source" -f nvfp4 -y -o "$tmp/o.safetensors" --progress json
while read -r line; do
    check "a progress line is JSON" "$TOOLS/json_get" event <<<"$line" >/dev/null
    check "with a schema" test "$("$TOOLS/json_get" schema <<<"$line")" = kerf.progress/1
done <"$tmp/err"
for key in done_bytes total_bytes bytes_per_s seconds_left; do
    check "how far, how fast, how long: $key" "$TOOLS/json_get" "$key" >/dev/null \
        < <(grep -m 1 '"event":"bytes"' "$tmp/err")
done
check "writing, then comparing" test 2 -eq "$(grep -c '"event":"phase"' "$tmp/err")"
check "it ends" test "$(tail -n 1 "$tmp/err" | "$TOOLS/json_get" event)" = end
check "an event per tensor" test "$(grep -c '"event":"tensor"' "$tmp/err")" -ge 38
check "nothing on standard output" test ! -s "$tmp/out"

# The same from every verb that takes long.
for words in "dequantize $tmp/o.safetensors -o $tmp/back.safetensors" \
    "convert $tmp/o.safetensors --layout modelopt -o $tmp/there.safetensors" \
    "verify $source $tmp/o.safetensors" "score $source -f mxfp4" \
    "advise $source --budget 5bits --only *layers.0.self_attn.* -o $tmp/recipe.json"; do
    set -f # words on purpose, and no files for globs
    # shellcheck disable=SC2086
    expect 0 $words --progress json
    set +f
    check "${words%% *}: an event per tensor" grep -q '"event":"tensor"' "$tmp/err"
    check "${words%% *}: nothing but events" \
        test -z "$(grep -v '^{"schema":"kerf.progress/1","event":"' "$tmp/err")"
done
expect 0 quantize "$source" --recipe "$tmp/recipe.json" -o "$tmp/advised.safetensors" --progress json
check "a recipe: writing, comparing, measuring what it promises" \
    test 3 -eq "$(grep -c '"event":"phase"' "$tmp/err")"
check "which ends once" test 1 -eq "$(grep -c '"event":"end"' "$tmp/err")"

# --- the same bytes -----------------------------------------------------------------------------
for format in nvfp4:4/6 nvfp4:sweep nf4-dq int4-g128-asym:search mxfp6-e2m3 fp8-e4m3-128x128; do
    digests=()
    for j in 1 2 7; do
        run quantize "$source" -f "$format" -j "$j" -y -o "$tmp/j$j.safetensors"
        digests+=("$(digest "$tmp/j$j.safetensors")")
    done
    check "$format: -j 1, 2 and 7 write the same bytes" \
        test "${digests[0]}" = "${digests[1]}" -a "${digests[0]}" = "${digests[2]}"
done

# --- rows that no panel holds -------------------------------------------------------------------
# 128 rows of 300,000 of zeros, in a file with a hole, behind a tensor that fits: said before that one is begun, by
# --dry-run too; what picks among formats leaves it out.
header='{"model.layers.0.mlp.down_proj.weight":{"dtype":"BF16","shape":[128,128],"data_offsets":[0,32768]}'
header+=',"model.layers.1.mlp.down_proj.weight":{"dtype":"BF16","shape":[128,300000],"data_offsets":[32768,76832768]}}'
{ printf "\\x$(printf %x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"; } >"$tmp/wide.safetensors"
truncate -s +76832768 "$tmp/wide.safetensors"
for more in "--dry-run" "-o $tmp/wide-q.safetensors -v"; do
    # shellcheck disable=SC2086
    run quantize "$tmp/wide.safetensors" -f fp8-e4m3-128x128 $more
    check "a band of 73 MiB with $more: 5, not $code" test "$code" -eq 5
    error_says 'one band of fp8-e4m3-128x128 is 73 MiB here'
    check "$more: before any work: $(cat "$tmp/err")" test "$(wc -l <"$tmp/err")" -eq 1
done
expect 0 quantize "$tmp/wide.safetensors" -f fp8-e4m3-row --dry-run
expect 5 score "$tmp/wide.safetensors" -f fp8-e4m3-128x128
expect 0 score "$tmp/wide.safetensors" -f 'fp8-e4m3-1*,fp8-e4m3-r*' --zstd-level 0
error_says '^left out: fp8-e4m3-128x128:amax: .*one band'
expect 0 advise "$tmp/wide.safetensors" --budget 9bits -f 'fp8-e4m3*'
finish
