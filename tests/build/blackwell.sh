#!/usr/bin/env bash
# blackwell.sh - the kernels compile for every architecture that a release has, and where the
# target converts to and from FP4 and FP6 itself, they do it with its instructions. Those targets
# are untested on hardware: this is what can be known without it.
#
#   blackwell.sh     needs nvcc and cuobjdump (or CUOBJDUMP); exit code 77 without them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
disassembler=${CUOBJDUMP:-cuobjdump}
for tool in nvcc "$disassembler"; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool" && exit 77; }
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0

# compile ROW ARCHITECTURE: leaves the disassembly in $tmp/ROW.ARCHITECTURE.
compile() {
    printf '#define KF_ROW_ID %s\n#include "cuda/row.cuh"\n' "$1" >"$tmp/$1.cu"
    nvcc -std=c++17 -O3 -gencode "arch=compute_$2,code=sm_$2" --fmad=false -ftz=false -prec-div=true \
        -prec-sqrt=true -Xcompiler -ffp-contract=off -Icodecs -Icodecs/include -c "$tmp/$1.cu" \
        -o "$tmp/$1.o" && "$disassembler" -sass "$tmp/$1.o" >"$tmp/$1.$2"
}

# expect ROW ARCHITECTURE PATTERN LEAST: so many instructions at least, or none when LEAST is 0.
expect() {
    local n
    n=$(grep -cE "$3" "$tmp/$1.$2" || true)
    printf '%-12s sm_%-5s %5d  %s\n' "$1" "$2" "$n" "$3"
    if [ "$4" -eq 0 ] && [ "$n" -gt 0 ] || [ "$n" -lt "$4" ]; then
        echo "FAIL: expected $4 or more (0: none)"
        failures=$((failures + 1))
    fi
}

# Where the hardware does not convert, nothing may pretend that it does.
for case in MXFP4:80 MXFP4:90a MXFP4:100a MXFP4:120a NVFP4:100a NVFP4:120a NVFP4:121a MXFP6_E2M3:100a \
    MXFP6_E2M3:120a MXFP6_E3M2:120a; do
    row=${case%:*} architecture=${case#*:}
    case $row in
    MXFP6_E2M3) type=E2M3 ;;
    MXFP6_E3M2) type=E3M2 ;;
    *) type=E2M1 ;;
    esac
    compile "$row" "$architecture" || { failures=$((failures + 1)) && continue; }
    case $architecture in
    80 | 90a) expect "$row" "$architecture" "F2FP.*$type" 0 ;;
    *) expect "$row" "$architecture" "F2FP.SATFINITE.$type.F32" 8 ;;
    esac
    case $case in
    MXFP4:1* | NVFP4:1*) expect "$row" "$architecture" "F2FP.F16.E2M1" 8 ;;
    esac
done
[ $failures -eq 0 ] || { echo "$failures failures" && exit 1; }
