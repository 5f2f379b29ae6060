"""compare.py - what the scripts of the peers share: a table of claims, the comparison, the vectors.

A peer's script declares claims. A claim says that one encoder of kerf writes what a function of a
package writes:

    Claim("nvfp4:torchao", "nvfp4_quantize", run, dtypes=("BF16", "F32"))

run(x) gets a torch tensor [matrices, rows, cols] and returns {"codes", "scales", "second", "zeros"}
as the planes have them, codes one per uint8 and the others as unsigned integers or uint8. `known`
names differences: known(x, ours, theirs) returns {sentence: mask over groups}; only differences
under a mask are accepted, and they are counted. From a script's command line:

    peer_X.py compare LIB [--elements N] [--json FILE]     against a live libkerf
    peer_X.py list
"""
import argparse
import json
import sys
import time
from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch

import inputs
from kerf_api import Kerf, pack_codes


@dataclass
class Claim:
    codec: str
    function: str
    run: Callable
    dtypes: tuple = ("BF16", "F16", "F32")
    known: Callable = None
    cols: int = 640
    note: str = ""
    edges: bool = True
    peer: str = ""


def bits_of(t):
    """A torch tensor as unsigned integers of its size."""
    size = t.element_size()
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[size]
    return t.contiguous().view(kind).numpy().view({1: np.uint8, 2: np.uint16, 4: np.uint32}[size])


def source_bytes(x):
    return bits_of(x).view(np.uint8)


# --- planes of kerf as arrays ---------------------------------------------------------------------

def unpack_codes(packed, bits):
    """Rows of bytes as rows of codes."""
    if bits in (2, 4):
        parts = [packed >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
        return np.stack(parts, -1).reshape(packed.shape[0], -1)
    a, b, c = packed[:, 0::3], packed[:, 1::3], packed[:, 2::3]
    parts = [a & 63, a >> 6 | (b & 15) << 2, b >> 4 | (c & 3) << 4, c >> 2]
    return np.stack(parts, -1).reshape(packed.shape[0], -1)


def unpack(planes, fmt, shape):
    """kerf's planes in the form that run() returns."""
    out, (m, r, c) = {}, shape
    struct = fmt.geometry == 6
    rows = 1 if fmt.geometry == 5 else m * r
    cols = m * r * c if fmt.geometry == 5 else c
    codes = planes["codes"].reshape(rows, -1)
    if fmt.bits < 8 and not struct:
        codes = unpack_codes(codes, fmt.bits)
        if fmt.geometry == 5:
            codes = codes.reshape(-1, 2)[:, ::-1].reshape(1, -1)
        codes = codes[:, :cols]
    out["codes"] = codes
    width = {1: 4, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1}.get(fmt.scale, 1)
    if "scales" in planes:
        out["scales"] = planes["scales"].view({1: np.uint8, 2: np.uint16, 4: np.uint32}[width])
    if "second" in planes:
        out["second"] = planes["second"].view(np.uint32)
    if "zeros" in planes:
        z = planes["zeros"]
        if fmt.zero == 2:
            z = z.view(np.uint32)
        elif fmt.bits < 8:
            n = (c + fmt.group - 1) // fmt.group if fmt.group else 1
            z = unpack_codes(z.reshape(rows, -1), fmt.bits)[:, :n]
        out["zeros"] = np.ascontiguousarray(z)
    return out


def pack(arrays, fmt, shape):
    """The opposite: bytes of the planes, for vectors."""
    out = {}
    codes = arrays["codes"]
    if fmt.geometry == 6:
        out["codes"] = codes.reshape(-1)
    elif fmt.geometry == 5:
        flat = codes.reshape(-1)
        if flat.size % 2:
            flat = np.append(flat, np.uint8(7))
        out["codes"] = (flat[::2] << 4 | flat[1::2]).astype(np.uint8)
    else:
        out["codes"] = pack_codes(codes.reshape(-1, shape[-1]), fmt.bits)
    for name in ("scales", "second"):
        if name in arrays:
            out[name] = np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8)
    if "zeros" in arrays:
        z = arrays["zeros"]
        if fmt.zero != 2 and fmt.bits < 8:
            z = pack_codes(z.reshape(shape[0] * shape[1], -1), fmt.bits)
        out["zeros"] = np.ascontiguousarray(z).reshape(-1).view(np.uint8)
    return out


# --- comparing ------------------------------------------------------------------------------------

def group_mask(name, differ, fmt, shape):
    """Differences of one plane as a mask over groups [matrices * rows * groups], or per matrix."""
    m, r, c = shape
    if name == "second" and fmt.geometry == 5 or name == "zeros" and fmt.zero == 2:
        return differ.reshape(-1)[:, None]
    if name == "second" or fmt.geometry == 1 and name != "codes":
        return np.repeat(differ.reshape(m, -1).any(-1), r)[:, None]
    rows = m * r
    if fmt.geometry == 5:
        return differ.reshape(-1)[:, None] if name != "codes" else pad_groups(
            differ.reshape(1, -1), fmt.group).reshape(-1)[:, None]
    if fmt.geometry == 4:
        tiles = differ.reshape(m, -1, differ.shape[-1]) if name == "codes" else None
        return (tiles.reshape(m, -1).any(-1)[:, None] if name == "codes"
                else differ.reshape(m, -1).any(-1)[:, None])
    if name == "codes" and fmt.geometry in (1, 2, 6):
        return differ.reshape(rows, -1).any(-1)[:, None]
    if name == "codes" and fmt.group:
        return pad_groups(differ.reshape(rows, c), fmt.group)
    return differ.reshape(rows, -1)


def pad_groups(d, group):
    rows, cols = d.shape
    n = -(-cols // group)
    full = np.zeros((rows, n * group), bool)
    full[:, :cols] = d
    return full.reshape(rows, n, group).any(-1)


def range_overflows(x, group=0):
    """Groups whose largest less least number is beyond the type of the source."""
    w = x.reshape(x.shape[0] * x.shape[1], -1, group or x.shape[2])
    lo, hi = w.amin(-1).clamp(max=0), w.amax(-1).clamp(min=0)
    return torch.isinf(hi - lo).numpy()


class Result:
    def __init__(self):
        self.elements = self.codes = self.groups = self.unexplained = 0
        self.known = {}
        self.first = None

    def add(self, claim, fmt, x, ours, theirs):
        shape = tuple(x.shape)
        self.elements += x.numel()
        masks = claim.known(x, ours, theirs) if claim.known else {}
        for name, mine in ours.items():
            if name not in theirs:
                continue
            other = np.asarray(theirs[name]).reshape(mine.shape)
            differ = mine != other
            if not differ.any():
                continue
            bad = group_mask(name, differ, fmt, shape)
            for why, mask in masks.items():
                mask = mask.reshape(bad.shape[0], -1) if np.size(mask) > 1 else np.reshape(mask, (1, 1))
                if bad.shape[1] == 1:
                    mask = mask.any(-1, keepdims=True)
                mask = np.broadcast_to(mask, bad.shape)
                hit = int((bad & mask).sum())
                if hit:
                    self.known[why] = self.known.get(why, 0) + hit
                bad = bad & ~mask
            if bad.any():
                self.unexplained += int(bad.sum())
                if self.first is None:
                    self.first = (name, [int(v) for v in np.argwhere(bad)[0]], str(x.dtype),
                                  tuple(x.shape))


def check(kerf, claim, elements, seed):
    fmt = kerf.find(claim.codec).format.contents
    result, start = Result(), time.time()
    for dtype in claim.dtypes:
        # all mantissas in bfloat16, or in the one type there is; an eighth of that in the others
        whole = dtype == "BF16" or dtype == claim.dtypes[0] and "BF16" not in claim.dtypes
        rows = max(16, int(elements / (inputs.MANTISSAS * claim.cols)) + 1)
        x = inputs.stack(dtype, rows if whole else max(16, rows // 8), claim.cols, seed)
        compare_one(kerf, claim, fmt, dtype, x, result)
        if claim.edges:
            compare_one(kerf, claim, fmt, dtype, inputs.edges(dtype, 4, claim.cols, seed), result)
    result.seconds = time.time() - start
    return result


def compare_one(kerf, claim, fmt, dtype, x, result):
    with np.errstate(all="ignore"):
        theirs = claim.run(x.clone())
    ours = unpack(kerf.encode(claim.codec, source_bytes(x), dtype, tuple(x.shape)), fmt,
                  tuple(x.shape))
    result.add(claim, fmt, x, ours, theirs)


def describe(claim, r):
    if r.unexplained:
        return f"DIFFERS: {r.unexplained} groups, first {r.first}"
    if not r.known:
        return "exact"
    return "exact except " + "; ".join(f"{why} ({n} groups)" for why, n in r.known.items())


def main(peer, version, claims):
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("compare", "list"))
    parser.add_argument("lib", nargs="?")
    parser.add_argument("--elements", type=float, default=1e7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    if args.mode == "list":
        for c in claims:
            print(c.codec, c.function)
        return 0
    kerf, rows, failed = Kerf(args.lib), [], 0
    for c in claims:
        if args.only and args.only not in c.codec:
            continue
        r = check(kerf, c, args.elements, args.seed)
        text = describe(c, r)
        failed += bool(r.unexplained)
        who = c.peer or f"{peer} {version}"
        print(f"{c.codec:28} {who} {c.function}: {text}; {r.elements} elements, "
              f"{r.seconds:.1f} s", flush=True)
        rows.append({"codec": c.codec, "peer": who, "function": c.function,
                     "result": text, "elements": r.elements, "types": list(c.dtypes),
                     "note": c.note})
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    return 1 if failed else 0


def run_main(peer, version, claims):
    sys.exit(main(peer, version, claims))
