"""Symmetric (INT) and asymmetric (AFFINE) integers, with amax and searched scales."""
from . import ieee
from .elements import BITS, SIGNED, clamp, rne_int
from .formats import Encoded
from .ieee import FLT_MAX, div, mul, sub, total

SHRINK = [div(float(100 - i), 100.0) for i in range(80)]


def store(dtype, scale):
    """A positive scale as it is stored: rounded, never infinite, never zero."""
    return clamp(ieee.round_to(dtype, scale), ieee.smallest(dtype), ieee.largest(dtype))


def padded(fmt, values):
    """The last block of a row counts as if zeros followed."""
    return values + [0.0] * (fmt.group - len(values)) if fmt.geometry == "BLOCK" else values


def squared(differences):
    return total(mul(d, d) for d in differences)


def first_best(candidates, error):
    """The first candidate of least error."""
    best = None
    for c in candidates:
        e = error(c)
        if best is None or e < best[0]:
            best = (e, c)
    return best[1]


# --- symmetric ------------------------------------------------------------------------------------

def quantize_int(v, scale, qmax):
    return clamp(rne_int(div(v, scale)), -qmax - 1, qmax)


def choose_int(fmt, encoder, block, qmax):
    amax = max(map(abs, block), default=0.0)
    if amax == 0:
        return 1.0
    full = div(amax, float(qmax))
    if encoder == "amax":
        return store(fmt.scale, full)

    def error(s):
        return squared(sub(mul(float(quantize_int(v, s, qmax)), s), v) for v in block)

    return first_best([store(fmt.scale, mul(full, c)) for c in SHRINK], error)


def encode_int(fmt, encoder, geometry, x):
    bits, qmax = SIGNED[fmt.element]
    out = Encoded([0] * len(x))
    for _, group in geometry.groups:
        scale = choose_int(fmt, encoder, padded(fmt, [x[i] for i in group]), qmax)
        out.scales.append(scale)
        for i in group:
            out.codes[i] = quantize_int(x[i], scale, qmax) % (1 << bits)
    return out


def decode_int(fmt, geometry, e):
    bits, qmax = SIGNED[fmt.element]
    y = [0.0] * len(e.codes)
    for (_, group), scale in zip(geometry.groups, e.scales):
        for i in group:
            q = e.codes[i] - (1 << bits if e.codes[i] > qmax else 0)
            y[i] = mul(float(q), scale)
    return y


# --- asymmetric: u in 0..levels, zero point z likewise -------------------------------------------

def bias(fmt):
    """8-bit codes and zero points are stored as two's complement of u - 128."""
    return 128 if fmt.element == "S8" else 0


def affine_parameters(fmt, mn, mx, levels):
    span = min(sub(mx, mn), FLT_MAX)
    if span == 0:
        return 1.0, 0
    scale = store(fmt.scale, div(span, float(levels)))
    return scale, clamp(rne_int(div(-mn, scale)), 0, levels)


def quantize_affine(v, scale, z, levels):
    return clamp(rne_int(div(v, scale)) + z, 0, levels)


def choose_affine(fmt, encoder, block, levels):
    mn, mx = min(0.0, min(block, default=0.0)), max(0.0, max(block, default=0.0))
    if encoder == "minmax" or mn == mx:
        return affine_parameters(fmt, mn, mx, levels)

    def error(parameters):
        s, z = parameters
        return squared(sub(mul(float(quantize_affine(v, s, z, levels) - z), s), v) for v in block)

    return first_best([affine_parameters(fmt, mul(mn, c), mul(mx, c), levels) for c in SHRINK],
                      error)


def encode_affine(fmt, encoder, geometry, x):
    bits = BITS[fmt.element]
    levels = (1 << bits) - 1
    out = Encoded([0] * len(x))
    for _, group in geometry.groups:
        scale, z = choose_affine(fmt, encoder, padded(fmt, [x[i] for i in group]), levels)
        out.scales.append(scale)
        out.zeros.append((z - bias(fmt)) % (1 << bits))
        for i in group:
            u = quantize_affine(x[i], scale, z, levels)
            out.codes[i] = (u - bias(fmt)) % (1 << bits)
    return out


def decode_affine(fmt, geometry, e):
    y = [0.0] * len(e.codes)

    def domain(stored):
        return (stored + bias(fmt)) % (1 << BITS[fmt.element])

    for (_, group), scale, z in zip(geometry.groups, e.scales, e.zeros):
        for i in group:
            y[i] = mul(float(domain(e.codes[i]) - domain(z)), scale)
    return y
