#!/usr/bin/env bash
# gemv_gpu.sh - the matrix-vector products of the GPU, tested and measured on another machine than the
# one that built them.
#
#   bench/gemv_gpu.sh pack BUILD FOLDER          here: what the other machine needs, some 10 MB
#   bench/gemv_gpu.sh run FOLDER OUT [STEP...]   there: test, bench, peers (default: all three)
#
# BUILD is configured with CUDA and -DKERF_BENCH=ON. The peers come from PyPI: GemLite is Python, of
# bitsandbytes the library for CUDA 13 is taken. There, PyTorch is needed for the peers alone. OUT
# receives gemv-correct.json, gemv-correct-pairs.json (two blocks to a row wherever they can),
# gemv-correct-wide.json (nine columns and more as with large matrices),
# gemv-gpu.json (kerf, cuBLAS, decoder, peers) and the tables as text.
# Seconds that each step may take: TEST_S, BENCH_S, PEERS_S. COMMIT names the source in the result.
set -euo pipefail

pack() {
    local build=$1 folder=$2 tmp
    mkdir -p "$folder"
    for f in tests/gpu/gpu_gemv bench/bench_gemv_cuda libkerf.so; do
        xz -3 -T0 -c "$(readlink -f "$build/$f")" >"$folder/$(basename "$f").xz"
    done
    cp "$(dirname "$0")/peers/gemv_gpu.py" "$folder"
    [ -e "$folder/peers.tar.xz" ] && return
    tmp=$(mktemp -d)
    python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        --platform manylinux_2_24_x86_64 -d "$tmp" bitsandbytes==0.50.2
    python3 -m pip download -q --no-deps --no-binary=:all: -d "$tmp" gemlite==0.6.0.post2
    (cd "$tmp" && unzip -qo bitsandbytes-*.whl -x '*.so' && unzip -qo bitsandbytes-*.whl '*_cuda130.so' &&
        tar xzf gemlite-*.tar.gz && mv gemlite-*/gemlite gemlite)
    tar -C "$tmp" -cJf "$folder/peers.tar.xz" --exclude=__pycache__ bitsandbytes \
        "$(basename "$tmp"/bitsandbytes-*.dist-info)" gemlite
    rm -r "$tmp"
}

# Python's own xz: the tool is not everywhere.
unpack() {
    python3 - "$1" <<'END'
import glob, lzma, os, sys, tarfile
for path in glob.glob(sys.argv[1] + "/*.xz"):
    if path.endswith(".tar.xz"):
        with tarfile.open(path) as t:
            t.extractall(sys.argv[1] + "/site", filter="data")
        continue
    with lzma.open(path) as f, open(path[:-3], "wb") as out:
        out.write(f.read())
    os.chmod(path[:-3], 0o755)
END
}

run() {
    local folder=$1 out=$2 status=0
    shift 2
    mkdir -p "$out"
    unpack "$folder"
    local torch
    torch=$(python3 -c 'import importlib.util as u; print(*u.find_spec("nvidia").submodule_search_locations)' \
        2>/dev/null || true)
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64${torch:+:$torch/cu13/lib}
    for step in "${@:-all}"; do
        case $step in test | all)
            for way in '' pairs wide; do
                timeout "${TEST_S:-120}" "$folder/gpu_gemv" quick $way -o "$out/gemv-correct${way:+-$way}.json" \
                    >"$out/gemv-test.txt" 2>&1 || status=1
                grep -a FAILED "$out/gemv-test.txt" | head -n 20 || true
                tail -n 1 "$out/gemv-test.txt"
            done ;;
        esac
        case $step in bench | all)
            timeout $((${BENCH_S:-180} + 30)) "$folder/bench_gemv_cuda" --budget "${BENCH_S:-180}" --parts \
                --commit "${COMMIT:-unknown}" -o "$out/gemv-gpu.json" >"$out/gemv-bench.txt" 2>&1 || status=1
            tail -c 9000 "$out/gemv-bench.txt" ;;
        esac
        case $step in peers | all)
            local into=(-o "$out/gemv-peers.json")
            [ -s "$out/gemv-gpu.json" ] && into=(--into "$out/gemv-gpu.json")
            PYTHONPATH=$folder/site PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 timeout $((${PEERS_S:-180} + 60)) \
                python3 "$folder/gemv_gpu.py" --budget "${PEERS_S:-180}" --kerf "$folder/libkerf.so" \
                "${into[@]}" >"$out/gemv-peers.txt" 2>&1 || status=1
            tail -c 6000 "$out/gemv-peers.txt" ;;
        esac
    done
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv || true
    return $status
}

case ${1:-} in
pack) [ $# -eq 3 ] && pack "$2" "$3" ;;
run) [ $# -ge 3 ] && shift && run "$@" ;;
*) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2 && exit 2 ;;
esac
