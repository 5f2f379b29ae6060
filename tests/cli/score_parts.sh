#!/usr/bin/env bash
# score_parts.sh - scores that several processes measure: what one process prints and keeps, for any number of
# parts in any order, also when parts are killed, repeated, damaged, or of other options.
. "$(dirname "${BASH_SOURCE[0]}")/parts_lib.sh"
ln -s "$model" model

# --- the same bytes, and the same report -----------------------------------------------------------
args=(score model -f 'nvfp4,int4-g32-f16:*,int8,mxfp4' --imatrix model/imatrix.safetensors)
expect 0 "${args[@]}" -o whole --per-tensor
cp "$tmp/out" table
grep '^left out' "$tmp/err" >left
check "some codecs are left out" test -s left
expect 0 "${args[@]}" --per-tensor
same_file table "$tmp/out"
expect 0 "${args[@]}" --json
cp "$tmp/out" document
expect 0 score whole --json
same_file document "$tmp/out"
expect 0 score whole --per-tensor
same_file table "$tmp/out"
for n in 1 2 3 8 40; do # there are 28 tensors
    in_turn || continue
    for i in $(seq "$n" -1 1); do
        expect 0 "${args[@]}" -q -j 1 -o out --part "$i/$n"
        check "a part prints nothing" test ! -s "$tmp/out"
    done
    check "nothing is there before a merge" test ! -e out
    expect 3 score out
    error_says 'out: is in parts that are not merged yet: kerf merge out'
    expect 0 merge out --per-tensor
    same_file table "$tmp/out"
    check "what was left out is told" test "$(grep '^left out' "$tmp/err")" = "$(cat left)"
    check "$n parts: the bytes of one process" diff -r whole out
    check "nothing else is left" test ! -e out.kerf-parts
    expect 0 score out --json
    same_file document "$tmp/out"
    rm -r out
done
# More tensors than files.
"$TOOLS/make_model" many many 1 600 1
expect 0 score many --all-tensors -f bf16 -q -o whole3
check "so many files" test "$(ls whole3/scores-* | wc -l)" -eq 256
for i in 2 1; do expect 0 score many --all-tensors -f bf16 -q -o out --part $i/2; done
expect 0 merge out --json
check "many tensors: the bytes of one process" diff -r whole3 out
cp "$tmp/out" many.json
expect 0 score many --all-tensors -f bf16 --json
same_file many.json "$tmp/out"
rm -r out
tensors=0
for i in 3 1 2; do
    expect 0 "${args[@]}" -o out --part $i/3 --json
    json_is part.of_tensors 28
    tensors=$((tensors + $(json part.tensors)))
done
check "each tensor is in one part" test $tensors -eq 28
expect 0 merge out --json
same_file document "$tmp/out"
rm -r out

# --- kills, and what is there ----------------------------------------------------------------------
args=(score model -f 'nvfp4:*,int4*' --zstd-level 1 -q -j 1)
expect 0 "${args[@]}" -o whole2
parts_killed 3 300 "${args[@]}"
rm -rf out # if none was hit
for i in 1 2 3; do expect 0 "${args[@]}" -o out --part $i/3 --resume; done
cp -r out.kerf-parts done.kerf-parts
expect 0 merge out
check "after kill -9" diff -r whole2 out
expect 4 "${args[@]}" -o out --part 1/3
error_says 'out: exists already; -y replaces it'
rm -r out
"$KERF" "${args[@]}" -o again --resume >/dev/null 2>&1 &
pid=$!
sleep 1.2
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
expect 0 "${args[@]}" -o again --resume -y --json
cp "$tmp/out" document
check "one process goes on" diff -r whole2 again
expect 0 score whole2 --json
same_file document "$tmp/out"

# --- what cannot be merged -------------------------------------------------------------------------
fresh
inode=$(stat -c %i out.kerf-parts/2-of-3)
expect 0 "${args[@]}" -o out --part 2/3
check "a finished part is left as it is" test "$(stat -c %i out.kerf-parts/2-of-3)" = "$inode"
rm -r out.kerf-parts/2-of-3
refused 'part 2/3 is missing: run kerf score ... -o out --part 2/3'
expect 0 score model -f nvfp4 -q -o out --part 2/3
refused 'part 2/3 is of another plan than part 1 (its formats or options are others): run kerf score'
expect 2 "${args[@]}" -o out --part 2/3
error_says 'written by another plan .*; -y replaces it'
expect 0 "${args[@]}" -o out --part 2/3 -y
printf 'x' | dd of="$(ls out.kerf-parts/3-of-3/scores-* | head -n 1)" bs=1 seek=400 conv=notrunc status=none
refused 'part 3/3 is damaged (.*read back other than they were written): run kerf score'
expect 0 "${args[@]}" -o out --part 3/3
echo '{' >out.kerf-parts/3-of-3/kerf-part.json
refused 'part 3/3 is damaged, its kerf-part.json is lost: run kerf score'
expect 0 "${args[@]}" -o out --part 3/3
expect 0 merge out -q
check "after the mending" diff -r whole2 out
for option in --zstd-level=0 --only=*mlp* --imatrix=model/imatrix.safetensors --nan=zero; do
    fresh
    rm -r out.kerf-parts/2-of-3
    expect 0 "${args[@]}" $option -o out --part 2/3
    expect 3 merge out
    error_says 'is of another plan than part 1'
done
rm -rf out out.kerf-parts
cp -r "$model" copy && printf '\1' | dd of=copy/model.safetensors bs=1 seek=200000 conv=notrunc status=none
expect 0 score model -f int8 -q -o out --part 1/2
expect 0 score copy -f int8 -q -o out --part 2/2
refused 'its source is another or has changed'

# --- options, and folders that are none ------------------------------------------------------------
expect 2 score model -f int8 --part 1/2
error_says '\-o SCORES is missing'
expect 2 score model -f int8 -o new --part 3/2
expect 2 score model -f int8 -o new.safetensors
error_says 'kept in a folder'
expect 2 score whole -f int8
error_says '--format: whole holds scores that were measured before'
expect 4 score model -f int8 -o whole
check "nothing is left of what was refused" test -z "$(ls -d new* .new* 2>/dev/null)"
for change in 's|"source": |"sauce": |' 's|"nvfp4:amax"|"nvfp9"|' 's|"considered": |"considered": -|' '$d' \
    's|"model.layers.3.mlp.up_proj.weight"|"model.layers.9.mlp.up_proj.weight"|' \
    's|"model.layers.3.mlp.up_proj.weight"|3|' 's|folder/1|folder/2|' 's|"int8:amax",||'; do
    rm -rf bad
    cp -r whole bad
    sed -i "$change" bad/kerf-scores.json
    check "$change changes it" test "$(diff -r whole bad | wc -l)" -gt 0
    expect 3 score bad
done
finish
