#!/usr/bin/env python3
"""Prints the golden vectors of the toy format, from its description in toy.h and not from its
code: numbers as exact fractions, the nearest level found by trying all of them.

    toy_vectors.py > toy4.txt
"""
import random
import struct
from fractions import Fraction

LEVELS = [Fraction(0)] + [Fraction(1, 2 ** (7 - k)) for k in range(1, 8)]
BLOCK = 8


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bf16_bits(x):
    """Nearest even; what is not zero stays so, what is finite stays so."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    low, high = bits & 0xFFFF, bits >> 16
    high += low > 0x8000 or (low == 0x8000 and high & 1)
    return max(min(high & 0x7FFF, 0x7F7F), 1 if x else 0) | high & 0x8000


def bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def negative(x):
    return struct.pack("<f", x)[3] >> 7


def code_of(x, scale):
    if scale == 0:
        return 0
    y = Fraction(f32(abs(x) / scale))
    nearest = min(range(8), key=lambda k: (abs(LEVELS[k] - y), -k))
    return negative(x) << 3 | nearest


def value_of(code, scale):
    magnitude = f32(float(LEVELS[code & 7]) * scale)
    return -magnitude if code & 8 else magnitude


def hex_of(dtype, values):
    if dtype == "BF16":
        return b"".join(struct.pack("<H", struct.unpack("<I", struct.pack("<f", v))[0] >> 16)
                        for v in values).hex()
    return struct.pack("<%d%s" % (len(values), {"F32": "f", "F16": "e"}[dtype]), *values).hex()


def pack(codes):
    codes = codes + [0] * (len(codes) % 2)
    return bytes(a | b << 4 for a, b in zip(codes[::2], codes[1::2])).hex()


def decoded(rows, scales):
    out = []
    for codes, row_scales in zip(rows, scales):
        out += [value_of(c, bf16(row_scales[i // BLOCK])) for i, c in enumerate(codes)]
    return "F32 " + hex_of("F32", out)


def planes(rows, scales):
    flat = struct.pack("<%dH" % sum(map(len, scales)), *(s for r in scales for s in r))
    return ["codes " + "".join(map(pack, rows)), "scales " + flat.hex(), decoded(rows, scales)]


def case(label, dtype, rows, decode=True):
    codes, scales = [], []
    for row in rows:
        blocks = [row[i:i + BLOCK] for i in range(0, len(row), BLOCK)]
        scales.append([bf16_bits(max(map(abs, b))) for b in blocks])
        codes.append([code_of(x, bf16(scales[-1][i // BLOCK])) for i, x in enumerate(row)])
    head = f"\ncase {label} {dtype} [{len(rows)},{len(rows[0])}]"
    source = "src " + hex_of(dtype, [x for row in rows for x in row])
    print("\n".join([head, source, "enc amax"] + planes(codes, scales)[: 3 if decode else 2]))


def main():
    rng = random.Random(8)
    print("# golden vectors of toy4; README.md tells how to read them")
    case("plain", "BF16", [[bf16(bf16_bits(rng.gauss(0, 1))) for _ in range(21)] for _ in range(4)])
    case("wide", "F32", [[f32(rng.choice([-1, 1]) * 2 ** rng.uniform(-140, 120)) for _ in range(16)]
                         for _ in range(6)])
    case("many", "F16", [[rng.randrange(-512, 512) / 16 for _ in range(64)] for _ in range(22)],
         decode=False)
    case("half", "F16", [[rng.randrange(-64, 64) / 8 for _ in range(9)] for _ in range(3)])
    middles = [(a + b) / 2 for a, b in zip(LEVELS, LEVELS[1:])]
    case("ties", "F32", [[float(m) for m in middles] + [1.0], [-float(m) for m in middles] + [1.0]])
    case("zeros", "F32", [[0.0, -0.0] * 4 + [0.0, -0.0, 1.0], [-0.0] * 11])
    codes = [list(range(16)) for _ in range(4)]
    scales = [[bf16_bits(s)] * 2 for s in (1.0, 0.3, 0.0, 2.0 ** 100)]
    print("\n".join(["\ndecode every-code [4,16]"] + planes(codes, scales)))


main()
