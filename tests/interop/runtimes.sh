#!/usr/bin/env bash
# runtimes.sh - what vLLM and SGLang themselves make of checkpoints that kerf writes: their readers of
# configurations, their choice of scheme and kernel for each GPU, their loaders of weights. No GPU is needed;
# no kernel is launched.
#
#   bash tests/interop/runtimes.sh KERF [--install] [--only LAYOUT] [--write]
#
#   --install  fetches what is missing: 9 GB for each of the two, in build/interop-vllm and build/interop-sglang
#   --only     only this layout
#   --write    puts what this run saw into bench/results/runtimes.md
#
# KERF_VLLM_PYTHON and KERF_SGLANG_PYTHON name interpreters that have them already.
# Exit code 1: a checkpoint is refused or read otherwise than kerf says; 77: neither is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
kerf=$(realpath "${1:?usage: runtimes.sh KERF [--install] [--only LAYOUT] [--write]}") install=0 options=()
shift
while [ $# -gt 0 ]; do
    case $1 in
    --install) install=1 ;;
    --only) options+=(--only "${2:?--only LAYOUT}") && shift ;;
    --write) options+=(--write bench/results/runtimes.md) ;;
    *) echo "runtimes.sh: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done

scratch=$(mktemp -d "${TMPDIR:-/tmp}/kerf-runtimes.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
if ! ldconfig -p | grep -q 'libcuda\.so\.1'; then # their libraries want the driver's name, not what is in it
    ${CC:-cc} -shared -Wl,-soname,libcuda.so.1 -o "$scratch/libcuda.so.1" -x c /dev/null
    export LD_LIBRARY_PATH=$scratch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
export OMP_WAIT_POLICY=passive PYTHONWARNINGS=ignore HF_HUB_OFFLINE=1 TQDM_DISABLE=1

ran=0 failed=0
for name in vllm sglang; do
    variable=KERF_${name^^}_PYTHON
    python=${!variable:-build/interop-$name/bin/python}
    if [ ! -x "$python" ] && [ $install -eq 1 ]; then
        python3 -m venv "build/interop-$name"
        "build/interop-$name/bin/pip" install --quiet uv
        "build/interop-$name/bin/uv" pip install --quiet --python "$python" -r "tests/interop/requirements-$name.txt"
    fi
    if [ ! -x "$python" ]; then
        echo "runtimes.sh: $name skipped: not installed (--install)"
        continue
    fi
    ran=1
    mkdir "$scratch/$name"
    "$python" "tests/interop/${name}_real.py" "$kerf" tests/data/tiny-llama "$scratch/$name" "${options[@]}" ||
        failed=1
done
[ $ran -eq 1 ] || exit 77
exit $failed
