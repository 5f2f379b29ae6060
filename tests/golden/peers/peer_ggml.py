"""peer_ggml.py - ggml's own C functions, from the libggml-base.so that the pywhispercpp wheel
brings, and gguf-py's quantizers, for the blocks of GGUF files and for mxfp4 in planes."""
import ctypes
import importlib.metadata
import pathlib

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize, quantize

from compare import Claim, run_main

dist = importlib.metadata.distribution("pywhispercpp")
GGML = ctypes.CDLL(str(next(pathlib.Path(f.locate()) for f in dist.files
                            if f.name == "libggml-base.so.0")))
GGML.ggml_version.restype = ctypes.c_char_p
C_VERSION = GGML.ggml_version().decode()
SIZE = {"q8_0": (32, 34), "q4_0": (32, 18), "mxfp4": (32, 17), "nvfp4": (64, 36)}


def c_blocks(name):
    block, size = SIZE[name]
    function = getattr(GGML, f"quantize_row_{name}_ref")

    def run(x):
        w = np.ascontiguousarray(x.float().numpy().reshape(-1))
        out = np.zeros(w.size // block * size, np.uint8)
        function(w.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                 ctypes.c_int64(w.size))
        return {"codes": out}
    return run


def python_blocks(name):
    kind = {"q8_0": T.Q8_0, "q4_0": T.Q4_0, "mxfp4": T.MXFP4}[name]

    def run(x):
        return {"codes": quantize(x.float().numpy().reshape(-1, x.shape[-1]), kind)}
    return run


def mxfp4_planes(x):
    blocks = c_blocks("mxfp4")(x)["codes"].reshape(-1, 17)
    low, high = blocks[:, 1:] & 15, blocks[:, 1:] >> 4
    return {"codes": np.concatenate([low, high], 1).reshape(-1, x.shape[-1]),
            "scales": blocks[:, 0].copy()}


def below_byte_zero(x, ours, theirs):
    a = x.float().abs().reshape(x.shape[0] * x.shape[1], -1, 32).amax(-1).numpy()
    tiny = (a > 0) & (a < 2.0 ** -125)
    return {"blocks with amax below 2^-125: a negative exponent is converted to uint8 in the peer":
            tiny}


def half_overflow(x, ours, theirs):
    a = x.float().abs().reshape(x.shape[0] * x.shape[1], -1, 32).amax(-1).numpy()
    return {"blocks with amax below 2^-120, where 1/d is Inf": (a > 0) & (a < 2.0 ** -120)}


def python_zeros(x, ours, theirs):
    w = x.float().reshape(x.shape[0] * x.shape[1], -1, 32)
    zero = ((w == 0).all(-1) & torch.signbit(w[..., 0])).numpy()
    return {"blocks of zeros that begin with -0: scale +0 in gguf-py, -0 in ggml and kerf": zero,
            **half_overflow(x, ours, theirs)}


CLAIMS = [
    Claim("ggml-q8_0:ggml", f"quantize_row_q8_0_ref (libggml-base {C_VERSION})",
          c_blocks("q8_0"), known=half_overflow),
    Claim("ggml-q8_0:ggml", "gguf.quants.Q8_0", python_blocks("q8_0"),
          known=half_overflow),
    Claim("ggml-q4_0:ggml", f"quantize_row_q4_0_ref (libggml-base {C_VERSION})",
          c_blocks("q4_0"), known=half_overflow),
    Claim("ggml-q4_0:ggml", "gguf.quants.Q4_0", python_blocks("q4_0"),
          known=python_zeros),
    Claim("ggml-mxfp4:ggml", f"quantize_row_mxfp4_ref (libggml-base {C_VERSION})",
          c_blocks("mxfp4"), known=below_byte_zero),
    Claim("ggml-mxfp4:ggml", "gguf.quants.MXFP4", python_blocks("mxfp4"),
          known=below_byte_zero),
    Claim("ggml-nvfp4:ggml", f"quantize_row_nvfp4_ref (libggml-base {C_VERSION})",
          c_blocks("nvfp4")),
    Claim("mxfp4:ggml", f"quantize_row_mxfp4_ref (libggml-base {C_VERSION})", mxfp4_planes,
          known=below_byte_zero),
]

if __name__ == "__main__":
    run_main("gguf", importlib.metadata.version("gguf"), CLAIMS)
