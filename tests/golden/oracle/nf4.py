"""NF4 as bitsandbytes' CPU backend writes it, plain and with nested scales."""
import bisect
from fractions import Fraction

from . import ieee
from .elements import clamp
from .formats import Encoded
from .ieee import add, div, f32, mul, sub
from .tables import DYNAMIC_MAP, NF4_THRESHOLDS, NF4_VALUES

TINY = f32(1e-38)
NESTED = 256  # block scales under one second-level scale
MAP_MIDDLES = [mul(add(a, b), 0.5) for a, b in zip(DYNAMIC_MAP, DYNAMIC_MAP[1:])]


def normalize(values, amax, whole):
    """Whole blocks are multiplied by a reciprocal, a short last one is divided."""
    floor = max(amax, TINY)
    if whole:
        inverse = div(1.0, floor)
        return [clamp(mul(v, inverse), -1.0, 1.0) for v in values]
    return [clamp(div(v, floor), -1.0, 1.0) for v in values]


def nearest(thresholds, v):
    """How many thresholds lie strictly below."""
    return bisect.bisect_left(thresholds, v)


def store_f16(amax):
    if amax == 0:
        return 0.0
    return clamp(ieee.round_to("F16", amax), ieee.smallest("F16"), ieee.largest("F16"))


def encode_nf4(fmt, encoder, geometry, x):
    out = Encoded([0] * len(x))
    for _, group in geometry.groups:
        whole = len(group) == fmt.group
        amax = max(abs(x[i]) for i in group)
        if not whole:
            amax = max(amax, TINY)
        if fmt.scale == "F16":
            amax = store_f16(amax)
        out.scales.append(amax)
        for i, c in zip(group, normalize([x[i] for i in group], amax, whole)):
            out.codes[i] = nearest(NF4_THRESHOLDS, c)
    if fmt.second == "NESTED":
        encode_nested(out)
    return out


def encode_nested(out):
    """Replaces the block scales by codes of the dynamic map around their mean."""
    amax, n = out.scales, len(out.scales)
    offset = f32(float(sum(map(Fraction, amax))) / float(n)) if n else 0.0
    out.zeros = [offset]
    out.scales = []
    for k in range(0, n, NESTED):
        run = [sub(a, offset) for a in amax[k:k + NESTED]]
        top = max(map(abs, run))
        out.second.append(top)
        out.scales += [nearest(MAP_MIDDLES, v) for v in normalize(run, top, len(run) == NESTED)]


def decode_nf4(fmt, geometry, e):
    y = [0.0] * len(e.codes)
    for k, (_, group) in enumerate(geometry.groups):
        scale = e.scales[k]
        if fmt.second == "NESTED":
            scale = add(mul(DYNAMIC_MAP[scale], e.second[k // NESTED]), e.zeros[0])
        for i in group:
            y[i] = mul(NF4_VALUES[e.codes[i]], scale)
    return y
