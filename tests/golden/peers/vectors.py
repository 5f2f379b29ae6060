"""vectors.py - writes vectors/<format>.txt, in the form of tests/golden: bytes that the packages
themselves wrote for inputs that tell the encoders apart.

    vectors.py LIB [FORMAT ...]

The library is needed for the sizes of planes and to leave out cases in which a named difference
shows (those are counted in conformance.md). At least 200 blocks per encoder, or it fails.
"""
import pathlib
import sys

import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize

import inputs
import peer_bnb
import peer_ct
import peer_fouroversix
import peer_ggml
import peer_grids
import peer_modelopt
import peer_te
import peer_torchao
import peer_transcribed
from compare import Result, pack, source_bytes, unpack
from kerf_api import PLANES, Kerf

FOLDER = pathlib.Path(__file__).resolve().parent / "vectors"
sys.path.append(str(FOLDER.parent.parent))
from make_vectors import compact  # noqa: E402
MODULES = (peer_te, peer_modelopt, peer_ct, peer_torchao, peer_fouroversix, peer_bnb, peer_ggml,
           peer_grids, peer_transcribed)
MIN_BLOCKS = 200
PEERS = {"te", "modelopt", "modelopt-static", "ct", "ct-fp32", "torchao", "static_6", "static_4",
         "autoround", "microxcaling", "ggml", "bnb-cpu", "bnb", "gptq", "awq", "hqq", "deepseek"}

SIZE = {"ggml-q8_0": (32, 34, T.Q8_0), "ggml-q4_0": (32, 18, T.Q4_0),
        "ggml-mxfp4": (32, 17, T.MXFP4), "ggml-nvfp4": (64, 36, T.NVFP4)}

# NVFP4: tensor amax, block amax, element, as bfloat16: each tells several orders of operations apart
ORDERS = """3E00 3DD3 3D80  3E01 3E00 3DD7  3E02 3E00 3C82  3E02 3D9E 3D43  3E02 3DC3 3D80
            3E03 3E00 3C83  3E04 3D93 3D30  3E04 3D89 3D25  3E05 3DC8 3C51  3E0A 3DE3 3D8A
            3E0C 3D91 3D80  3E0C 3DAB 3D96  3E0C 3DD2 3D80""".split()


def orders():
    words = np.array([int(w, 16) for w in ORDERS], np.uint16).reshape(-1, 3)
    x = np.zeros((len(words), 1, 32), np.uint16)
    x[:, 0, 0], x[:, 0, 16], x[:, 0, 17] = words[:, 0], words[:, 1], words[:, 2]
    return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)


def cases_of(fmt):
    """(label, dtype, tensor): all mantissas without special rows, then rows of every kind."""
    group, geometry = fmt.group, fmt.geometry
    if geometry == 5:  # flattened, with a short and odd last block
        return [(f"flat-{d.lower()}-{i}", d, inputs.stack(d, r, 77, 5 + i, m))
                for d, m, r in (("BF16", 1, 41), ("F16", 1, 17), ("F32", 1, 17))
                for i in range(8 if d == "BF16" else 2)]
    if geometry == 4:  # one short tile per matrix
        return [(f"tiles-{d.lower()}", d, inputs.stack(d, 2, 9, 6, m))
                for d, m in (("BF16", 208), ("F16", 208), ("F32", 32))]
    if geometry == 1:
        return [(f"matrices-{d.lower()}", d, inputs.stack(d, 1, 21, 7, m))
                for d, m in (("BF16", 256), ("F16", 208), ("F32", 32))]
    if geometry == 2:
        return [(f"rows-{d.lower()}", d, inputs.stack(d, 13, 43, 8, m))
                for d, m in (("BF16", 18), ("F16", 16), ("F32", 3))]
    out = []
    cols = 2 * group if group < 64 else group
    if fmt.second:
        out.append(("orders", "BF16", orders()))
        out.append(("mantissas", "BF16", inputs.stack("BF16", 1, 32, 9)))
    span = 64 if geometry == 6 else cols
    for d, m in (("BF16", 16), ("F16", 10), ("F32", 2)):
        rows = 14 if span // group == 1 else 12 if d == "BF16" else 13
        if fmt.name.endswith(b"-f16") and d == "F16":
            m = 16
        out.append((f"rows-{d.lower()}", d, inputs.stack(d, rows, span, 10, m)))
    return out


def plain_case(fmt, dtype):
    """Ordinary weights of every mantissa, for encoders whose named differences show in most of the
    other cases."""
    cols = fmt.group or 43
    return f"plain-{dtype.lower()}", dtype, inputs.stack(dtype, 1, cols, 11, 208)


def line(key, data):
    return f"{key} {compact(np.ascontiguousarray(data).view(np.uint8).tobytes())}\n"


def encoder_text(kerf, claim, fmt, dtype, x):
    """The planes as the package writes them; "" where a named difference shows."""
    shape = tuple(x.shape)
    with np.errstate(all="ignore"):
        theirs = claim.run(x.clone())
    raw = kerf.encode(claim.codec, source_bytes(x), dtype, shape)
    result = Result()
    result.add(claim, fmt, x, unpack(raw, fmt, shape), theirs)
    if result.unexplained:
        raise SystemExit(f"{claim.codec} differs from {claim.function}: {result.first}")
    if result.known:
        return ""
    planes = pack(theirs, fmt, shape)
    return f"enc {claim.codec.split(':')[1]}\n" + "".join(
        line(name, planes[name]) for name in PLANES if name in planes and planes[name].size)


def decode_text(name):
    """Random bytes and what gguf-py makes of them: every code, every byte of a scale."""
    blocks = np.random.default_rng(12).integers(0, 256, (300, 2 * SIZE[name][1]), np.uint8)
    blocks[:256, 0] = np.arange(256)
    with np.errstate(all="ignore"):
        values = dequantize(blocks, SIZE[name][2]).astype(np.float32)
    return (f"\ndecode random-bytes [300,{2 * SIZE[name][0]}]\n" + line("codes", blocks) +
            line("F32", values))


def case_text(kerf, name, claims, fmt, case, blocks):
    label, dtype, x = case
    part = ""
    g = kerf.geometry(kerf.find(name).format, tuple(x.shape))
    n = g.plane[1].bytes // {1: 4, 2: 2, 3: 2}.get(fmt.scale, 1) or g.elements // fmt.group
    for claim in claims:
        if dtype not in claim.dtypes:
            continue
        planes = encoder_text(kerf, claim, fmt, dtype, x)
        part += planes
        encoder = claim.codec.split(":")[1]
        blocks[encoder] = blocks.get(encoder, 0) + (n if planes else 0)
    if not part:
        return ""
    shape = ",".join(map(str, x.shape))
    return f"\ncase {label} {dtype} [{shape}]\n" + line("src", source_bytes(x)) + part


def write_format(kerf, name, claims):
    fmt = kerf.find(name).format.contents
    blocks = {}
    text = f"# vectors of {name} that the peers' packages wrote; ../README.md tells how\n"
    for case in cases_of(fmt):
        text += case_text(kerf, name, claims, fmt, case, blocks)
    few = [c for c in claims if blocks.get(c.codec.split(":")[1], 0) < MIN_BLOCKS]
    for dtype in sorted({c.dtypes[0] for c in few}):
        text += case_text(kerf, name, [c for c in few if c.dtypes[0] == dtype], fmt,
                          plain_case(fmt, dtype), blocks)
    if fmt.geometry == 6:
        text += decode_text(name)
    for encoder, n in blocks.items():
        if n < MIN_BLOCKS:
            raise SystemExit(f"{name}:{encoder} has {n} blocks only")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.txt").write_text(text, encoding="ascii")
    print(f"{name:20} {len(text):8} " + " ".join(f"{e}:{n}" for e, n in blocks.items()), flush=True)


def main(lib, names):
    torch.set_grad_enabled(False)
    kerf, table = Kerf(lib), {}
    for module in MODULES:
        for claim in module.CLAIMS:
            name, encoder = claim.codec.split(":")
            mine = table.setdefault(name, {})
            if encoder in PEERS:
                mine.setdefault(encoder, claim)
    for name, claims in table.items():
        if claims and (not names or name in names):
            write_format(kerf, name, list(claims.values()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
