#!/usr/bin/env python3
"""ggml_super.py - ggml's own quantizers and dequantizers for the blocks of two levels (Q4_1 to IQ4_XS):
the vectors of these formats, and a live comparison. Needs numpy, gguf and pywhispercpp, whose wheel
brings libggml-base.so.

    ggml_super.py LIBKERF.SO [--elements N] [--json FILE]
                                               compares, N random elements per encoder (default 1e7)
    ggml_super.py --write                      writes vectors/<format>.txt; libkerf is not asked
"""
import ctypes
import importlib.metadata
import json
import pathlib
import sys

import gguf
import numpy as np
from gguf.quants import dequantize

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from make_vectors import compact  # noqa: E402

dist = importlib.metadata.distribution("pywhispercpp")
FUNCTIONS = {"ggml": "quantize_row_{}_ref (libggml-base {})", "imatrix": "quantize_{}, weighted (libggml-base {})"}
GGML = ctypes.CDLL(str(next(pathlib.Path(f.locate()) for f in dist.files
                            if f.name == "libggml-base.so.0")))
TYPES = {"q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "iq4_nl": (32, 18), "q2_k": (256, 84),
         "q3_k": (256, 110), "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210),
         "iq4_xs": (256, 136)}


def at(a):
    return a.ctypes.data_as(ctypes.c_void_p)


def name_in_c(fmt):
    return fmt.replace("_k", "_K")


def encode(fmt, x, importance=None):
    """ggml's bytes of x [rows, cols], fp32; importance of each column: encoder imatrix."""
    block, size = TYPES[fmt]
    out = np.zeros(x.size // block * size, np.uint8)
    if importance is None:
        # Block by block, each into memory of its own: IQ4_NL leaves the codes of a block of zeros as
        # they were, which here is zero.
        function = getattr(GGML, f"quantize_row_{name_in_c(fmt)}_ref")
        function(at(x), at(out), ctypes.c_int64(x.size))
        if fmt == "iq4_nl":
            zero = np.abs(x.reshape(-1, 32)).max(1) < np.float32(1e-15)
            out.reshape(-1, size)[zero, 2:] = 0
    else:
        function = getattr(GGML, f"quantize_{name_in_c(fmt)}")
        function.restype = ctypes.c_size_t
        function(at(x), at(out), ctypes.c_int64(x.shape[0]), ctypes.c_int64(x.shape[1]), at(importance))
    return out


def decode(fmt, data):
    """ggml's numbers of bytes, checked against gguf-py's."""
    block, size = TYPES[fmt]
    data = np.ascontiguousarray(data)
    out = np.zeros(data.size // size * block, np.float32)
    getattr(GGML, f"dequantize_row_{name_in_c(fmt)}")(at(data), at(out), ctypes.c_int64(out.size))
    with np.errstate(all="ignore"):
        theirs = dequantize(data.reshape(-1, size), getattr(gguf.GGMLQuantizationType, fmt.upper()))
    assert same_floats(out, theirs.reshape(-1)), f"{fmt}: ggml and gguf-py decode differently"
    return out


def same_floats(a, b):
    return np.array_equal(a[~np.isnan(a)].view(np.uint32), b[~np.isnan(b)].view(np.uint32)) \
        and np.array_equal(np.isnan(a), np.isnan(b))


def sample(rng, rows, cols):
    """Rows of every kind that weights have, and that searches stumble over."""
    x = rng.standard_normal((rows, cols)).astype(np.float32) * np.float32(0.02)
    kinds = [lambda r: r, lambda r: r * np.exp2(rng.integers(-30, 30, cols)).astype(np.float32),
             lambda r: np.round(r * 200) / np.float32(64), lambda r: np.where(rng.random(cols) < .9, 0, r),
             np.abs, lambda r: -np.abs(r), lambda r: r * 0, lambda r: r * 0 - 0,
             lambda r: np.where(rng.random(cols) < .01, r * 100, r), lambda r: r * np.float32(2 ** -110),
             lambda r: np.full(cols, r[0]), lambda r: np.abs(r) + np.float32(1)]
    for i in range(rows):
        x[i] = kinds[i % len(kinds)](x[i])
    return np.ascontiguousarray(x, np.float32)


def to_type(x, dtype):
    """The bytes of a type, and the same numbers as fp32."""
    if dtype == "F16":
        with np.errstate(over="ignore"):
            half = x.astype(np.float16)
        half[~np.isfinite(half)] = 0
        return half.view(np.uint8).reshape(-1), half.astype(np.float32)
    if dtype == "BF16":
        bits = (x.view(np.uint32) + 0x7FFF + (x.view(np.uint32) >> 16 & 1)) >> 16
        return bits.astype(np.uint16).view(np.uint8).reshape(-1), (bits << 16).view(np.float32)
    return x.view(np.uint8).reshape(-1), x


def write_vectors(fmt):
    rng = np.random.default_rng(7)
    block, size = TYPES[fmt]
    out = [f"# vectors of {fmt} that ggml's own functions wrote; ../README.md tells how\n"]
    for dtype, rows in (("BF16", 12), ("F16", 6), ("F32", 12)):
        data, x = to_type(sample(rng, rows, 256), dtype)
        x = np.ascontiguousarray(x).reshape(rows, 256)
        out.append(f"\ncase rows-{dtype.lower()} {dtype} [{rows},256]\nsrc {compact(data.tobytes())}\n")
        for name, importance in (("ggml", None), ("imatrix", np.ones(256, np.float32))):
            codes = encode(fmt, x, importance)
            out.append(f"enc {name}\ncodes {compact(codes.tobytes())}\n")
            if name == "ggml":
                out.append(f"F32 {compact(decode(fmt, codes).tobytes())}\n")
    codes = rng.integers(0, 256, 4 * 256 // block * size).astype(np.uint8)
    out.append(f"\ndecode random [4,256]\ncodes {compact(codes.tobytes())}\n")
    out.append(f"F32 {compact(decode(fmt, codes).tobytes())}\n")
    (HERE / "vectors" / f"{fmt}.txt").write_text("".join(out))


def row_of(fmt, encoder, bad, elements):
    """One line of conformance.md."""
    GGML.ggml_version.restype = ctypes.c_char_p
    result = "exact" if bad == 0 else f"DIFFERS in {bad} blocks"
    if fmt == "iq4_nl" and encoder == "ggml" and bad == 0:
        result += ", but for the codes of blocks of zeros, which ggml leaves as they were"
    return {"codec": f"{fmt}:{encoder}", "peer": f"gguf {importlib.metadata.version('gguf')}", "types": ["F32"],
            "function": FUNCTIONS[encoder].format(name_in_c(fmt), GGML.ggml_version().decode()),
            "result": result, "elements": elements}


def compare(lib, fmt, elements, rows):
    from kerf_api import Kerf
    kerf, rng, cols = Kerf(lib), np.random.default_rng(), 2048
    size, bad = TYPES[fmt][1], {"ggml": 0, "imatrix": 0}
    for done in range(0, int(elements), 512 * cols):
        x = sample(rng, 512, cols)
        importance = (rng.random(cols) ** 4).astype(np.float32)
        for encoder, weights in (("ggml", None), ("imatrix", np.ones(cols, np.float32)),
                                 ("imatrix", importance)):
            given = None if weights is None or weights[0] == 1 else weights
            ours = kerf.encode(f"{fmt}:{encoder}", x, "F32", x.shape, given)["codes"]
            theirs = encode(fmt, x, weights)
            bad[encoder] += int((ours != theirs).reshape(-1, size).any(1).sum())
        back = kerf.decode(fmt, {"codes": theirs}, x.shape).reshape(-1)
        assert same_floats(back, decode(fmt, theirs)), f"{fmt}: kerf and ggml decode differently"
    rows += [row_of(fmt, e, n, done + 512 * cols) for e, n in bad.items()]
    print(f"{fmt}: {bad if any(bad.values()) else 'equal'} on {done + 512 * cols} elements")
    return sum(bad.values())


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        for name in TYPES:
            write_vectors(name)
    else:
        rows, count = [], float(sys.argv[sys.argv.index("--elements") + 1]) if "--elements" in sys.argv else 1e7
        failures = sum(compare(sys.argv[1], name, count, rows) for name in TYPES)
        if "--json" in sys.argv:
            pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps(rows, indent=1))
        sys.exit(failures != 0)
