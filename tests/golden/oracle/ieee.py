"""Single IEEE operations on fp32, and rounding to fp32, bf16 and fp16.

An fp32 value is a Python float (a double) that fp32 can hold. One operation on two such values is
done in double and rounded to fp32. The two roundings equal one, because a double has at least
2 * 24 + 2 bits: products are exact, and a sum or quotient cannot come so close to a midpoint of
two fp32 values without being it. check.py compares both with exact fractions.
"""
import math
import struct

FLT_MAX = (2.0 - 2.0 ** -23) * 2.0 ** 127
FLT_TINY = 2.0 ** -149  # the smallest positive fp32
INF = math.inf

_F32 = struct.Struct("<f")

# significant bits, exponent of the smallest normal, exponent of the largest
FORMATS = {"F32": (24, -126, 127), "BF16": (8, -126, 127), "F16": (11, -14, 15)}


def f32(x):
    """The fp32 value nearest to a double, ties to even, overflow to infinity."""
    try:
        return _F32.unpack(_F32.pack(x))[0]
    except OverflowError:
        return math.copysign(INF, x)


def mul(a, b):
    return f32(a * b)


def add(a, b):
    return f32(a + b)


def sub(a, b):
    return f32(a - b)


def div(a, b):
    return f32(a / b)


def total(values):
    """The fp32 sum in order."""
    s = 0.0
    for v in values:
        s = add(s, v)
    return s


def round_to(dtype, x):
    """The value of an IEEE type nearest to a double, ties to even, overflow to infinity."""
    bits, emin, emax = FORMATS[dtype]
    if x == 0.0 or math.isinf(x) or math.isnan(x):
        return x
    exponent = max(math.frexp(x)[1] - 1, emin)
    quantum = math.ldexp(1.0, exponent - bits + 1)
    r = round(x / quantum) * quantum  # exact: division by a power of two, half to even
    if abs(r) > (2.0 - 2.0 ** (1 - bits)) * 2.0 ** emax:
        return math.copysign(INF, x)
    return math.copysign(r, x)


def largest(dtype):
    bits, _, emax = FORMATS[dtype]
    return (2.0 - 2.0 ** (1 - bits)) * 2.0 ** emax


def smallest(dtype):
    bits, emin, _ = FORMATS[dtype]
    return 2.0 ** (emin - bits + 1)


def bits32(x):
    return struct.unpack("<I", _F32.pack(x))[0]


def from_bits32(b):
    return struct.unpack("<f", struct.pack("<I", b))[0]


def next_up(x, steps=1):
    """Neighbour of a positive fp32 value, `steps` away."""
    return from_bits32(bits32(x) + steps)


NAN_BITS = {"F32": 0x7FC00000, "BF16": 0x7FC0, "F16": 0x7E00}
SIZE = {"F32": 4, "BF16": 2, "F16": 2}


def to_bits(dtype, x):
    """The bit pattern of a value that the type holds exactly."""
    if math.isnan(x):
        return NAN_BITS[dtype]
    if round_to(dtype, x) != x:
        raise ValueError(f"{dtype} cannot hold {x!r}")
    if dtype == "F16":
        return struct.unpack("<H", struct.pack("<e", x))[0]
    return bits32(x) >> (16 if dtype == "BF16" else 0)


def from_bits(dtype, b):
    if dtype == "F16":
        return struct.unpack("<e", struct.pack("<H", b))[0]
    return from_bits32(b << (16 if dtype == "BF16" else 0))


def to_bytes(dtype, values):
    return b"".join(to_bits(dtype, v).to_bytes(SIZE[dtype], "little") for v in values)
