#!/usr/bin/env python3
"""codecs_cpu.py - encoding by packages that one would pick instead, and by kerf, in turns.

    python -m venv VENV && VENV/bin/pip install numpy gguf torch torchao bitsandbytes compressed-tensors
    VENV/bin/python bench/peers/codecs_cpu.py LIBKERF.so [-n TRIALS] [-m MIB] [-o FILE]

One thread each, processor time, the same bfloat16 matrix (gguf and bitsandbytes' CPU backend get it
as fp32, which is what they take, made before the clock starts; so does kerf then). A ratio is the
peer's time over kerf's of the same turn, and its median is told. `equal` says whether both made the
same bytes, where a peer's bytes lie as kerf's do. Packages that are not installed are named in
"absent". One JSON document.
"""
import argparse
import ctypes as c
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np  # noqa: E402  (after the number of threads is known)

COLS = 4096
F32, F16, BF16 = "F32", "F16", "BF16"


# --- kerf, by its shared library -----------------------------------------------------------------


class Shape(c.Structure):
    _fields_ = [("rank", c.c_uint), ("dim", c.c_uint64 * 8)]


class Plane(c.Structure):
    _fields_ = [("dtype", c.c_int), ("shape", Shape), ("bytes", c.c_uint64), ("per_matrix", c.c_int),
                ("band_bytes", c.c_uint64)]


class Geometry(c.Structure):
    _fields_ = [("format", c.c_void_p), ("shape", Shape), ("elements", c.c_uint64)] + [
        (name, c.c_uint64) for name in ("matrices", "rows", "cols", "bands", "bands_per_matrix",
                                        "band_rows", "band_cols", "band_groups")
    ] + [("plane", Plane * 4), ("bytes", c.c_uint64)]


class Codec(c.Structure):
    _fields_ = [("format", c.c_void_p), ("encoder", c.c_void_p)]


class Span(c.Structure):
    _fields_ = [("p", c.c_void_p), ("n", c.c_size_t)]


class Exec(c.Structure):
    _fields_ = [("threads", c.c_int), ("nan", c.c_int), ("backend", c.c_char_p), ("device", c.c_void_p)]


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("native", c.c_int32), ("offset", c.c_uint64), ("text", c.c_char * 512)]


class Kerf:
    def __init__(self, path):
        self.lib = c.CDLL(path)
        self.lib.kerf_dtype_find.argtypes = [c.c_char_p]

    def check(self, status, error):
        if status != 0:
            raise RuntimeError(error.text.decode())

    def encoder(self, text, source, dtype):
        """A function that encodes `source` once, and its planes."""
        lib, error, codec, g = self.lib, Error(), Codec(), Geometry()
        self.check(lib.kerf_codec_find(text.encode(), c.byref(codec), c.byref(error)), error)
        shape = Shape(2, (c.c_uint64 * 8)(*source.shape))
        self.check(lib.kerf_geometry_init(c.byref(g), c.c_void_p(codec.format), c.byref(shape),
                                          c.byref(error)), error)
        planes = [np.zeros(p.bytes, np.uint8) for p in g.plane]
        spans = (Span * 4)(*[Span(p.ctypes.data, p.size) for p in planes])
        src, how = Span(source.ctypes.data, source.nbytes), Exec(1, 0, None, None)
        kind = lib.kerf_dtype_find(dtype.encode())
        bands = c.c_uint64(g.bands)

        def run():
            stats = (c.c_uint64 * 16)()
            if lib.kerf_needs_stats(c.byref(g)):
                self.check(lib.kerf_measure(c.byref(g), c.c_uint64(0), bands, src, kind, stats,
                                            c.byref(how), c.byref(error)), error)
            self.check(lib.kerf_encode(c.byref(g), c.c_void_p(codec.encoder), stats, c.c_uint64(0), bands,
                                       src, kind, spans, c.byref(how), c.byref(error)), error)

        return run, planes


# --- peers: (name, package, kerf's codec, type of the source, a function of the matrix -> run) -------
# `run` returns the peer's bytes where they lie as kerf's codes do, or None.


def gguf_peer(kind):
    def make(matrix):
        from gguf import GGMLQuantizationType as Type
        from gguf import quants

        return lambda: quants.quantize(matrix, Type[kind])

    return make


def as_bf16(matrix):
    import torch

    return torch.from_numpy(matrix.view(np.int16)).view(torch.bfloat16)


def bitsandbytes_nf4(matrix):
    import torch
    from bitsandbytes import functional as f

    x = torch.from_numpy(matrix)
    return lambda: f.quantize_4bit(x, blocksize=64, quant_type="nf4")[0].numpy()


def bitsandbytes_int8(matrix):
    import torch
    from bitsandbytes import functional as f

    x = as_bf16(matrix).to(torch.float16)
    return lambda: f.int8_vectorwise_quant(x)[0].numpy().view(np.uint8)


def torchao_mx(element):
    def make(matrix):
        import torch
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import MXTensor

        x = as_bf16(matrix)
        kind = torch.float8_e4m3fn if element == "e4m3" else torch.float4_e2m1fn_x2
        mode = ScaleCalculationMode.FLOOR

        def run():
            q = MXTensor.to_mx(x, kind, 32, mode)
            return q.qdata.view(torch.uint8).numpy()

        return run

    return make


def torchao_nvfp4(matrix):
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale

    x = as_bf16(matrix)

    def run():
        scale = per_tensor_amax_to_scale(x.abs().max().float())
        q = NVFP4Tensor.to_nvfp4(x, per_tensor_scale=scale)
        return q.qdata.numpy().view(np.uint8)

    return run


def compressed_int(bits):
    def make(matrix):
        import torch
        from compressed_tensors.quantization import QuantizationArgs
        from compressed_tensors.quantization.lifecycle.forward import quantize
        from compressed_tensors.quantization.utils import calculate_qparams

        x = as_bf16(matrix)
        args = QuantizationArgs(num_bits=bits, type="int", symmetric=True, strategy="group", group_size=128)

        def run():
            groups = x.unflatten(-1, (-1, 128))
            scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), args)
            quantize(x, scale, zero, args, dtype=torch.int8)

        return run

    return make


PEERS = [
    ("gguf Q8_0", "gguf", "ggml-q8_0:ggml", F32, gguf_peer("Q8_0")),
    ("gguf Q4_0", "gguf", "ggml-q4_0:ggml", F32, gguf_peer("Q4_0")),
    ("gguf MXFP4", "gguf", "ggml-mxfp4:ggml", F32, gguf_peer("MXFP4")),
    ("bitsandbytes NF4", "bitsandbytes", "nf4:bnb-cpu", F32, bitsandbytes_nf4),
    ("bitsandbytes LLM.int8", "bitsandbytes", "int8:bnb", BF16, bitsandbytes_int8),
    ("torchao MXFP8 floor", "torchao", "mxfp8-e4m3:floor", BF16, torchao_mx("e4m3")),
    ("torchao MXFP4 floor", "torchao", "mxfp4:floor", BF16, torchao_mx("e2m1")),
    ("torchao NVFP4", "torchao", "nvfp4:torchao", BF16, torchao_nvfp4),
    ("compressed-tensors int4-g128", "compressed-tensors", "int4-g128:ct", BF16, compressed_int(4)),
]


# --- measuring -------------------------------------------------------------------------------------


def seconds(run):
    start = time.process_time()
    out = run()
    return time.process_time() - start, out


def compare(kerf, peer, matrices, trials):
    name, _, codec, dtype, make = peer
    matrix = matrices[dtype]
    own, planes = kerf.encoder(codec, matrix, dtype)
    other = make(matrix)
    own()
    out = other()
    row = {"name": name, "kerf": codec, "source": dtype, "unit": "elements/s"}
    if isinstance(out, np.ndarray) and out.nbytes == planes[0].nbytes:
        row["equal"] = bool((np.ascontiguousarray(out).view(np.uint8).ravel() == planes[0]).all())
    times = [(seconds(own)[0], seconds(other)[0]) for _ in range(trials)]
    n = matrix.size
    row |= {
        "kerf_median": n / statistics.median(t[0] for t in times),
        "peer_median": n / statistics.median(t[1] for t in times),
        "ratio": statistics.median(t[1] / t[0] for t in times),
        "trials": trials,
    }
    print(f'{name:32} {row["peer_median"] / 1e6:10.1f} M/s, kerf {row["kerf_median"] / 1e6:10.1f} M/s, '
          f'{row["ratio"]:8.1f} x{"" if row.get("equal", True) else ", other bytes"}', file=sys.stderr)
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("library")
    p.add_argument("-n", type=int, default=5)
    p.add_argument("-m", type=int, default=32, help="MiB of the bfloat16 matrix")
    p.add_argument("-o", default="-")
    a = p.parse_args()
    rows = (a.m << 20) // 2 // COLS
    words = (np.random.default_rng(1).standard_normal((rows, COLS), np.float32) * 0.02).view(np.uint32)
    bf16 = (words >> 16).astype(np.uint16)
    matrices = {BF16: bf16, F32: (bf16.astype(np.uint32) << 16).view(np.float32)}
    packages = {name: version_of(name) for name in ("torch", *dict.fromkeys(p[1] for p in PEERS))}
    if packages["torch"]:
        import torch

        torch.set_num_threads(1)
    kerf, results, absent = Kerf(a.library), [], []
    for peer in PEERS:
        if not packages[peer[1]]:
            absent.append({"name": peer[0], "why": f"{peer[1]} is not installed"})
            continue
        try:
            results.append(compare(kerf, peer, matrices, a.n))
        except Exception as e:  # a package that moved a function is told, not a reason to stop
            absent.append({"name": peer[0], "why": f"{type(e).__name__}: {e}".splitlines()[0][:200]})
    for row in absent:
        print(f'{row["name"]:32} absent: {row["why"]}', file=sys.stderr)
    commit = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "describe", "--always",
                             "--dirty"], capture_output=True, text=True).stdout.strip()
    document = {"schema": "kerf.bench/1", "bench": "peers-cpu", "commit": commit,
                "machine": {"cpu": processor(), "cores": os.cpu_count(), "arch": platform.machine()},
                "packages": {k: v for k, v in packages.items() if v}, "results": results, "absent": absent}
    text = json.dumps(document, indent=1) + "\n"
    if a.o == "-":
        sys.stdout.write(text)
    else:
        with open(a.o, "w") as f:
            f.write(text)
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
