#!/usr/bin/env bash
# run_gpu.sh - the CUDA backend on this machine's GPU, with nothing but this repository and the CUDA
# toolkit: builds the codecs, compares every byte with the reference, runs compute-sanitizer.
#
#   bash tests/gpu/run_gpu.sh [--quick] [--sanitize] [--bench] [--elements N] [--results DIR]
#
#   --quick       small tensors only
#   --elements N  per codec (default 10^8)
#   --sanitize    memcheck, racecheck, initcheck and synccheck over a selection as well
#   --bench       and measure encode and decode against the copy bandwidth
#   --results DIR where the figures go (default: build/gpu)
#
# Without nvcc or a GPU the tests are counted as skipped, and the exit status is 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=build/gpu mode=full sanitize=0 bench=0 elements=100000000 results=$build
while [ $# -gt 0 ]; do
    case $1 in
    --quick) mode=quick ;;
    --sanitize) sanitize=1 ;;
    --bench) bench=1 ;;
    --elements) elements=${2:?--elements needs a number} && shift ;;
    --results) results=${2:?--results needs a folder} && shift ;;
    *) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2 && exit 2 ;;
    esac
    shift
done

skip() {
    echo "skipped: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}
export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
command -v nvcc >/dev/null || skip "no nvcc"
nvidia-smi -L 2>/dev/null | grep -q GPU || skip "no GPU"

# The same flags as CMakeLists.txt and cmake/cuda.cmake.
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
[ "$arch" -lt 90 ] || arch=${arch}a
include=(-Icodecs -Icodecs/include -I"$(dirname "$(command -v nvcc)")/../include")
cflags="-std=c11 -D_GNU_SOURCE -O2 -fopenmp -ffp-contract=off -Wall -Wextra ${include[*]}"
nvflags="-std=c++17 -O3 -gencode arch=compute_$arch,code=sm_$arch --fmad=false -ftz=false"
nvflags+=" -prec-div=true -prec-sqrt=true -Xcompiler -ffp-contract=off ${include[*]}"

mkdir -p "$build/rows" "$results"
sed -n 's/^KERF_FORMAT(\([A-Z0-9_]*\),.*/\1/p' codecs/include/kerf/formats.def | while read -r id; do
    printf '#define KF_ROW_ID %s\n#include "cuda/row.cuh"\n' "$id" >"$build/rows/row_$id.cu"
done
start=$SECONDS
{
    for f in "$build"/rows/*.cu codecs/cuda/*.cu; do
        echo "nvcc $nvflags -c $f -o $build/rows/$(basename "$f" .cu).o"
    done
    for f in codecs/*.c codecs/base/*.c codecs/cpu/*.c codecs/cuda/*.c; do
        isa=
        case $(uname -m) in x86_64) case $f in
            */avx2.c) isa=-mavx2 ;;
            */avx512.c) isa="-mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512" ;;
            esac ;;
        esac
        [ "$f" = codecs/cuda/nodevice.c ] || echo "gcc $cflags $isa -c $f -o $build/${f//\//_}.o"
    done
} | xargs -d '\n' -P "$(nproc)" -I{} bash -c '{}'
for program in tests/gpu/equal.c bench/codec_cuda.c; do
    gcc $cflags -c "$program" -o "$build/main.o"
    nvcc -Xcompiler -fopenmp "$build"/*.c.o "$build"/rows/*.o "$build/main.o" \
        -o "$build/$(basename "$program" .c)" -lpthread
done
echo "built in $((SECONDS - start)) s"

status=0
"$build/equal" "$mode" "$elements" "$results/codec-gpu-equality.json" || status=1
if [ $sanitize -eq 1 ]; then
    for tool in memcheck racecheck initcheck synccheck; do
        echo "compute-sanitizer --tool $tool"
        compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
            "$build/equal" brief >"$build/$tool.log" 2>&1 || status=1
        tail -n 3 "$build/$tool.log"
    done | tee "$results/codec-gpu-sanitizers.txt"
fi
[ $bench -eq 0 ] || "$build/codec_cuda" -o "$results/codec-gpu.json" || status=1
exit $status
