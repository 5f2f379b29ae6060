"""What the oracle stands on, checked against exact fractions and published vectors."""
import hashlib
import math
import random
import struct
from fractions import Fraction

from . import ieee, nvfp4
from .elements import BY_NAME, E2M1, E4M3
from .tables import DYNAMIC_MAP, NF4_THRESHOLDS, NF4_VALUES
from .ties import TE_VECTORS

MAP_SHA256 = "dad4c269c3243d1705f6b979dccb61efb8d1074812ecf8d79255a82f60671763"


def round_exact(dtype, x):
    """Nearest value of an IEEE type to a fraction, ties to even, by integers alone."""
    bits, emin, emax = ieee.FORMATS[dtype]
    if x == 0:
        return 0.0
    e = math.floor(math.log2(abs(x)))  # a guess, then corrected
    while Fraction(2) ** e > abs(x):
        e -= 1
    while Fraction(2) ** (e + 1) <= abs(x):
        e += 1
    quantum = Fraction(2) ** (max(e, emin) - bits + 1)
    r = round(x / quantum) * quantum
    return float(r) if abs(r) < Fraction(2) ** (emax + 1) else math.copysign(math.inf, x)


def random_fp32(rng):
    while True:
        v = ieee.from_bits32(rng.getrandbits(32))
        if math.isfinite(v):
            return v


def check_rounding(rng):
    for _ in range(4000):
        a, b = random_fp32(rng), random_fp32(rng)
        if rng.random() < 0.5:  # results near midpoints and in the subnormal range
            b = a * 2.0 ** rng.randint(-24, 24) if abs(a) < 1e30 else 2.0 ** rng.randint(-149, 0)
            b = ieee.f32(b)
        fa, fb = Fraction(a), Fraction(b)
        results = [(ieee.mul(a, b), fa * fb), (ieee.add(a, b), fa + fb), (ieee.sub(a, b), fa - fb)]
        if b != 0:
            results.append((ieee.div(a, b), fa / fb))
        for got, exact in results:
            assert math.isinf(got) or got == round_exact("F32", exact), (a, b)
            assert not math.isinf(got) or round_exact("F32", exact) == got, (a, b)
        for dtype in ieee.FORMATS:
            assert ieee.round_to(dtype, a) == round_exact(dtype, fa), (dtype, a)
        assert ieee.round_to("F32", a * 1.1) == ieee.f32(a * 1.1)
        if abs(a) < 65520:
            assert struct.unpack("<e", struct.pack("<e", a))[0] == ieee.round_to("F16", a)


def check_elements(rng):
    for element in BY_NAME.values():
        exact = [Fraction(v) for v in element.magnitudes]
        probes = [Fraction(v) for v in element.magnitudes + element.middles]
        probes += [Fraction(ieee.f32(rng.uniform(0, element.max * 1.2))) for _ in range(300)]
        probes += [p + sign * Fraction(1, 2 ** 30) for p in probes[:60] for sign in (1, -1)]
        for p in probes:
            best = min(range(len(exact)), key=lambda c: (abs(exact[c] - abs(p)), c % 2))
            got = element.encode(float(p))
            assert got & (element.sign - 1) == best, (element.bits, p)
            assert (got >= element.sign) == (p < 0)
    published = {"E4M3": (448.0, 0x7E, 2.0 ** -9), "E5M2": (57344.0, 0x7B, 2.0 ** -16),
                 "E2M3": (7.5, 0x1F, 0.125), "E3M2": (28.0, 0x1F, 0.0625), "E2M1": (6.0, 7, 0.5)}
    for name, (top, code, smallest) in published.items():
        e = BY_NAME[name]
        assert (e.max, e.encode(math.inf), e.decode(1)) == (top, code, smallest)
    assert [E4M3.encode(v) for v in (464.0, 465.0, 1e9)] == [0x7E] * 3
    ties = {.25: 0, .75: 2, 1.25: 2, 1.75: 4, 2.5: 4, 3.5: 6, 5.0: 6, 7.0: 7, -0.0: 8, -.1: 8}
    for value, code in ties.items():
        assert E2M1.encode(value) == code, value


def check_tables():
    assert hashlib.sha256(struct.pack("<256f", *DYNAMIC_MAP)).hexdigest() == MAP_SHA256
    assert DYNAMIC_MAP == sorted(DYNAMIC_MAP) and DYNAMIC_MAP[127] == 0
    middles = [ieee.mul(ieee.add(a, b), 0.5) for a, b in zip(NF4_VALUES, NF4_VALUES[1:])]
    assert middles == NF4_THRESHOLDS


def check_te_vectors():
    for t, a, x, scale, code in TE_VECTORS:
        amax, block_amax, v = (ieee.from_bits("BF16", b) for b in (t, a, x))
        s_enc, _ = nvfp4.matrix_scale("amax", amax)
        block = [block_amax, v] + [0.0] * 14
        s = nvfp4.choose_te(block, s_enc)
        assert (s, nvfp4.quantize(block, s, s_enc)[1]) == (scale, code), hex(t)


def run():
    rng = random.Random("check")
    check_rounding(rng)
    check_elements(rng)
    check_tables()
    check_te_vectors()
