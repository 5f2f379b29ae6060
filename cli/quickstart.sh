#!/usr/bin/env bash
# quickstart.sh - from nothing to quantized weights: installs what is missing, builds kerf and
# does the main job on the small real model in tests/data/tiny-llama.
#
#   bash cli/quickstart.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/packages.sh

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

need_packages "${build_packages[@]}" || exit 1

build=build/quickstart
model=tests/data/tiny-llama
options=(-DCMAKE_BUILD_TYPE=Release -DKERF_QUICK=ON -DKERF_TESTS=OFF -DKERF_CUDA=OFF)
grep -qs avx512bw /proc/cpuinfo || options+=(-DKERF_AVX512=OFF) # it could not run here
show cmake -S . -B $build "${options[@]}"
show cmake --build $build -j "$(nproc)" --target kerf

show $build/kerf quantize $model -f nvfp4:4/6 -o $build/tiny-llama-nvfp4 -y
show $build/kerf verify $model $build/tiny-llama-nvfp4
show $build/kerf score $model \
    -f int8,mxfp8-e4m3,mxfp6-e2m3,int4-g32-asym,nvfp4:4/6,nvfp4:amax,nf4,mxfp4,nf4-dq,int4-g128

cat <<END

Done in $SECONDS s. Built: $build/kerf. Written: $build/tiny-llama-nvfp4. What to try next:
  $build/kerf inspect $build/tiny-llama-nvfp4
  $build/kerf formats
  $build/kerf quantize YOUR_MODEL_FOLDER -f nvfp4:4/6 -o OUT --dry-run
  $build/kerf quantize --help
  bash tests/run.sh
This build was made to be ready soon: its products are plain loops. cmake --preset release makes the fast one.
END
