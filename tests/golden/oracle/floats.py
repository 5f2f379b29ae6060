"""Casts, FP8 and microscaling (MX)."""
import math

from . import ieee
from .elements import BY_NAME, clamp, rne_int
from .formats import Encoded
from .ieee import FLT_TINY, div, f32, mul, sub, total


# --- casts --------------------------------------------------------------------------------------

def encode_cast(fmt, encoder, geometry, x):
    return Encoded([ieee.to_bits(fmt.element, ieee.round_to(fmt.element, v)) for v in x])


def decode_cast(fmt, geometry, e):
    return [ieee.from_bits(fmt.element, c) for c in e.codes]


# --- FP8: fp32 scale = amax / largest element -----------------------------------------------------

def encode_fp8(fmt, encoder, geometry, x):
    element = BY_NAME[fmt.element]
    out = Encoded([0] * len(x))
    for _, group in geometry.groups:
        amax = max((abs(x[i]) for i in group), default=0.0)
        scale = max(div(amax, element.max), FLT_TINY) if amax > 0 else 1.0
        out.scales.append(scale)
        for i in group:
            out.codes[i] = element.encode(div(x[i], scale))
    return out


def decode_fp8(fmt, geometry, e):
    element = BY_NAME[fmt.element]
    y = [0.0] * len(e.codes)
    for (_, group), scale in zip(geometry.groups, e.scales):
        for i in group:
            y[i] = mul(element.decode(e.codes[i]), scale)
    return y


# --- MX: one power of two per 32 ------------------------------------------------------------------

class Mxi8:
    """Two's complement times 2^-6, -128 unused."""
    max, emax, mantissa_bits = 127 / 64, 0, 6

    @staticmethod
    def encode(x):
        return clamp(rne_int(x * 64), -127, 127) & 0xFF

    @staticmethod
    def decode(code):
        return (code - 256 if code >= 128 else code) / 64


MX_EMAX = {"E4M3": 8, "E5M2": 15, "E2M3": 2, "E3M2": 4, "E2M1": 2, "MXI8": 0}


def mx_element(fmt):
    return Mxi8 if fmt.element == "MXI8" else BY_NAME[fmt.element]


def exponent_field(x):
    """floor(log2(x)) of a normal fp32 value, -127 of a subnormal one."""
    return math.frexp(x)[1] - 1 if x >= 2.0 ** -126 else -127


def is_power_of_two(x):
    return math.frexp(x)[0] == 0.5


def mx_exponent(fmt, encoder, amax):
    """The shared exponent of a block that is not zero."""
    element, emax = mx_element(fmt), MX_EMAX[fmt.element]
    if encoder == "floor":
        e = exponent_field(amax) - emax
    elif encoder == "ceil":
        mantissa = ieee.bits32(amax) % (1 << 23)
        e = exponent_field(amax) + (mantissa != 0) - emax
    elif encoder == "even":
        bumped = ieee.bits32(amax) + (1 << (22 - element.mantissa_bits))
        e = (bumped >> 23) - 127 - emax
    else:  # rceil
        v = mul(amax, div(1.0, element.max))
        e = -127 if v <= 2.0 ** -127 else math.frexp(v)[1] - is_power_of_two(v)
    return clamp(e, -127, 127)


def mx_search(fmt, block):
    """The best of three exponents around the floor rule; ties go to the larger."""
    element = mx_element(fmt)
    base = mx_exponent(fmt, "floor", max(map(abs, block)))
    y = [f32(v * 2.0 ** -base) for v in block]
    best = None
    for e in (base + 1, base, base - 1):
        e = clamp(e, -127, 127)
        step = 2.0 ** (e - base)
        error = total(mul(d, d) for d in (
            sub(f32(element.decode(element.encode(f32(v / step))) * step), v) for v in y))
        if best is None or error < best[0]:
            best = (error, e)
    return best[1]


def encode_mx(fmt, encoder, geometry, x):
    element = mx_element(fmt)
    out = Encoded([0] * len(x))
    for _, group in geometry.groups:
        block = [x[i] for i in group] + [0.0] * (fmt.group - len(group))
        if max(map(abs, block)) == 0:
            e = -127
        elif encoder == "search":
            e = mx_search(fmt, block)
        else:
            e = mx_exponent(fmt, encoder, max(map(abs, block)))
        out.scales.append(e + 127)
        for i in group:
            out.codes[i] = element.encode(x[i] * 2.0 ** -e)  # exact in double
    return out


def decode_mx(fmt, geometry, e):
    element = mx_element(fmt)
    y = [0.0] * len(e.codes)
    for (_, group), byte in zip(geometry.groups, e.scales):
        scale = math.nan if byte == 255 else 2.0 ** (byte - 127)
        for i in group:
            y[i] = f32(element.decode(e.codes[i]) * scale)
    return y
