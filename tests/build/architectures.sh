#!/usr/bin/env bash
# architectures.sh - products and codecs compile for every architecture that a release has: a row for
# each way to decode, on the oldest, which converts nothing by itself, and on sm_90a, the only one that
# is tested on hardware; and one on the newest.
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
if grep -q -e --Ofast-compile <<<"$(nvcc --help)"; then quick=(--Ofast-compile max); fi

# compile NAME SOURCE ARCHITECTURE...; those that this toolkit does not know are left to newer ones.
known=$(nvcc --list-gpu-code)
compile() {
    local name=$1 source=$2 architecture code=()
    shift 2
    for architecture in "$@"; do
        grep -qx "sm_${architecture%a}" <<<"$known" || continue
        code+=(-gencode "arch=compute_$architecture,code=sm_$architecture")
    done
    if nvcc -std=c++17 --threads 2 "${quick[@]}" "${code[@]}" --fmad=false -Icodecs -Icodecs/include \
        -Ikernels -Ikernels/include -x cu -c "$source" -o "$tmp/out.o" >"$tmp/log" 2>&1; then
        printf '%-40s %s\n' "$name" "$*"
    else
        printf '%-40s %s FAILED\n' "$name" "$*"
        head -n 5 "$tmp/log"
        failures=$((failures + 1))
    fi
}

# compile_row NAME HEADER DEFINITIONS ARCHITECTURE...
compile_row() {
    printf '%b\n#include "cuda/%s"\n' "$3" "$2" >"$tmp/row.cu"
    compile "$1" "$tmp/row.cu" "${@:4}"
}

for row in FP8_E4M3 FP8_E5M2 MXFP6_E2M3 NF4_DQ INT4_G128_ASYM FP16; do
    compile_row "products of $row" gemv_row.cuh "#define KF_ROW_ID $row" 80 90a
    compile_row "codecs of $row" row.cuh "#define KF_ROW_ID $row" 90a
done
compile_row "products of MXFP4, shuffled" gemv_row.cuh \
    '#define KF_ROW_ID MXFP4\n#define KF_SHUFFLED 1' 80 90a
every=(80 89 90a 100a 120a 121a)
compile_row "products of NVFP4" gemv_row.cuh '#define KF_ROW_ID NVFP4' "${every[@]}"
compile_row "experts of NVFP4" experts/experts_row.cuh '#define KF_ROW_ID NVFP4' "${every[@]}"
for row in Q6_K Q4_K; do # Q4_K has minima
    compile_row "experts of $row, by fours" experts/experts_row.cuh \
        "#define KF_ROW_ID $row\n#define KF_BLOCKS 1\n#define KF_FOURS 1" 80 90a 120a
done
compile_row "codecs of NVFP4" row.cuh '#define KF_ROW_ID NVFP4' 90a
compile_row "codecs of INT4_G128" row.cuh '#define KF_ROW_ID INT4_G128' "${every[@]}"
# These ask whether the architecture is sm_90 or later, and for nothing between or behind: to the compiler
# they are one text before it and one text on all of Blackwell.
for source in kernels/cuda/*/*.cu codecs/cuda/*.cu; do
    compile "$source" "$source" 80 90a 120a
done
[ $failures -eq 0 ] || { echo "$failures failures" && exit 1; }
