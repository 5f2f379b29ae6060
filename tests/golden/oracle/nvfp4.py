"""NVFP4: E2M1 elements, an E4M3 scale per 16, an fp32 scale per matrix.

amax: TransformerEngine's quantize_nvfp4. 4/6: Four Over Six (arXiv 2512.02010). sweep: kerf.
"""
from .elements import E2M1, E4M3
from .formats import Encoded
from .ieee import FLT_MAX, FLT_TINY, div, mul, sub, total

SIXTH = div(1.0, 6.0)


def max_scale(encoder):
    """The block scale of the largest block: 448, or 256 to leave room for 4/6."""
    return 448.0 if encoder == "amax" or encoder.endswith("-448") else 256.0


def matrix_scale(encoder, amax):
    """(S_enc, what is stored)."""
    top = 6.0 * max_scale(encoder)
    if amax == 0:
        return 1.0, 1.0
    return min(div(top, amax), FLT_MAX), max(div(amax, top), FLT_TINY)


def quantize(block, scale_code, s_enc):
    """E2M1 codes of a block under a scale byte; a zero scale has zero codes."""
    s = E4M3.decode(scale_code)
    if s == 0:
        return [0] * len(block)
    r = min(div(1.0, mul(s, div(1.0, s_enc))), FLT_MAX)
    return [E2M1.encode(mul(v, r)) for v in block]


def error(metric, block, codes, scale_code, amax, top):
    s = E4M3.decode(scale_code)
    d = [sub(div(mul(mul(E2M1.decode(c), s), amax), top), v) for c, v in zip(codes, block)]
    if metric == "mae":
        return total(abs(v) for v in d)
    if metric == "absmax":
        return max(abs(v) for v in d)
    return total(mul(v, v) for v in d)


def choose_te(block, s_enc):
    a = max(map(abs, block))
    return E4M3.encode(min(mul(a, mul(s_enc, SIXTH)), 448.0))


def choose_four_over_six(encoder, block, s_enc, amax):
    words = encoder.removesuffix("-448").split("-")
    metric = words[1] if len(words) > 1 else "mse"
    top = 6.0 * max_scale(encoder)
    base = mul(div(max(map(abs, block)), 6.0), s_enc)
    s6 = E4M3.encode(min(base, 448.0))
    s4 = E4M3.encode(min(mul(base, 1.5), 448.0))
    e6, e4 = (error(metric, block, quantize(block, s, s_enc), s, amax, top) for s in (s6, s4))
    return s4 if e4 < e6 else s6


def choose_sweep(block, s_enc, amax):
    if max(map(abs, block)) == 0:
        return 0
    first = choose_four_over_six("sweep", block, s_enc, amax)
    return min([first, *range(1, 127)],  # min keeps the first of equals
               key=lambda s: error("mse", block, quantize(block, s, s_enc), s, amax, 6.0 * 256.0))


def encode_nvfp4(fmt, encoder, geometry, x):
    per_matrix = geometry.rows * geometry.cols
    out = Encoded([0] * len(x))
    for m in range(geometry.matrices):
        amax = max(map(abs, x[m * per_matrix:(m + 1) * per_matrix]), default=0.0)
        s_enc, stored = matrix_scale(encoder, amax)
        out.second.append(stored)
        for _, group in (g for g in geometry.groups if g[0] == m):
            block = [x[i] for i in group] + [0.0] * (fmt.group - len(group))
            if encoder == "amax":
                s = choose_te(block, s_enc)
            elif encoder == "sweep":
                s = choose_sweep(block, s_enc, amax)
            else:
                s = choose_four_over_six(encoder, block, s_enc, amax)
            out.scales.append(s)
            for i, c in zip(group, quantize(block, s, s_enc)):
                out.codes[i] = c
    return out


def decode_nvfp4(fmt, geometry, e):
    y = [0.0] * len(e.codes)
    for (m, group), s in zip(geometry.groups, e.scales):
        scale = mul(E4M3.decode(s), e.second[m])
        for i in group:
            y[i] = mul(E2M1.decode(e.codes[i]), scale)
    return y
