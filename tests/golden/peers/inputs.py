"""inputs.py - tensors that tell one order of operations from another.

Random fp32 numbers would not: most differences show in exact ties only, which bfloat16 weights meet
often and fp32 weights never. So every stack of matrices runs through all 128 mantissas of its
largest magnitude, and holds rows of ties, zeros, zeros with signs, outliers, subnormals, one sign.
"""
import functools

import torch

DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
MANTISSAS = 128


def peak(dtype, m, generator):
    """A positive number with mantissa m/128 and an exponent that leaves room on both sides."""
    low, high = (-6, 4) if dtype == "F16" else (-20, 6)
    e = int(torch.randint(low, high, (1,), generator=generator))
    return (1 + m / 128) * 2.0 ** e


def special_rows(x, amax, dtype, generator):
    """Overwrites the last rows of one matrix; its largest magnitude stays amax."""
    cols = x.shape[-1]
    ramp = torch.arange(cols)
    sign = torch.where(torch.rand(cols, generator=generator) < 0.5, -1.0, 1.0)
    tiny = 2.0 ** -24 if dtype == "F16" else 2.0 ** -133
    steps = torch.randint(0, 25, (cols,), generator=generator) / 24
    sixteenths = torch.randint(0, 97, (cols,), generator=generator) / 128
    rows = [
        torch.zeros(cols),
        sign * 0.0,
        sign * amax * 2.0 ** -3 * steps,                       # 1/24 of a block's largest: ties
        sign * 2.0 ** -4 * sixteenths * min(1.0, amax * 8),    # multiples of a power of two
        sign * amax * torch.where(ramp % 37 == 5, 1.0, 1e-4),  # outliers
        sign * amax * 2.0 ** -(ramp % 40).float(),             # every exponent
        sign * tiny * (ramp % 9),                              # subnormals
        amax * 0.9 * torch.rand(cols, generator=generator),    # no negative number
        -amax * 0.9 * torch.rand(cols, generator=generator),
        torch.full((cols,), float(amax) / 2),
        sign * amax * (0.96 + 0.04 * torch.rand(cols, generator=generator)),
    ]
    n = min(len(rows), x.shape[0] - 1)
    first = int(torch.randint(0, len(rows), (1,), generator=generator))
    for i in range(n):
        x[x.shape[0] - 1 - i] = rows[(first + i) % len(rows)]


@functools.lru_cache(maxsize=4)
def stack(dtype, rows, cols, seed, matrices=MANTISSAS):
    """[matrices, rows, cols] of the given type."""
    g = torch.Generator().manual_seed(seed)
    out = torch.empty(matrices, rows, cols, dtype=DTYPES[dtype])
    for m in range(matrices):
        x = torch.randn(rows, cols, generator=g)
        if m % 3 == 1:
            x = x * x.abs()  # heavy tails
        x = x * torch.exp2(torch.randint(-6, 1, (rows, 1), generator=g).float())
        amax = peak(dtype, (m * 37 + seed) % 128, g)
        x = x / x.abs().max() * amax * 0.995
        if rows > 1:
            special_rows(x, amax, dtype, g)
        x[0, int(torch.randint(0, cols, (1,), generator=g))] = amax
        out[m] = x.clamp(-amax, amax).to(DTYPES[dtype])
    return out


def edges(dtype, rows, cols, seed):
    """Matrices at the ends of the type's range, and one of zeros."""
    g = torch.Generator().manual_seed(seed)
    top = torch.finfo(DTYPES[dtype]).max
    least = 2.0 ** -24 if dtype == "F16" else 2.0 ** -133
    out = []
    for amax in (0.0, least, least * 64, top, top / 3, 2.0 ** -14, 1.0):
        x = torch.randn(rows, cols, generator=g).clamp(-4, 4) / 4 * amax
        x[0, 0], x[-1, -1] = amax, -amax
        out.append(x.to(DTYPES[dtype]))
    return torch.stack(out)
