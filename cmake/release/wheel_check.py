#!/usr/bin/env python3
"""wheel_check.py - what an installed wheel computes, as digests: they are the same on every machine.

  wheel_check.py MODEL FOLDER

Every codec on one matrix, encoded and decoded; then MODEL quantized four ways into FOLDER and verified.
Compare the lines with those of another machine. A wheel for Arm runs where there is none like this, with the
arm64 packages of python3, python3-numpy and python3-cffi-backend unpacked in ARM (mmdebstrap --variant=extract):

  pip install --no-deps --target SITE --platform manylinux_2_28_aarch64 --only-binary=:all: kerf-*_aarch64.whl
  qemu-aarch64 -L ARM -E PYTHONHOME=ARM/usr -E PYTHONPATH=SITE:ARM/usr/lib/python3/dist-packages \\
    -E LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu/blas:/usr/lib/aarch64-linux-gnu/lapack \\
    ARM/usr/bin/python3.11 wheel_check.py tests/data/tiny-llama FOLDER
"""
import hashlib
import pathlib
import platform
import sys

import kerf
import numpy as np


def main() -> int:
    model, out = sys.argv[1], pathlib.Path(sys.argv[2])
    print(f"kerf {kerf.__version__} on {platform.machine()}, Python {platform.python_version()}", file=sys.stderr)
    out.mkdir(parents=True, exist_ok=True)
    matrix = np.random.default_rng(7).standard_normal((64, 512), dtype=np.float32)
    digest, count = hashlib.sha256(), 0
    for codec in [codec for f in kerf.formats() for codec in f.codecs]:
        try:
            planes = kerf.encode(matrix, codec)
        except kerf.KerfError:
            continue  # one for whole checkpoints, or for other shapes
        for part in (planes.codes, planes.scales, planes.second, kerf.decode(planes)):
            if isinstance(part, np.ndarray):
                digest.update(np.ascontiguousarray(part).tobytes())
        count += 1
    print(f"{count} codecs {digest.hexdigest()}")
    passed = count > 150
    for codec in ("nvfp4:4/6", "mxfp6-e2m3", "int4-g128:search", "nf4-dq"):
        folder = out / codec.replace("/", "_").replace(":", "-")
        kerf.quantize(model, str(folder), codec)
        passed &= kerf.verify(model, str(folder)).passed
        print(codec, hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
    return not passed


if __name__ == "__main__":
    sys.exit(main())
