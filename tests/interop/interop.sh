#!/usr/bin/env bash
# interop.sh - what the real readers make of the files that kerf writes: every layout and format is
# written from the small real model, loaded by the packages that users load it with, and compared
# weight by weight with what kerf itself decodes from the same file.
#
#   bash tests/interop/interop.sh KERF [--light] [--only LAYOUT] [--rows N] [--write]
#
#   --light   only readers that need no PyTorch (a few minutes, 110 MB)
#   --only    only this layout
#   --rows    of 256 tokens of eval.u16, for perplexity: 4, or up to 256 for all of it
#   --write   put what this run saw into interop.md; rows that it did not see stay
#
# Packages are pinned in requirements-*.txt. The virtual environment is KERF_INTEROP_VENV or
# build/interop-venv, made on the first run; with PyTorch it takes 6 GB, and llama-cpp-python is built
# from its source package, which takes a quarter of an hour on two cores (light: llama.cpp as cyllama
# brings it along).
# Exit code 1: a reader refused a file, or read other numbers; 77: the packages cannot be had here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
kerf=$(realpath "${1:?usage: interop.sh KERF [--light] [--only LAYOUT] [--rows N] [--write]}") light=0 write=0 only=() rows=()
shift
while [ $# -gt 0 ]; do
    case $1 in
    --light) light=1 ;;
    --only) only=(--only "${2:?--only LAYOUT}") && shift ;;
    --rows) rows=(--rows "${2:?--rows N}") && shift ;;
    --write) write=1 ;;
    *) echo "interop.sh: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done

kind=$([ $light -eq 1 ] && echo light || echo full)
venv=${KERF_INTEROP_VENV:-build/interop-venv}
if [ ! -e "$venv/complete-$kind" ]; then
    if ! { [ -e "$venv/bin/pip" ] || python3 -m venv "$venv"; } ||
        ! timeout $((light ? 600 : 3600)) "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 \
            -r "tests/interop/requirements-$kind.txt"; then
        echo "interop.sh: skipped: no Python packages without venv, pip and network"
        exit 77
    fi
    touch "$venv/complete-$kind"
fi

export OMP_WAIT_POLICY=passive PYTHONWARNINGS=ignore HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error TQDM_DISABLE=1 LOGURU_LEVEL=ERROR
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kerf-interop.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
"$venv/bin/python" tests/interop/readers.py "$kerf" tests/data/tiny-llama "$scratch" \
    "${only[@]}" "${rows[@]}" $([ $light -eq 0 ] || echo --light) $([ $write -eq 0 ] || echo --write tests/interop/interop.md)
