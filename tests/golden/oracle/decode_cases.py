"""Planes that no encoder need have written: every code under scales from one end to the other,
bytes that mean NaN among them."""
from .elements import BITS
from .formats import Encoded, Geometry
from .ieee import FLT_MAX, FLT_TINY, largest, round_to, smallest

FLOAT_SCALES = [1.0, 0.3, -1.5, 2.0 ** -126, 0.0]
BYTE_SCALES = {"E8M0": [0, 1, 127, 254, 255], "E4M3": [0, 1, 0x38, 0x7E, 0x7F],
               "MAP8": [0, 1, 127, 128, 200, 254, 255]}
SECONDS = [1.0, round_to("F32", 0.37), FLT_TINY, FLT_MAX]


def scales_of(dtype):
    if dtype in BYTE_SCALES:
        return BYTE_SCALES[dtype]
    if dtype == "NONE":
        return [1.0]
    return [round_to(dtype, s) for s in FLOAT_SCALES] + [smallest(dtype), largest(dtype)]


def rows_of(fmt):
    """(shape, lines): a scale per line of codes, and every code in a line."""
    codes = 1 << min(BITS[fmt.element], 8)
    n = len(scales_of(fmt.scale))
    if fmt.second == "TENSOR":
        return [len(SECONDS), n, codes], len(SECONDS) * n
    if fmt.geometry in ("TENSOR", "TILE"):
        return [n, 2, codes // 2], n
    if fmt.geometry == "FLAT":
        return [n, fmt.group], n
    return [n, codes], n


def raw_code(fmt, i):
    """The i-th code; of the casts, a walk over all 16-bit patterns, Inf and NaN among them."""
    if fmt.family == "CAST":
        return (i * 257 + (i & 1) * 64) % 65536 << (16 if fmt.element == "F32" else 0)
    return i % (1 << fmt.bits)


def decode_case(fmt):
    """(shape, Encoded)"""
    shape, lines = rows_of(fmt)
    geometry, scales = Geometry(fmt, shape), scales_of(fmt.scale)
    length = geometry.elements // lines
    e = Encoded([raw_code(fmt, i % length) for i in range(geometry.elements)])
    if fmt.family == "CAST":
        return shape, e
    for _, group in geometry.groups:
        line = group[0] // length
        e.scales.append(scales[line % len(scales)])
        if fmt.zero == "CODE":
            e.zeros.append(line * 37 % (1 << fmt.bits))
    if fmt.second == "TENSOR":
        e.second = list(SECONDS)
    elif fmt.second == "NESTED":
        e.second, e.zeros = [round_to("F32", 0.37)], [round_to("F32", 1.7)]
    return shape, e
