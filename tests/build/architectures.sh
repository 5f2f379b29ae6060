#!/usr/bin/env bash
# architectures.sh - products and codecs compile for every architecture that a release has: a row for
# each way to decode, on the oldest, which converts nothing by itself, and on the newest. Only sm_90a
# is tested on hardware.
#
#   architectures.sh     needs nvcc; exit code 77 without it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
command -v nvcc >/dev/null || { echo "skipped: no nvcc" && exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0

# Whether it compiles does not depend on how well: what newer compilers can leave out is left out.
quick=()
if nvcc --help | grep -q -e --Ofast-compile; then quick=(--Ofast-compile max); fi

# compile NAME ARCHITECTURE SOURCE; what this toolkit does not know is left to newer ones.
compile() {
    if ! nvcc --list-gpu-code | grep -x "sm_${2%a}" >/dev/null; then
        echo "sm_$2: not known to this nvcc"
        return
    fi
    if nvcc -std=c++17 "${quick[@]}" -gencode "arch=compute_$2,code=sm_$2" --fmad=false -Icodecs -Icodecs/include \
        -Ikernels -Ikernels/include -x cu -c "$3" -o "$tmp/out.o" >"$tmp/log" 2>&1; then
        printf 'sm_%-5s %s\n' "$2" "$1"
    else
        printf 'sm_%-5s %s FAILED\n' "$2" "$1"
        head -n 5 "$tmp/log"
        failures=$((failures + 1))
    fi
}

for row in NVFP4 FP8_E4M3 FP8_E5M2 MXFP6_E2M3 NF4_DQ INT4_G128_ASYM FP16; do
    printf '#define KF_ROW_ID %s\n#include "cuda/gemv_row.cuh"\n' "$row" >"$tmp/gemv.cu"
    compile "products of $row" 80 "$tmp/gemv.cu"
done
printf '#define KF_ROW_ID MXFP4\n#define KF_SHUFFLED 1\n#include "cuda/gemv_row.cuh"\n' >"$tmp/gemv.cu"
compile "products of MXFP4, shuffled" 80 "$tmp/gemv.cu"
printf '#define KF_ROW_ID NVFP4\n#include "cuda/gemv_row.cuh"\n' >"$tmp/gemv.cu"
printf '#define KF_ROW_ID INT4_G128\n#include "cuda/row.cuh"\n' >"$tmp/row.cu"
for architecture in 80 100a 120a; do
    [ $architecture = 80 ] || compile "products of NVFP4" $architecture "$tmp/gemv.cu"
    compile "codecs of INT4_G128" $architecture "$tmp/row.cu"
    for source in kernels/cuda/*/*.cu codecs/cuda/*.cu; do
        compile "$source" $architecture "$source"
    done
done
[ $failures -eq 0 ] || { echo "$failures failures" && exit 1; }
