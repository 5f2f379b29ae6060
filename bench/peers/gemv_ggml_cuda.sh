#!/usr/bin/env bash
# gemv_ggml_cuda.sh - products with GGUF's blocks by ggml's CUDA backend, beside kerf's on the same card.
#
#   bench/peers/gemv_ggml_cuda.sh build FOLDER [GGML]    the peer into FOLDER (20 minutes on two cores)
#   bench/peers/gemv_ggml_cuda.sh run FOLDER OUT         there: theirs, then kerf's, and what ncu counts
#
# GGML is a checkout of github.com/ggml-org/ggml; without it the commit below is fetched. The library is
# built by its own CMake, for ARCHITECTURES (default 90), without flash attention, which no product needs.
# FOLDER then holds gemv_ggml_cuda and two libraries; `run` wants bench_gemv_cuda there as well, of a
# build with CUDA and -DKERF_BENCH=ON. OUT receives gemv-ggml.json, gemv-blocks.json and ncu-*.csv, and
# `bench/peers/gemv_ggml_cuda.py OUT/gemv-ggml.json OUT/gemv-blocks.json` puts them side by side.
set -euo pipefail

commit=d99724f2b141fed9e1a9f402213506c081433465
formats=q4_k,q6_k,ggml-q4_0,ggml-q8_0,q5_k,q2_k,ggml-mxfp4,iq4_xs,q3_k,ggml-nvfp4,q4_1,q5_0,q5_1,iq4_nl
shapes=4096x4096,14336x4096,4096x14336,8192x8192,28672x8192
metrics=gpu__time_duration.sum,smsp__inst_executed.sum,dram__bytes_read.sum
metrics+=,smsp__issue_active.avg.pct_of_peak_sustained_elapsed,launch__grid_size,launch__block_size

build() {
    local folder=$1 source=${2:-$1/ggml}
    mkdir -p "$folder"
    if [ ! -e "$source/CMakeLists.txt" ]; then # nothing there, or a fetch that was cut off
        git init -q "$source"
        git -C "$source" fetch -q --depth 1 https://github.com/ggml-org/ggml "$commit"
        git -C "$source" checkout -q FETCH_HEAD
    fi
    cmake -S "$source" -B "$folder/build" -GNinja -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON \
        -DGGML_CUDA_GRAPHS=ON -DGGML_CUDA_FA=OFF -DGGML_CUDA_NCCL=OFF -DGGML_NATIVE=OFF -DGGML_CPU=OFF \
        -DGGML_OPENMP=OFF -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF \
        -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURES:-90-real}" --log-level=WARNING
    cmake --build "$folder/build" --target ggml-cuda
    cp "$folder"/build/src/libggml-base.so.0 "$folder"/build/src/ggml-cuda/libggml-cuda.so.0 "$folder"
    cc -std=c11 -D_GNU_SOURCE -O2 -I"$source/include" "$(dirname "$0")/gemv_ggml_cuda.c" \
        -o "$folder/gemv_ggml_cuda" "$folder"/libggml-cuda.so.0 "$folder"/libggml-base.so.0 -lm \
        -Wl,-rpath,'$ORIGIN' -Wl,--allow-shlib-undefined
}

# What the kernels of a product take, without the launches around them.
count() {
    local ncu out=$1 name=$2 kernels=$3 skip=$4
    shift 4
    [ $SECONDS -lt "${LIMIT_S:-600}" ] || return 0
    ncu=$(command -v ncu || find /opt/nvidia/nsight-compute /usr/local/cuda/bin -maxdepth 2 -name ncu 2>/dev/null | head -n 1) || true
    [ -n "$ncu" ] || return 0
    timeout 20 "$ncu" --csv --clock-control none --kill yes --launch-skip "$skip" --launch-count 4 -k "regex:$kernels" \
        --metrics "$metrics" "$@" >"$out/ncu-$name.csv" 2>/dev/null || true
}

count_both() {
    local folder=$1 out=$2 type=$3 columns=$4 of
    of="--shapes 8192x8192 --columns $columns --rotate 0.2"
    # shellcheck disable=SC2086
    count "$out" "ggml-$type-$columns" 'mul_mat|quantize' 4 "$folder/gemv_ggml_cuda" --types "$type" $of --turns 1
    # shellcheck disable=SC2086
    count "$out" "kerf-$type-$columns" 'gemv' 0 "$folder/bench_gemv_cuda" --formats "$type" $of --no-baselines \
        --decoder none --replays 1
}

run() {
    local folder=$1 out=$2 status=0 torch
    mkdir -p "$out"
    torch=$(python3 -c 'import importlib.util as u; print(*u.find_spec("nvidia").submodule_search_locations)' \
        2>/dev/null || true)
    export LD_LIBRARY_PATH=$folder:${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64${torch:+:$torch/cu13/lib}
    timeout "${GGML_S:-90}" "$folder/gemv_ggml_cuda" --types "${FORMATS:-$formats}" --shapes "${SHAPES:-$shapes}" \
        --commit "$commit" -o "$out/gemv-ggml.json" >"$out/gemv-ggml.txt" 2>&1 || status=1
    tail -n 5 "$out/gemv-ggml.txt"
    timeout $((${BENCH_S:-90} + 15)) "$folder/bench_gemv_cuda" --no-baselines --decoder none --budget "${BENCH_S:-90}" \
        --formats "${FORMATS:-$formats}" --columns 1,2,4,8,16 --shapes "${SHAPES:-$shapes}" \
        --commit "${COMMIT:-unknown}" -o "$out/gemv-blocks.json" >"$out/gemv-blocks.txt" 2>&1 || status=1
    tail -n 2 "$out/gemv-blocks.txt"
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv || true
    for what in "q4_k 1" "q4_k 16" "q4_k 8" "q6_k 1" "ggml-q4_0 1" "ggml-q4_0 16" "q6_k 8"; do
        # shellcheck disable=SC2086
        count_both "$folder" "$out" $what
    done
    return $status
}

case "${1:-} $#" in
"build 2" | "build 3") build "${@:2}" ;;
"run 3") run "$2" "$3" ;;
*)
    sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2
    exit 2
    ;;
esac
