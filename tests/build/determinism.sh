#!/usr/bin/env bash
# determinism.sh - the same bytes from every compiler at every optimization level. The self test of
# each build must pass, which compares thread counts, cuts into calls, golden vectors and the recorded
# digests, and all must print the same digests. Each build is the codecs and the self test alone, by a
# few plain command lines (one per instruction set, one for the rest), so this also shows that the
# codecs need no build system.
#
#   determinism.sh [--all] KERF [COMPILER...]   KERF, the command, is one of the builds; compilers:
#                                               $KERF_COMPILERS, else those of gcc and clang here
#
# At -O0 functions that are otherwise forced inline are called: inline they take a compiler minutes.
# -march=native is where the processor could contract products and sums. What shows most for its
# time is built: the reference by the first compiler at -O0 and at -O3 -march=native, and every
# backend that runs here by the last one at -O3 -march=native; KERF has them all at -O2, and the
# sanitizers' build, whose self test is compared with the same recorded digests, by clang at -O1.
# --all: every backend by each compiler at -O3 -march=native, and the reference at -O0 and -O2; twice
# the time.
set -euo pipefail
all=0
[ "$1" != --all ] || { all=1 && shift; }
kerf=$(realpath "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

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

flags=(-std=c11 -D_GNU_SOURCE -ffp-contract=off -Icodecs -Icodecs/include)
sources=(codecs/{base,format,cpu,selftest}/*.c codecs/cuda/nodevice*.c tests/build/selftest_digests.c)
sources=("${sources[@]/#codecs\/selftest\/selftest_json.c/}") # a document, which is not of the bytes
# The backends of other instruction sets need options of their own.
declare -A options=()
case $(uname -m) in
x86_64)
    options=([codecs/cpu/avx2.c]="-mavx2"
        [codecs/cpu/avx512.c]="-mavx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl")
    if [ $all -eq 0 ] && ! grep -qs avx512bw /proc/cpuinfo; then
        sources=("${sources[@]/#codecs\/cpu\/avx512.c/}") flags+=(-DKERF_NO_AVX512)
        unset 'options[codecs/cpu/avx512.c]'
    fi
    ;;
esac
for file in "${!options[@]}"; do sources=("${sources[@]/#$file/}"); done
read -ra libraries <<<"$(pkg-config --cflags --libs libzstd)"

# "${compilers[0]}" makes golden_vectors.c for all of them.
pack_vectors() {
    local files
    (cd tests/golden && printf '%s\n' *.txt peers/vectors/*.txt) >"$work/files"
    mapfile -t files <"$work/files"
    "${compilers[0]}" -O2 "${flags[@]}" tests/golden/pack_vectors.c codecs/selftest/vector_text.c \
        codecs/base/hash.c codecs/format/dtype.c "${libraries[@]}" -o "$work/pack_vectors"
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

# Whether a compiler builds at a level, and the reference alone there.
plan() {
    local first=${compilers[0]} last=${compilers[-1]}
    case $all$2 in
    0-O0) [ "$1" != "$first" ] || echo reference ;;
    1-O0) echo reference ;;
    1-O2) [ "$1" = gcc ] || echo reference ;; # as KERF
    0-O3*) if [ "$1" = "$last" ]; then echo everything; else echo reference; fi ;;
    1-O3*) echo everything ;;
    esac
}

# One file of digests per compiler and level: lines like "nvfp4:4/6 0123456789abcdef".
write_digests() {
    local compiler=$1 openmp level build file objects files more what pid pids
    read -ra openmp <<<"$(openmp_flag "$compiler")"
    for level in "-O0" "-O2" "-O3 -march=native"; do
        what=$(plan "$compiler" "$level") || true
        [ -n "$what" ] || continue
        build="$work/$compiler $level" objects=() more=() pids=() files=("${!options[@]}")
        [ $what = everything ] || { more=(-DKERF_REF_ONLY) && files=(); }
        [ "$level" != -O0 ] || more+=(-Dalways_inline=unused)
        for file in "${files[@]}"; do
            objects+=("$build.$(basename "$file" .c).o")
            # shellcheck disable=SC2086 # flags are words
            "$compiler" $level "${more[@]}" ${options[$file]} "${flags[@]}" -c "$file" -o "${objects[-1]}" &
            pids+=($!) # side by side: each takes minutes
        done
        for pid in "${pids[@]}"; do wait "$pid"; done
        # shellcheck disable=SC2086,SC2068 # flags are words; a source that was taken out is none
        "$compiler" $level "${flags[@]}" "${more[@]}" "${openmp[@]}" ${sources[@]} "${objects[@]}" \
            "${libraries[@]}" -lm -o "$build"
        "$build" >"$build.txt"
    done
}

pack_vectors
sources+=("$work/golden_vectors.c")
"$kerf" selftest | awk '$1 ~ /:/ && length($2) == 16 { print $1, $2 }' >"$work/$(basename "$kerf").txt"
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
if [ ! -s "${runs[0]}" ] || [ ${#runs[@]} -lt $((${#compilers[@]} + 2)) ]; then
    echo "no digests" && exit 1
fi
if [ $status -eq 0 ]; then
    echo "$(wc -l <"${runs[0]}") digests, equal in ${#runs[@]} builds (${compilers[*]})"
fi
exit $status
