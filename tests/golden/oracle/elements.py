"""What the codes of small floats mean, and the code nearest to a value.

The table of a type is built from the definition of its fields; encoding is a search in it.
"""
import bisect
import math


class MiniFloat:
    """Sign, exponent and mantissa; `top` is the largest code of a finite magnitude."""

    def __init__(self, exponent_bits, mantissa_bits, bias, top, ieee=False):
        self.exponent_bits = exponent_bits
        self.mantissa_bits = mantissa_bits
        self.bias = bias
        self.top = top
        self.ieee = ieee  # the code above top is infinity, the others NaN; else all are NaN
        self.bits = 1 + exponent_bits + mantissa_bits
        self.sign = 1 << (self.bits - 1)
        self.magnitudes = [self.magnitude(c) for c in range(top + 1)]
        self.max = self.magnitudes[-1]
        self.middles = [(a + b) / 2 for a, b in zip(self.magnitudes, self.magnitudes[1:])]

    def magnitude(self, code):
        fraction = code % (1 << self.mantissa_bits) / (1 << self.mantissa_bits)
        field = code >> self.mantissa_bits
        if field == 0:
            return fraction * 2.0 ** (1 - self.bias)
        return (1 + fraction) * 2.0 ** (field - self.bias)

    def decode(self, code):
        m = code & (self.sign - 1)
        if m <= self.top:
            v = self.magnitudes[m]
        else:
            v = math.inf if self.ieee and m == self.top + 1 else math.nan
        return -v if code & self.sign else v

    def encode(self, x):
        """Nearest code, ties to the even one, saturating; the sign of zero is kept."""
        a = abs(x)
        i = bisect.bisect_left(self.middles, a)  # middles below a
        if i < len(self.middles) and a == self.middles[i] and i % 2 == 1:
            i += 1
        return i | (self.sign if math.copysign(1.0, x) < 0 else 0)


E4M3 = MiniFloat(4, 3, 7, 0x7E)
E5M2 = MiniFloat(5, 2, 15, 0x7B, ieee=True)
E2M3 = MiniFloat(2, 3, 1, 0x1F)
E3M2 = MiniFloat(3, 2, 3, 0x1F)
E2M1 = MiniFloat(2, 1, 1, 0x7)

BY_NAME = {"E4M3": E4M3, "E5M2": E5M2, "E2M3": E2M3, "E3M2": E3M2, "E2M1": E2M1}

# name -> (bits of a code, largest code) of the integer elements
SIGNED = {"S8": (8, 127), "S4": (4, 7), "S2": (2, 1)}
BITS = {"F32": 32, "F16": 16, "BF16": 16, "MXI8": 8, "NF4": 4, "S8": 8, "S4": 4, "S2": 2,
        "U4": 4, "U2": 2, **{n: e.bits for n, e in BY_NAME.items()}}


def rne_int(x):
    """Nearest integer, ties to even; infinities become integers beyond every code."""
    if math.isinf(x):
        return (1 << 200) if x > 0 else -(1 << 200)
    return round(x)


def clamp(v, lo, hi):
    return lo if v < lo else hi if v > hi else v
