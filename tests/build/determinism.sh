#!/usr/bin/env bash
# determinism.sh - the same bytes from every compiler at every optimization level. `kerf selftest`
# of each build must pass, which compares thread counts, cuts into calls and the recorded digests,
# and all must print the same digests. Each build is a few plain command lines (one for the golden
# vectors that the command carries, one per instruction set, one for the rest), so this also shows
# that kerf needs no build system. The other backends come with -O3 only: at -O2 every configuration of
# run.sh has them, and at -O0, where whole bands are still forced inline, they need tens of gigabytes.
#
#   determinism.sh [COMPILER...]     default: $KERF_COMPILERS, else those of gcc and clang that
#                                    are here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
shopt -s nullglob

compilers=("$@")
[ ${#compilers[@]} -gt 0 ] || read -ra compilers <<<"${KERF_COMPILERS:-}"
if [ ${#compilers[@]} -eq 0 ]; then
    for compiler in gcc clang; do
        if command -v $compiler >/dev/null; then compilers+=("$compiler"); fi
    done
fi
[ ${#compilers[@]} -gt 0 ] || { echo "neither gcc nor clang is here" && exit 1; }

# More threads than cores must not wait for each other by spinning.
export OMP_WAIT_POLICY=passive

flags=(-std=c11 -D_GNU_SOURCE -ffp-contract=off
    -Icodecs -Icodecs/include -Ikernels -Ikernels/include -Iadvisor/include)
sources=(codecs/*.c codecs/base/*.c codecs/cpu/*.c codecs/cuda/nodevice*.c kernels/cuda/nodevice*.c codecs/file/*.c
    kernels/*.c kernels/cpu/*.c advisor/*.c cli/*.c)
# The backends of other instruction sets need options of their own.
declare -A options=()
avx512="-mavx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl"
case $(uname -m) in
x86_64)
    options=([codecs/cpu/avx2.c]="-mavx2" [codecs/cpu/avx512.c]="$avx512"
        [kernels/cpu/gemv_avx2.c]="-mavx2 -mfma -mf16c"
        [kernels/cpu/gemv_avx512.c]="$avx512 -mfma -mf16c"
        [kernels/cpu/gemv_avx512bf16.c]="$avx512 -mfma -mf16c -mavx512bf16")
    ;;
esac
for file in "${!options[@]}"; do sources=("${sources[@]/#$file/}"); done
read -ra libraries <<<"$(pkg-config --cflags --libs libzstd jansson)"

# "${compilers[0]}" makes golden_vectors.c for all of them.
pack_vectors() {
    local files
    (cd tests/golden && printf '%s\n' *.txt peers/vectors/*.txt) >"$work/files"
    mapfile -t files <"$work/files"
    "${compilers[0]}" -O2 "${flags[@]}" tests/golden/pack_vectors.c codecs/selftest/vector_text.c \
        codecs/format/format.c codecs/base/*.c "${libraries[@]}" -o "$work/pack_vectors"
    "$work/pack_vectors" "$work/golden_vectors.c" tests/golden "${files[@]}"
}

# Threads of two OpenMP libraries and of none: a clang without libomp builds for one thread.
openmp_flag() {
    if echo '#include <omp.h>' | "$1" -fopenmp -fsyntax-only -x c - 2>/dev/null; then
        echo -fopenmp
    else
        echo "$1 has no OpenMP here: its builds run one thread" >&2
    fi
}

# One file of digests per compiler and level: the lines "nvfp4:4/6  0123456789abcdef" of selftest.
write_digests() {
    local compiler=$1 openmp level kerf file objects backends files
    read -ra openmp <<<"$(openmp_flag "$compiler")"
    for level in "-O2" "-O0" "-O3 -march=native"; do
        kerf="$work/kerf $compiler $level" objects=() backends=() files=("${!options[@]}")
        [[ $level == -O3* ]] || backends=(-DKERF_REF_ONLY) files=()
        for file in "${files[@]}"; do
            objects+=("$kerf.$(basename "$file" .c).o")
            # shellcheck disable=SC2086 # flags are words
            "$compiler" $level ${options[$file]} "${flags[@]}" -c "$file" -o "${objects[-1]}"
        done
        # shellcheck disable=SC2086,SC2068 # flags are words; a source that was taken out is none
        "$compiler" $level "${flags[@]}" "${backends[@]}" "${openmp[@]}" ${sources[@]} "${objects[@]}" \
            "${libraries[@]}" -lm -o "$kerf"
        "$kerf" selftest >"$kerf.log" || { cat "$kerf.log" && return 1; }
        awk '$1 ~ /:/ && length($2) == 16 { print $1, $2 }' "$kerf.log" >"$work/$compiler $level.txt"
    done
}

pack_vectors
sources+=("$work/golden_vectors.c")
pids=()
for compiler in "${compilers[@]}"; do
    write_digests "$compiler" &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done

status=0
runs=("$work"/*.txt)
for run in "${runs[@]}"; do
    if ! difference=$(diff "${runs[0]}" "$run"); then
        echo "$(basename "$run" .txt) writes other bytes than $(basename "${runs[0]}" .txt):"
        echo "$difference" && status=1
    fi
done
if [ ! -s "${runs[0]}" ] || [ ${#runs[@]} -ne $((3 * ${#compilers[@]})) ]; then
    echo "no digests" && exit 1
fi
if [ $status -eq 0 ]; then
    echo "$(wc -l <"${runs[0]}") digests, equal in ${#runs[@]} builds (${compilers[*]})"
fi
exit $status
