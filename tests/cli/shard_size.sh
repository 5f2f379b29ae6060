#!/usr/bin/env bash
# shard_size.sh - the files of an output folder: those of the source, or new ones of --shard-size; an
# index that tells the truth, the small files of a model, and what every reader asks for.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
index=model.safetensors.index.json

# The line of an index for a tensor is "NAME": "FILE".
map_of() { sed -n 's/^    "\(.*\)": "\(model.*\)",*$/\1 \2/p' "$1/$index"; }

check_folder() { # FOLDER: what holds for every folder of several shards
    local count
    check "$1: counted names" diff <(find "$1" -name 'model-*' -printf '%f\n' | sort) <(
        count=$(find "$1" -name 'model-*' | wc -l)
        for i in $(seq "$count"); do printf 'model-%05d-of-%05d.safetensors\n' "$i" "$count"; done
    )
    expect 0 inspect "$1" --json
    check "$1: total_size" test "$("$TOOLS/json_get" metadata.total_size <"$1/$index")" = "$(json totals.bytes)"
    check "$1: every tensor is in the index" test "$(map_of "$1" | wc -l)" = "$(json "weights.*.planes.*.name" | wc -l)"
    check "$1: a weight is in one shard" test -z "$(map_of "$1" |
        sed 's/_scale_2 / /; s/_scale / /; s/_zero_point / /' | sort -u | cut -d ' ' -f 1 | uniq -d)"
    check_small "$1"
}
check_small() { # FOLDER
    local shard
    for shard in "$1"/*.safetensors; do
        check "$shard: format pt" \
            test "$(tail -c +9 "$shard" | head -c 30)" = '{"__metadata__":{"format":"pt"'
    done
    same_file "$1/tokenizer.json" "$source/tokenizer.json"
    check "$1: config.json" test -s "$1/config.json"
}

"$TOOLS/make_model" many "$tmp/three" 3 60 160
for source in "$model" "$tmp/three"; do
    expect 0 quantize "$source" -f int4-g32-asym -o "$tmp/whole"
    expect 0 dequantize "$tmp/whole" -o "$tmp/whole.safetensors"
    check_small "$tmp/whole"
    for size in 1MB 200KB 300KB 1000000; do
        expect 0 quantize "$source" -f int4-g32-asym --shard-size "$size" -o "$tmp/split"
        check_folder "$tmp/split"
        expect 0 dequantize "$tmp/split" --shard-size "$size" -o "$tmp/dense"
        check_folder "$tmp/dense"
        expect 0 convert "$tmp/split" --layout kerf --shard-size 2GB -o "$tmp/merged"
        check "a single shard needs no index" test ! -e "$tmp/merged/$index"
        check_small "$tmp/merged"
        for folder in split merged; do
            expect 0 dequantize "$tmp/$folder" -o "$tmp/again.safetensors" -y
            same_file "$tmp/again.safetensors" "$tmp/whole.safetensors"
        done
        rm -r "$tmp/split" "$tmp/dense" "$tmp/merged"
    done
    rm -r "$tmp/whole" "$tmp/whole.safetensors"
done

# Sizes are decimal and hold, but for a weight that is larger by itself.
source=$tmp/three
expect 0 quantize "$source" -f int8 --shard-size 100KB -o "$tmp/split"
check "at most 100 kB of tensors" test -z "$(find "$tmp/split" -name 'model-*' -size +104000c)"
expect 0 quantize "$source" -f int8 --shard-size 1KB -o "$tmp/single"
check "a weight in each shard" test "$(find "$tmp/single" -name 'model-*' | wc -l)" -ge 55

# The source's shards by default.
expect 0 quantize "$source" -f nvfp4 -o "$tmp/kept"
check "the shards are kept" diff <(cd "$source" && ls model-*) <(cd "$tmp/kept" && ls model-*)

for size in 5 999999 0 GB -1 5XB 1.5GB 99999999999GB; do
    expect 2 quantize "$source" -f nvfp4 --shard-size "$size" -o "$tmp/never"
    error_says 'as 5GB'
done
expect 2 quantize "$source" -f nvfp4 --shard-size 1MB -o "$tmp/never.safetensors"
error_says 'splits a folder'
absent "$tmp/never"
finish
