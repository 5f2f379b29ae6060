#!/usr/bin/env bash
# run_gpu.sh - the CUDA backend on this machine's GPU, with nothing but this repository and the CUDA
# toolkit: builds the codecs, compares every byte with the reference, runs compute-sanitizer, measures.
#
#   bash tests/gpu/run_gpu.sh [--quick] [--sanitize] [--bench] [--elements N] [--seconds S]
#                             [--prebuilt DIR] [--results DIR]
#
#   --quick         small tensors only
#   --elements N    per codec (default 10^8)
#   --seconds S     and no more than S seconds for one codec (default 10): what was cut is counted so
#   --sanitize      memcheck, racecheck, initcheck and synccheck over a selection as well
#   --bench         and measure encode and decode against the copy bandwidth
#   --prebuilt DIR  run the programs in DIR (tests/gpu/carry.sh puts them there) and build nothing;
#                   the command `kerf` is among them, which needs zstd and jansson to be built
#   --results DIR   where the figures go (default: build/gpu)
#
# Without nvcc or a GPU the tests are counted as skipped, and the exit status is 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=build/gpu mode=full sanitize=0 bench=0 elements=100000000 seconds=10 prebuilt='' results=''
while [ $# -gt 0 ]; do
    case $1 in
    --quick) mode=quick ;;
    --sanitize) sanitize=1 ;;
    --bench) bench=1 ;;
    --elements) elements=${2:?--elements needs a number} && shift ;;
    --seconds) seconds=${2:?--seconds needs a number} && shift ;;
    --prebuilt) prebuilt=${2:?--prebuilt needs a folder} && shift ;;
    --results) results=${2:?--results needs a folder} && shift ;;
    *) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2 && exit 2 ;;
    esac
    shift
done
results=${results:-$build}

skip() {
    echo "skipped: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}
export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
nvidia-smi -L 2>/dev/null | grep GPU >/dev/null || skip "no GPU"
mkdir -p "$results"

status=0
# step ESTIMATE COMMAND...: one step, with the seconds that it was expected to take and took.
step() {
    local start=$SECONDS estimate=$1
    shift
    echo "--- $* (about $estimate s)"
    if "$@"; then echo "--- passed after $((SECONDS - start)) s"; else
        status=1
        echo "--- FAILED after $((SECONDS - start)) s: $*"
    fi
}

build_codecs() {
    local arch generator=()
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
    [ "$arch" -lt 90 ] || arch=${arch}a
    ! command -v ninja >/dev/null || generator=(-G Ninja)
    cmake -S . -B "$build" "${generator[@]}" -DKERF_CODECS_ONLY=ON -DKERF_CUDA=ON \
        -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CUDA_ARCHITECTURES="$arch-real" \
        --log-level=WARNING && cmake --build "$build" -j "$(nproc)"
}
if [ -n "$prebuilt" ]; then
    programs=$prebuilt
    export LD_LIBRARY_PATH=$prebuilt${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
    command -v nvcc >/dev/null || skip "no nvcc"
    step 120 build_codecs >"$results/build.log" 2>&1
    [ $status -eq 0 ] || { tail -n 30 "$results/build.log" && exit 1; }
    programs=$build/tests/gpu
fi

# The whole of it in one thread each, beside the comparison: they wait for the GPU most of the time.
sanitizers=(memcheck racecheck initcheck synccheck)
start_sanitizers() {
    local tool
    for tool in "${sanitizers[@]}"; do
        OMP_NUM_THREADS=1 timeout 400 compute-sanitizer --tool "$tool" --report-api-errors no \
            --error-exitcode 9 "$programs/gpu_equal" brief >"$results/$tool.log" 2>&1 &
        sanitizer_pids+=($!)
    done
}
wait_sanitizers() {
    local i failed=0
    for i in "${!sanitizers[@]}"; do
        wait "${sanitizer_pids[i]}" || failed=1
        echo "compute-sanitizer --tool ${sanitizers[i]}, over gpu_equal brief:"
        tail -n 2 "$results/${sanitizers[i]}.log"
    done >"$results/codec-gpu-sanitizers.txt"
    cat "$results/codec-gpu-sanitizers.txt"
    return $failed
}

step 10 "$programs/gpu_equal" failures
if [ -e "$programs/kerf" ]; then
    step 60 bash tests/gpu/command.sh "$programs/kerf" "$programs/gpu_equal"
else
    echo "--- the command was not built here: tests/gpu/command.sh did not run"
fi
sanitizer_pids=()
[ $sanitize -eq 0 ] || start_sanitizers
case $mode in
quick) step 40 "$programs/gpu_equal" quick ;;
full) step 240 "$programs/gpu_equal" full "$elements" "$results/codec-gpu-equality.json" "$seconds" ;;
esac
[ $sanitize -eq 0 ] || step 60 wait_sanitizers
[ $bench -eq 0 ] || step 30 "$programs/codec_cuda" -o "$results/codec-gpu.json"
if [ $bench -eq 1 ] && [ -e "$programs/bench_file" ]; then
    disk=$(mktemp -d)
    trap 'rm -rf "$disk"' EXIT
    step 60 "$programs/bench_file" -k "$programs/kerf" -d "$disk" -m 4096 -n 3 -g cuda \
        -o "$results/file-gpu.json"
fi
exit $status
