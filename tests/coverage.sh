#!/usr/bin/env bash
# coverage.sh - how much of codecs/scalar and codecs/block the tests of bytes and laws run: builds
# the library and the tests with gcc's --coverage, runs the parts that CI runs, and prints lines
# and branches per header, also to bench/results/coverage.json. Fails below 99 % of lines or 95 % of
# branches.
#
#   bash tests/coverage.sh
#
# The headers are inlined into one function per format, where most branches fold away or cannot be
# told apart. This build keeps every function whole (noinline), so that a branch is one branch; a
# branch counts as taken when any program took it in any source file.
set -euo pipefail
exec </dev/null
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$PWD work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1

programs=(unit/test_scalar unit/test_block unit/test_scale_tiles unit/test_codec
    unit/test_codec_numbers unit/test_golden property/properties exhaustive/scalar
    exhaustive/scales exhaustive/blocks)

compile() {
    gcc -std=c11 -O0 --coverage -ffp-contract=off -D_GNU_SOURCE -DKERF_REF_ONLY \
        -Dalways_inline=noinline -w \
        -Icodecs -Icodecs/include -Itests -DKERF_TEST_DATA="\"$root/tests/data\"" \
        -DKERF_TEST_GOLDEN="\"$root/tests/golden\"" -c "$root/$1" -o "$2"
}

mkdir "$work/library" "$work/oracle"
for source in codecs/format/*.c codecs/base/*.c codecs/cpu/*.c codecs/cuda/nodevice.c \
    codecs/selftest/{vector_check,vector_text}.c; do
    compile "$source" "$work/library/$(basename "$source" .c).o"
done
# Not measured, only slow at -O0.
for source in tests/exhaustive/{oracle*,patterns}.c tests/property/{sampling,laws*,fences}.c; do
    gcc -std=c11 -O2 -D_GNU_SOURCE -w -Icodecs/include -Itests -c "$source" \
        -o "$work/oracle/$(basename "$source" .c).o"
done
for name in "${programs[@]}"; do
    program=$work/${name##*/}
    compile "tests/$name.c" "$program.o"
    gcc --coverage "$program.o" "$work"/library/*.o "$work"/oracle/*.o -o "$program" -lcmocka -lm
    case $name in unit/*) options=() ;; *) options=(--seed 1) ;; esac
    echo "running ${name##*/}"
    "$program" "${options[@]}" >"$program.log" 2>&1 || { cat "$program.log" && exit 1; }
done

(cd "$work" && gcov --branch-probabilities --json-format -- *.gcda library/*.gcda >/dev/null)
python3 tests/coverage.py "$root" bench/results/coverage.json "$work"/*.gcov.json.gz
