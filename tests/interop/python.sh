#!/usr/bin/env bash
# python.sh - installs the Python package of cli/python, with a library that is built already, into a
# virtual environment of its own, and runs its tests.
#
#   bash tests/interop/python.sh KERF LIBRARY [ARGUMENT OF PYTEST...]
#
# Packages are pinned in requirements-python.txt. The environment is KERF_PYTHON_VENV or
# build/python-venv, made on the first run.
# Exit code 1: a test fails; 77: packages cannot be had here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
usage="usage: python.sh KERF LIBRARY"
kerf=$(realpath "${1:?$usage}") library=$(realpath "${2:?$usage}")
shift 2

venv=${KERF_PYTHON_VENV:-build/python-venv} list=tests/interop/requirements-python.txt
pip=("$venv/bin/pip" --quiet --disable-pip-version-check)
mark=$venv/complete-$(cksum <$list | cut -d ' ' -f 1)
make_venv() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || return 1
    [ -e "$venv/bin/pip" ] || python3 -m venv "$venv" || return 1
    timeout 600 "${pip[@]}" install --retries 1 -r $list || return 1
    touch "$mark"
}
if [ ! -e "$mark" ] && ! make_venv; then
    echo "python.sh: skipped: no packages for Python 3.11 without venv, pip and network"
    exit 77
fi

export OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1
unset KERF_LIBRARY PYTHONPATH
KERF_PREBUILT=$library "${pip[@]}" install --no-build-isolation --no-index --no-deps \
    --force-reinstall ./cli/python
KERF=$kerf "$venv/bin/pytest" cli/python "$@"
