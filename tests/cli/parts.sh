#!/usr/bin/env bash
# parts.sh - an output that several processes write: the bytes of one process, for any number of parts in
# any order, in three layouts, also when layers that share a tensor scale lie in different parts; parts
# killed and repeated; and what cannot be merged says which command mends it, and leaves no model.
. "$(dirname "${BASH_SOURCE[0]}")/parts_lib.sh"

same() { # NAME A B: two folders with the same names and bytes
    check "$1: the same bytes" diff -r "$2" "$3"
    rm -rf "$3"
}
parts() { # N OUT ARGS...: all parts of a run, the last one first, two at a time
    local n=$1 out=$2 i
    shift 2
    for i in $(seq "$n" -1 1); do
        "$KERF" "$@" -q -j 1 -o "$out" --part "$i/$n" >/dev/null 2>"err-$i" </dev/null &
        [ $((i % 2)) -eq 0 ] || wait
    done
    wait
    check "$n parts of $out: $(cat err-*)" test -z "$(cat err-*)"
}

# --- the same bytes ------------------------------------------------------------------------------
# q, k and v of a layer of tiny-llama are merged by loaders; files of 200 kB tear such groups apart.
size=(--shard-size 200KB)
for layout in kerf modelopt compressed-tensors; do
    args=(quantize "$model" -f nvfp4 --layout $layout "${size[@]}")
    expect 0 "${args[@]}" -o whole-$layout
    for n in 1 2 3 8; do
        in_turn || continue
        parts $n out "${args[@]}"
        check "nothing is there before a merge" test ! -e out
        expect 0 merge out
        check "nothing but the output is left" test ! -e out.kerf-parts
        same "$layout, $n parts" whole-$layout out
    done
done
files=$(ls whole-modelopt/*.safetensors | wc -l)
torn=$(python3 - whole-modelopt/model.safetensors.index.json <<'END' 2>/dev/null
import json, sys
where = json.load(open(sys.argv[1]))['weight_map']
qkv = lambda name, x: where.get(name.replace('q_proj.weight', x + '_proj.weight'))
print(sum(len({qkv(n, 'q'), qkv(n, 'k'), qkv(n, 'v')}) > 1 for n in where if n.endswith('q_proj.weight')))
END
)
[ -z "$torn" ] || check "all 4 layers are torn apart by the $files files" test "$torn" -eq 4

expect 0 convert whole-modelopt --layout compressed-tensors "${size[@]}" -o converted
parts 3 out convert whole-modelopt --layout compressed-tensors "${size[@]}"
expect 0 merge out
same "convert" converted out
expect 0 dequantize whole-modelopt -o dense # the files of its source
parts 3 out dequantize whole-modelopt
expect 0 merge out --json
check "a document" test "$("$TOOLS/json_get" parts <"$tmp/out")" = 3
same "dequantize" dense out

# --- kills ---------------------------------------------------------------------------------------
args=(quantize "$model" -f nvfp4:sweep "${size[@]}" --layout modelopt -q -j 1)
expect 0 "${args[@]}" -o whole
parts 3 done "${args[@]}"
parts_killed 2 300 "${args[@]}"
"$KERF" merge out >/dev/null 2>&1 && rm -rf out # if none was hit
for i in 1 2 3; do expect 0 "${args[@]}" -o out --part $i/3 --resume; done
expect 0 merge out
same "after kill -9" whole out

# --- what cannot be merged -----------------------------------------------------------------------
expect 4 merge nothing
error_says 'nothing: has no parts to merge'
expect 2 merge out.kerf-parts/
error_says 'kerf merge out$'
fresh
rm -r out.kerf-parts/2-of-3
refused 'out: part 2/3 is missing: run kerf quantize ... -o out --part 2/3'
expect 3 inspect out
error_says 'out: is in parts that are not merged yet: kerf merge out'
expect 3 inspect out.kerf-parts
error_says 'kerf merge out'
expect 3 verify "$model" out.kerf-parts/1-of-3
error_says 'kerf merge out'
rm -r out.kerf-parts/1-of-3
refused 'part 1/3 is missing (and 1 more)'

expect 0 "${args[@]}" -o out --part 2/3
expect 0 quantize "$model" -f nvfp4 "${size[@]}" --layout modelopt -q -o out --part 1/3
refused 'part 2/3 is of another plan than part 1 (its formats or options are others): run kerf quantize'
expect 2 "${args[@]}" -o out --part 1/3
error_says '1-of-3: this part was written by another plan .*; -y replaces it'
expect 0 "${args[@]}" -o out --part 1/3 -y
expect 0 merge out --per-tensor
error_says '--per-tensor lists scores, and here are none'
same "after the mending" whole out

fresh
shard=$(ls out.kerf-parts/3-of-3/*.safetensors | head -n 1)
printf 'x' | dd of="$shard" bs=1 seek=20000 conv=notrunc status=none
refused 'part 3/3 is damaged (.*read back other than they were written)'
expect 0 "${args[@]}" -o out --part 3/3
inode=$(stat -c %i out.kerf-parts/2-of-3)
expect 0 "${args[@]}" -o out --part 2/3
check "a finished part is left as it is" test "$(stat -c %i out.kerf-parts/2-of-3)" = "$inode"
truncate -s -1 "$shard"
refused 'part 3/3 is damaged'
rm "$shard"
refused 'part 3/3 is damaged'
expect 0 "${args[@]}" -o out --part 3/3
for change in 's|"name": "model|"name": "../model|' 's|"bytes": |"bytes": -|' 's|"parts": 3|"parts": 4|' \
    's|"index": [0-9]*|"index": 4294967295|' 's|"source": "|"source": "x|' 's|"files": |"filed": |' '$d'; do
    cp out.kerf-parts/2-of-3/kerf-part.json record
    sed -i "$change" out.kerf-parts/2-of-3/kerf-part.json
    refused 'part 2/3 is damaged, its kerf-part.json is lost'
    cp record out.kerf-parts/2-of-3/kerf-part.json
done
mkdir out.kerf-parts/1-of-4
refused 'has parts of .* and of .*: keep one division'
rmdir out.kerf-parts/1-of-4

# a merge that was killed: between two files, and behind the last rename
mkdir out.kerf-parts/whole
mv out.kerf-parts/2-of-3/*.safetensors out.kerf-parts/whole
touch out.kerf-parts/whole/of-a-plan-that-was-given-up
expect 0 merge out
check "the bytes of one process" diff -r whole out
cp -r done.kerf-parts out.kerf-parts
expect 4 merge out
error_says 'out: exists already; -y replaces it'
find out.kerf-parts -name '*.safetensors' -o -name '*.json' ! -name 'kerf-*' | xargs rm
expect 0 merge out
check "its folders are taken away" test ! -e out.kerf-parts
same "and the output is what it was" whole out

# two merges at once, and one while a part is written
fresh
merged_at_once
fresh
"$KERF" "${args[@]}" -o out --part 1/9 >/dev/null 2>&1 &
pid=$!
for _ in $(seq 200); do
    compgen -G "out.kerf-parts/.1-of-9.kerf-tmp-*" >/dev/null && break
    sleep 0.005
done
kill -STOP $pid
expect 4 merge out
error_says 'a part or another kerf merge is at work in it'
kill -TERM $pid
kill -CONT $pid
wait $pid
rm -rf out.kerf-parts/1-of-9

# --- options -------------------------------------------------------------------------------------
expect 0 merge out --sha256
check "sums of the output" sha256sum --status -c out.sha256
expect 4 "${args[@]}" -o out --part 1/3
error_says 'out: exists already; -y replaces it'
for bad in 0/3 4/3 3 a/b 1/3x -1/3 1/70000; do
    expect 2 "${args[@]}" -o new --part=$bad
    error_says 'expected I/N'
done
expect 2 "${args[@]}" -o new --part 1/2 --sha256
expect 2 quantize "$model" -f nvfp4 -o new --part 1/2
error_says 'would be one file'
expect 2 quantize "$model" -f nvfp4 -o new.safetensors --part 1/2
error_says 'names a folder'
check "nothing is left of what was refused" test -z "$(ls -d new* .new* 2>/dev/null)"

# --- a damaged part stays until the new one is whole ---------------------------------------------------
args=(quantize "$model" -f nvfp4 "${size[@]}" -q -j 1)
expect 0 "${args[@]}" -o hurt --part 1/3
"$TOOLS/spoil" bytes "$(ls hurt.kerf-parts/1-of-3/*.safetensors | head -n 1)" 5000 1 61
cp -r hurt.kerf-parts as-it-was
code=0
(ulimit -f 100 && exec "$KERF" "${args[@]}" -o hurt --part 1/3) >/dev/null 2>&1 || code=$?
check "files of 100 KiB are too small: exit code $code" test "$code" -eq 4
check "what was there stays" diff -r hurt.kerf-parts as-it-was
expect 0 "${args[@]}" -o hurt --part 1/3
check "and is replaced" test "$(diff -r hurt.kerf-parts as-it-was | wc -l)" -gt 0
rm -rf hurt.kerf-parts as-it-was

# --- the script for Slurm, with a stand-in for its command -----------------------------------------
rm -rf out out.kerf-parts
check "it runs" slurm 3 out/ quantize "$model" -f nvfp4:sweep "${size[@]}" --layout modelopt
check "a Slurm array: the bytes of one process" diff -r whole out
finish
