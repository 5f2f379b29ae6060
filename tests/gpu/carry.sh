#!/usr/bin/env bash
# carry.sh - packs what a machine with a GPU needs to run tests/gpu without building anything: the
# programs of a build with CUDA, stripped, and the libraries that such a machine may lack.
#
#   bash tests/gpu/carry.sh BUILD ARCHIVE.tar.gz
#   there: mkdir DIR && tar -xzf ARCHIVE.tar.gz -C DIR && bash tests/gpu/run_gpu.sh --prebuilt DIR
#
# The C library there must be no older than here.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2 && exit 2; }
build=$1 archive=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for program in kerf tests/gpu/gpu_equal tests/gpu/codec_cuda bench/bench_file; do
    [ -e "$build/$program" ] || continue
    strip -o "$folder/${program##*/}" "$build/$program"
done
[ -e "$folder/gpu_equal" ] || { echo "carry.sh: $build has no gpu_equal; build it with CUDA" >&2 && exit 1; }
for library in libgomp libzstd libjansson; do
    path=$(ldd "$folder"/* 2>/dev/null | awk -v l="$library" 'index($1, l) == 1 { print $3; exit }')
    [ -z "$path" ] || cp -L "$path" "$folder/"
done
mkdir -p "$(dirname "$archive")"
tar -C "$folder" -czf "$archive" .
ls -l "$folder" "$archive"
