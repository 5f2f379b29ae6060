#!/usr/bin/env bash
# calibrate_parts.sh - a calibration that several processes make: the bytes of one, for any number of parts in any
# order, with Gram matrices and alpha by both measures, also when parts are killed, repeated, damaged or of other
# options; and both verbs under the script for Slurm.
. "$(dirname "${BASH_SOURCE[0]}")/parts_lib.sh"
ln -s "$model" model
text=(calibrate model --tokens model/eval.u16 --length 16)

# --- the same bytes ------------------------------------------------------------------------------
# There are four layers: eight parts have nothing to do in four of them.
compare() { # NAME PARTS... -- ARGS...
    local name=$1 numbers=() n i files
    shift
    while [ "$1" != -- ]; do numbers+=("$1") && shift; done
    shift
    expect 0 "${text[@]}" "$@" -o whole
    for n in "${numbers[@]}"; do
        in_turn || continue
        for i in $(seq "$n" -1 1); do
            expect 0 "${text[@]}" "$@" -q -j 1 -o out --part "$i/$n"
            check "a part prints nothing" test ! -s "$tmp/out"
        done
        check "nothing is there before a merge" test ! -e out
        files=$(ls out.kerf-parts/*/calibration-* | wc -l)
        check "each layer is in one part, of $n" test "$files" -eq 4
        expect 0 merge out
        check "$name, $n parts: the bytes of one process" diff -r whole out
        check "nothing else is left" test ! -e out.kerf-parts
        rm -r out
    done
    rm -r whole
}
compare 'Gram and alpha' 1 2 3 8 -- --rows 0:4 --gram --alpha 2
compare 'by the loss' 3 -- --rows 0:2 --alpha-by loss --alpha 2
compare 'Gram alone' 2 8 -- --rows 0:3 --gram --alpha-by none

# A layer's work is one part's: the early ones, behind which the most layers run, are not all in one.
expect 0 "${text[@]}" --rows 0:4 -o out --part 1/2 --json
json_is part.parts 2
check "the note of what is planned is of this part" grep -q '4 layers, [0-9]* weights, 8 groups' "$tmp/err"
expect 3 advise model --budget 5bits --calibration out
error_says 'out: is in parts that are not merged yet: kerf merge out'
rm -r out.kerf-parts

# --- kills, and what is there ----------------------------------------------------------------------
args=("${text[@]}" --rows 0:8 --gram --alpha 2 -q -j 1)
expect 0 "${args[@]}" -o whole
parts_killed 3 300 "${args[@]}"
for i in 2 3 1; do expect 0 "${args[@]}" -o out --part $i/3 --resume; done
cp -r out.kerf-parts done.kerf-parts
expect 0 merge out
check "after kill -9" diff -r whole out
expect 4 "${args[@]}" -o out --part 1/3
error_says 'out: exists already; -y replaces it'
expect 4 merge nothing

# --- what cannot be merged -------------------------------------------------------------------------
fresh
inode=$(stat -c %i out.kerf-parts/2-of-3)
expect 0 "${args[@]}" -o out --part 2/3 --progress json
check "a finished part is left as it is" test "$(stat -c %i out.kerf-parts/2-of-3)" = "$inode"
check "and runs no layer again" test "$(grep -c '"name":"calibrate"' "$tmp/err")" -eq 0
rm -r out.kerf-parts/2-of-3
refused 'part 2/3 is missing: run kerf calibrate ... -o out --part 2/3'
for other in --alpha=3 --rows=0:9 --length=15; do
    expect 0 "${args[@]}" $other -o out --part 2/3
    refused 'part 2/3 is of another plan than part 1 (its formats or options are others): run kerf calibrate'
    rm -r out.kerf-parts/2-of-3
done
expect 0 "${text[@]}" --rows 0:8 --alpha 2 -q -o out --part 2/3
refused 'part 2/3 is of another plan than part 1'
expect 2 "${args[@]}" -o out --part 2/3
error_says 'written by another plan .*; -y replaces it'
expect 0 "${args[@]}" -o out --part 2/3 -y
printf 'x' | dd of="$(ls out.kerf-parts/3-of-3/calibration-* | head -n 1)" bs=1 seek=20000 conv=notrunc status=none
refused 'part 3/3 is damaged (.*read back other than they were written): run kerf calibrate'
expect 0 "${args[@]}" -o out --part 3/3
merged_at_once
fresh
mkdir out.kerf-parts/whole # a merge that was killed between two files
mv out.kerf-parts/1-of-3/calibration-* out.kerf-parts/whole
expect 0 merge out
check "a merge goes on" diff -r whole out
rm -r out
cp -r "$model" copy && printf '\1' | dd of=copy/model.safetensors bs=1 seek=200000 conv=notrunc status=none
expect 0 "${args[@]}" -o out --part 1/2
expect 0 calibrate copy "${args[@]:2}" -o out --part 2/2
refused 'its source is another or has changed'
rm -r out.kerf-parts

# --- options ---------------------------------------------------------------------------------------
expect 2 "${args[@]}" -o new --part 3/2
expect 2 "${args[@]}" -o new --part 1/2 --imatrix-gguf new.gguf
error_says 'of the whole calibration'
expect 2 "${args[@]}" -o new.safetensors --part 1/2
check "nothing is left of what was refused" test -z "$(ls -d new* .new* 2>/dev/null)"

# --- the script for Slurm, with a stand-in for its command -------------------------------------------
check "calibrate as an array" slurm 3 out/ "${args[@]}"
check "a Slurm array: the bytes of one process" diff -r whole out
slurm 3 scores score model -f nvfp4,int8 >printed
expect 0 score model -f nvfp4,int8
check "score as an array prints the table of one process" test "$(cat printed)" = "$(cat "$tmp/out")"
finish
