"""peer_casts.py - plain casts: fp16 and bfloat16 by PyTorch and by ml_dtypes, and the elements of
MX formats by ml_dtypes, reached through blocks whose scale is known."""
from importlib.metadata import version

import ml_dtypes
import numpy as np
import torch

from compare import Claim, bits_of, run_main

KINDS = {"mxfp4": ml_dtypes.float4_e2m1fn, "mxfp6-e2m3": ml_dtypes.float6_e2m3fn,
         "mxfp6-e3m2": ml_dtypes.float6_e3m2fn, "mxfp8-e4m3": ml_dtypes.float8_e4m3fn,
         "mxfp8-e5m2": ml_dtypes.float8_e5m2}


def ours_scale(name):
    """Elements cast by ml_dtypes against a block scale that rounds amax up to a power of two of the
    largest element: no element saturates, so only roundings are compared."""
    kind = KINDS[name]
    largest = float(ml_dtypes.finfo(kind).max)

    def run(x):
        w = x.float().numpy().reshape(-1, 32)
        a = np.abs(w).max(-1, keepdims=True) * (np.float32(1) / np.float32(largest))
        m, e = np.frexp(a)
        e = np.where(m == 0.5, e - 1, e)
        e = np.clip(e, -127, 127).astype(np.int32)
        e = np.where(a == 0, -127, e)
        y = np.ldexp(w, -e).astype(np.float32)
        codes = np.clip(y, -largest, largest).astype(kind).view(np.uint8)
        return {"codes": codes.reshape(-1, x.shape[-1]), "scales": (e + 127).astype(np.uint8)}
    return run


CLAIMS = [
    Claim("bf16:rne", "ml_dtypes.bfloat16", lambda x: {"codes": x.float().numpy().astype(
        ml_dtypes.bfloat16).view(np.uint8).reshape(-1, 2 * x.shape[-1])}, ("F16", "F32")),
    Claim("fp16:rne", "torch.float16", lambda x: {"codes": bits_of(x.to(torch.float16)).view(
        np.uint8).reshape(-1, 2 * x.shape[-1])}, ("BF16", "F32"),
          peer=f"torch {torch.__version__}"),
]
CLAIMS += [Claim(f"{name}:rceil", f"astype({kind.__name__})", ours_scale(name), ("BF16", "F32"))
           for name, kind in KINDS.items()]

if __name__ == "__main__":
    run_main("ml_dtypes", version("ml_dtypes"), CLAIMS)
