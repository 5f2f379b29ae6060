#!/usr/bin/env bash
# toy_format.sh - what a new number format costs: toy.patch adds one of a new kind (its own family
# and arithmetic) to a copy of the tree. It may add at most 40 lines to formats.def, one header of
# codecs/block/ and one file of golden vectors; then everything must build, every test of the
# library and of the command must pass with the format among the others.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
before=$work/before after=$work/after build=$work/after/build

mkdir "$before"
tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$before" -xf -
cp -r "$before" "$after"
patch -d "$after" -p1 --quiet --no-backup-if-mismatch <"$here/toy.patch"

# The price: which files, how many lines.
changed=$(cd "$work" && { diff -rqN before after || true; } |
    awk '{ sub(/^after\//, "", $4); print $4 }' | LC_ALL=C sort)
allowed="codecs/block/toy.h
codecs/include/kerf/formats.def
tests/golden/toy4.txt"
if [ "$changed" != "$allowed" ]; then
    printf 'the patch may touch these files alone:\n%s\nbut touches:\n%s\n' "$allowed" "$changed"
    exit 1
fi
table=codecs/include/kerf/formats.def
read -r added removed <<<"$(diff "$before/$table" "$after/$table" |
    awk '/^>/ { a++ } /^</ { r++ } END { print a + 0, r + 0 }')"
if [ "$added" -gt 40 ] || [ "$removed" -ne 0 ]; then
    echo "formats.def: $added lines more, $removed lines gone; at most 40 and none are allowed"
    exit 1
fi

# The gain: everything works on it. Tests that meet it are those that loop over the table of formats
# or ask the command for it; the others would be the same tests as without it. Where a test can be
# asked for one format, it is this one. The self test runs below: the digests of this format are not
# recorded. Tiles are of codes that they know, which those of a new family are not; in plain C they
# are a fifth of the build.
cd "$after/tests"
export FORMATS=toy4 # rounds.h, round_trip.sh
mapfile -t units < <(grep -lE 'kerf_format_(count|at)|"encoded.h"' unit/test_*.c |
    xargs -n 1 basename -s .c | grep -vx test_gemv_tiles)
mapfile -t scripts < <({ grep -lE '"?\$KERF"? formats' cli/*.sh && ls cli/inspect.sh; } |
    xargs -n 1 basename -s .sh | grep -vxE 'selftest|layouts|convert')
[ ${#units[@]} -ge 10 ] && [ ${#scripts[@]} -ge 5 ] || { echo "too few tests meet a new format" && exit 1; }
# Without the loops for AVX-512, a quarter of the build: they are the text of those for AVX2 (codecs/cpu/wide.h),
# to which each row of the table is the same.
cmake -S "$after" -B "$build" --preset quick -DKERF_AVX512=OFF --log-level=WARNING >"$work/build.log"
tools=(json_get make_gguf make_malformed make_model peak_memory spoil)
cmake --build "$build" -j "$(nproc)" --target kerf check_backends "${tools[@]}" "${units[@]}" >"$work/build.log" 2>&1 ||
    { cat "$work/build.log" && exit 1; }
names=$(IFS='|' && echo "${units[*]}|cli_(${scripts[*]})")
ctest --test-dir "$build" -j "$(nproc)" -R "^($names)\$" --output-on-failure --no-tests=error
"$build/tests/check_backends" --format toy4
for test in layers quiet; do bash "$after/tests/build/$test.sh"; done

kerf=$build/kerf model=$after/tests/data/tiny-llama
"$kerf" formats | grep -w toy4
"$kerf" selftest
"$kerf" quantize "$model" -f toy4 -o "$work/quantized"
"$kerf" verify "$model" "$work/quantized"
"$kerf" dequantize "$work/quantized" -o "$work/back"
"$kerf" score "$model" -f toy4,nvfp4

# And nothing of it is known without the patch.
if grep -rqi 'toy4' "$before/codecs" "$before/cli"; then
    echo "the tree knows toy4 without the patch" && exit 1
fi
echo "a new format: $added lines of formats.def and a header of" \
    "$(wc -l <"$after/codecs/block/toy.h") lines"
