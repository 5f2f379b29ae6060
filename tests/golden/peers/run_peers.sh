#!/usr/bin/env bash
# run_peers.sh - compares every encoder that is named after another project with that project's package,
# and rewrites vectors/ and ../conformance.md from what the packages give.
#
#   bash tests/golden/peers/run_peers.sh LIBKERF.SO [--elements N] [--check]
#
#   --elements N  random elements per encoder, all types together (default 1e7)
#   --check       compare only; write nothing
#
# The virtual environment is KERF_PEERS_VENV or build/peers-venv, made on the first run; where
# python3 has PyTorch already, that one is used. It takes 6 GB, most of it PyTorch's CUDA libraries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
here=tests/golden/peers venv=${KERF_PEERS_VENV:-build/peers-venv}
lib=${1:?usage: run_peers.sh LIBKERF.SO [--elements N] [--check]} elements=1e7 check=0
shift
while [ $# -gt 0 ]; do
    case $1 in
    --elements) elements=${2:?--elements needs a number} && shift ;;
    --check) check=1 ;;
    *) echo "run_peers.sh: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done

if [ ! -e "$venv/complete" ]; then
    torch=(torch==2.15.0) site=()
    if python3 -c 'import torch' 2>/dev/null; then torch=() site=(--system-site-packages); fi
    python3 -m venv "${site[@]}" "$venv"
    pip=("$venv/bin/pip" install --quiet --disable-pip-version-check)
    "${pip[@]}" "${torch[@]}" -r $here/imports.txt
    SKIP_CUDA_BUILD=1 BUILD_CUDA_EXT=0 "${pip[@]}" --no-deps --no-build-isolation \
        -r $here/requirements.txt
    touch "$venv/complete"
fi

export PYTHONWARNINGS=ignore
out=build/peers-results
mkdir -p $out && rm -f $out/*.json
status=0
for script in $here/peer_*.py; do
    name=$(basename "$script" .py)
    "$venv/bin/python" "$script" compare "$lib" --elements "$elements" --seed "$(date +%j)" \
        --json "$out/$name.json" || status=1
done
"$venv/bin/python" $here/ggml_super.py "$lib" --elements "$elements" --json $out/ggml_super.json || status=1
if [ $check -eq 0 ] && [ $status -eq 0 ]; then
    "$venv/bin/python" $here/ggml_super.py --write
    "$venv/bin/python" $here/vectors.py "$lib"
    "$venv/bin/python" $here/conformance.py $out tests/golden/conformance.md
fi
exit $status
