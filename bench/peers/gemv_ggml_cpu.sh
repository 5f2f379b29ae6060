#!/usr/bin/env bash
# gemv_ggml_cpu.sh - products with GGUF's blocks by ggml on this processor, beside kerf's, in one program.
#
#   bench/peers/gemv_ggml_cpu.sh build FOLDER [GGML]     both into FOLDER (some minutes on two cores)
#   bench/peers/gemv_ggml_cpu.sh run FOLDER [OPTION...]  gemv_ggml with these options (gemv_ggml.c)
#
# GGML is the folder ggml of a checkout of llama.cpp, or one of github.com/ggml-org/ggml; without it, the
# one in the source package of llama-cpp-python, the version below, from PyPI. It is built by its own
# CMake for this processor (GGML_NATIVE), which turns on its tiles of AMX and its repacked blocks where
# the processor has what they need. kerf is built from this tree, as a release is.
set -euo pipefail

version=0.3.36 # of llama-cpp-python: ggml 0.25.3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
jobs=${JOBS:-$(nproc)}

build() {
    local folder=$1 source=${2:-}
    mkdir -p "$folder"
    if [ -z "$source" ]; then
        source=$folder/llama_cpp_python-$version/vendor/llama.cpp/ggml
        if [ ! -e "$source/CMakeLists.txt" ]; then
            python3 -m pip download -q --no-deps --no-binary llama-cpp-python -d "$folder" \
                "llama-cpp-python==$version"
            tar -xzf "$folder/llama_cpp_python-$version.tar.gz" -C "$folder" \
                "llama_cpp_python-$version/vendor/llama.cpp/ggml"
        fi
    fi
    mkdir -p "$folder/whole" # as a part of a project: the package has no file for a project of its own
    printf '%s\n' 'cmake_minimum_required(VERSION 3.14)' 'project(peer C CXX)' \
        "add_subdirectory($(realpath "$source") ggml)" >"$folder/whole/CMakeLists.txt"
    # gcc 12 takes ldtilecfg for a reader of 8 bytes, leaves out the stores of the rest, and ggml ends with SIGILL.
    cat >"$folder/config.h" <<'END'
#ifdef __AMX_TILE__
#include <immintrin.h>
#define _tile_loadconfig(p) ({ __asm__ volatile("" ::: "memory"); _tile_loadconfig(p); })
#endif
END
    cmake -S "$folder/whole" -B "$folder/ggml" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
        -DCMAKE_CXX_FLAGS="-include $(realpath "$folder")/config.h" -DGGML_OPENMP=ON -DGGML_LLAMAFILE=ON --log-level=WARNING
    cmake --build "$folder/ggml" --target ggml-cpu -j "$jobs"
    cmake -S "$here/../.." -B "$folder/kerf" -DCMAKE_BUILD_TYPE=Release -DKERF_TESTS=OFF -DKERF_CUDA=OFF \
        --log-level=WARNING
    cmake --build "$folder/kerf" --target kerf_static -j "$jobs"
    cc -std=c11 -D_GNU_SOURCE -O2 -I"$source/include" -I"$here/../../codecs/include" -I"$here/../../kernels/include" \
        -c "$here/gemv_ggml.c" -o "$folder/gemv_ggml.o"
    c++ "$folder/gemv_ggml.o" "$folder/kerf/libkerf.a" $(find "$folder/ggml" -name 'libggml-cpu.a') \
        $(find "$folder/ggml" -name 'libggml-base.a') -fopenmp -lm -ldl -lpthread -o "$folder/gemv_ggml"
}

case "${1:-} $#" in
"build 2" | "build 3") build "${@:2}" ;;
"run "*)
    export OMP_WAIT_POLICY=passive OMP_PROC_BIND=true # or both threads of a product meet on one busy core
    exec "$2/gemv_ggml" "${@:3}"
    ;;
*)
    sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2
    exit 2
    ;;
esac
