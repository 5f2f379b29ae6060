"""Which tensors are encoded: chosen so that a wrong rule or operation order shows.

With bf16 sources over all amax mantissas exact ties are common, so that one ulp anywhere upstream
changes a code. ties.py and near_ties.py hold what random values would not meet.
"""
import random

from . import ieee
from .formats import count
from .groups import Case, bf16, group_length, landmarks, spread, stack
from .ieee import FLT_MAX, next_up, round_to
from .near_ties import near_tie_cases
from .ties import tie_cases


def mantissas(fmt, rng):
    """Every bf16 mantissa of amax, most elements near a tie."""
    marks, length = landmarks(fmt), group_length(fmt)
    groups = []
    for i in range(128):
        amax = (1 + i / 128) * 2.0 ** rng.randint(-6, 3)
        group = [amax * (rng.choice(marks) if rng.random() < 0.6 else abs(spread(rng)))
                 * rng.choice((1, -1)) for _ in range(length)]
        group[rng.randrange(length)] = amax * rng.choice((1, -1))
        groups.append(group)
    if fmt.second == "TENSOR":  # a second block with another amax under each tensor scale
        groups = [g + [v * f for v in g[::-1]]
                  for g in groups for f in [bf16(rng.uniform(0.05, 1))]]
        return stack(fmt, "mantissas", "BF16", groups, apart=True)
    return stack(fmt, "mantissas", "BF16", groups)


def outliers(fmt, rng):
    """One element 2^j above the others."""
    groups = []
    for j in range(0, 40, 4 if fmt.geometry == "FLAT" else 2):
        group = [spread(rng) for _ in range(group_length(fmt))]
        group[rng.randrange(len(group))] = rng.choice((1, -1)) * rng.uniform(1, 2) * 2.0 ** j
        groups.append(group)
    return stack(fmt, "outliers", "BF16", groups, apart=fmt.second == "TENSOR")


def decay(fmt, rng):
    """Neighbouring groups of very different size: block scales run into underflow."""
    step = 6 if fmt.geometry == "FLAT" else 2
    groups = [[spread(rng) * 2.0 ** -(j // 2) for _ in range(group_length(fmt))]
              for j in range(0, 60, step)]
    return stack(fmt, "decay", "BF16", groups)


def exponents(fmt, rng):
    """Amax over the whole range of fp32."""
    step = 16 if fmt.geometry == "FLAT" else 1 if fmt.scale == "E8M0" else 3
    groups = []
    for e in range(-149, 128, step):
        amax = min(rng.choice((1.0, 1.25, 1.5, 1.75, 1.875, 1.9921875)) * 2.0 ** e, FLT_MAX)
        groups.append([amax, -amax * rng.random(), amax * 0.3, amax * rng.random() / 8])
    return stack(fmt, "exponents", "F32", groups, apart=fmt.second == "TENSOR")


def random_bits(fmt, rng, dtype):
    """Any finite bit pattern of the source type."""
    size = 8 * ieee.SIZE[dtype]
    values = []
    n = group_length(fmt) * (12 if fmt.second == "TENSOR" else 16)
    while len(values) < n:
        v = ieee.from_bits(dtype, rng.getrandbits(size))
        if abs(v) <= FLT_MAX:
            values.append(v)
    groups = [values[i:i + group_length(fmt)] for i in range(0, n, group_length(fmt))]
    return stack(fmt, "bits-" + dtype.lower(), dtype, groups, apart=fmt.second == "TENSOR")


def special_groups():
    tiny, one_up = ieee.FLT_TINY, next_up(1.0)
    bf16_max = ieee.largest("BF16")
    limit = round_to("F32", 1e-38)
    return [
        [0.0] * 4, [-0.0] * 4, [0.0, -0.0, 0.0, -0.0], [1.0, -0.0, 0.0, -1.0],
        [tiny, 0.0, -tiny, -0.0], [tiny * 3, tiny, tiny * 2, -tiny], [tiny * 1000, -tiny * 500] * 2,
        [2.0 ** -126, -2.0 ** -127, 2.0 ** -128, 2.0 ** -133],
        [2.0 ** -133, 2.0 ** -134, tiny, 0.0],
        [2.0 ** -127, next_up(2.0 ** -127), -2.0 ** -149, 0.0], [limit, -limit / 2, limit / 4, 0.0],
        [next_up(limit), limit, -limit, 0.0], [limit - tiny, 0.0, -limit + tiny, 0.0],
        [2.0 ** -25, 2.0 ** -24, -2.0 ** -26, 0.0], [3 * 2.0 ** -25, 2.0 ** -25, 0.0, -0.0],
        [FLT_MAX, -FLT_MAX, FLT_MAX / 2, 1.0], [FLT_MAX] * 4, [-FLT_MAX, tiny, -tiny, 0.0],
        [bf16_max, -bf16_max / 3, 0.0, -0.0], [FLT_MAX, 0.0, -0.0, tiny],
        [1e20, -3e19, 2.5e18, 1.0], [65504.0, 65519.0, 65520.0, -65536.0],
        [1.0] * 4, [-1.0] * 4, [1.0, one_up, -one_up, 1.0], [0.0, 0.0, 0.0, -3.0],
        [5.0, 0.0, 0.0, 0.0], [0.25, 0.5, 0.75, 1.0], [-0.25, -0.5, -0.75, -1.0],
        [448.0, 464.0, next_up(464.0), -465.0], [57344.0, 61440.0, -61439.0, 1.0],
        [1.0, tiny, -tiny, 2.0 ** -130], [1e-30, -1e-30, 1e-38, 1e-45], [1.0, 2.0, 4.0, -0.5],
    ]


def specials(fmt, rng):
    groups = special_groups()
    if fmt.second != "NESTED":
        return [stack(fmt, "specials", "F32", groups, apart=fmt.second == "TENSOR")]
    ordinary = [round_to("F32", spread(rng)) for _ in range(5)]  # the offset is not their absmax
    return [Case(f"special-{i}", "F32", [fmt.group + 5],
                 [round_to("F32", v) for v in g] + [0.0] * (fmt.group - len(g)) + ordinary)
            for i, g in enumerate(groups)]


def plain(fmt, rng):
    """Bell-shaped values in whole groups, several per row."""
    g = fmt.group or 1
    tile = [129, 129 if fmt.element == "E4M3" else 7]
    shape = {"NONE": [4, 9], "TENSOR": [3, 6, 20], "TILE": tile, "ROW": [6, 70],
             "FLAT": [3, 100], "BLOCK": [256 // g, 2 * g + g // 2 + 1]}[fmt.geometry]
    return Case("plain", "BF16", shape, [bf16(spread(rng)) for _ in range(count(shape))])


def edges(fmt, rng):
    """Ranks, empty tensors, and tiles that end at the edge of a matrix."""
    shapes = [[], [1], [7], [2, 3, 5], [2, 1, 2, 9], [0], [0, 5], [3, 0], [2, 0, 5], [0, 3, 4],
              [2, 3, fmt.group + 3]]
    if fmt.geometry == "TILE":
        shapes[-1:] = [[130, 3], [3, 260], [2, 129, 2], [1, 128], [128, 1]]
    out = []
    for shape in shapes:
        dtype = rng.choice(("F32", "BF16", "F16"))
        values = [round_to(dtype, spread(rng)) for _ in range(count(shape))]
        out.append(Case("edge", dtype, shape, values))
    return out


def tails(fmt, rng):
    """Short last groups: every length of small blocks, a choice of large ones."""
    g = fmt.group
    if fmt.geometry not in ("BLOCK", "FLAT"):
        return []
    lengths = list(range(1, g)) if g <= 32 else \
        [t for t in (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127) if t < g]
    out = []
    for t in lengths:
        shape = [t] if t % 3 == 0 else [1, g + t] if t % 3 == 1 and g <= 64 else [2, t]
        values = [spread(rng) * rng.choice((1, 4)) for _ in range(count(shape))]
        if t % 5 == 0:
            values[-1] = 0.0
        if t % 7 == 0:
            values[-t:] = [0.0] * t
        dtype = ("BF16", "F16", "BF16", "F32")[t % 4]
        out.append(Case(f"tail-{t}", dtype, shape, [round_to(dtype, v) for v in values]))
    return out


def faint(fmt, rng):
    """Squares of the errors fall among the subnormal numbers: one rounding more or less shows."""
    groups = [[spread(rng) * 2.0 ** rng.choice((-70, -72, -74))
               for _ in range(group_length(fmt))] for _ in range(16)]
    return stack(fmt, "faint", "F32", groups, apart=fmt.second == "TENSOR")


def cases_of(fmt):
    def rng(word):
        return random.Random(f"{fmt.name} {word}")

    out = [mantissas(fmt, rng("mantissas")), plain(fmt, rng("plain")),
           outliers(fmt, rng("outliers")), decay(fmt, rng("decay")),
           exponents(fmt, rng("exponents")), faint(fmt, rng("faint")),
           random_bits(fmt, rng("bits32"), "F32"), random_bits(fmt, rng("bits16"), "F16")]
    out += specials(fmt, rng("specials")) + edges(fmt, rng("edges")) + tails(fmt, rng("tails"))
    return out + tie_cases(fmt, rng("ties")) + near_tie_cases(fmt, rng("near"))
