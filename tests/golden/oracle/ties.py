"""Blocks in which elements lie exactly half way between two codes, or right beside that."""
from . import ieee
from .elements import BITS, BY_NAME, E2M1, E4M3, SIGNED
from .floats import MX_EMAX, mx_element
from .groups import Case, around, chunks, group_length, landmarks, stack
from .ieee import FLT_MAX, next_up, round_to
from .tables import NF4_THRESHOLDS


def ties_float(fmt):
    element = BY_NAME[fmt.element]
    groups = []
    for k in (0, -7):
        marks = [v * 2.0 ** k for m in element.middles for v in (m, -m)]
        groups += chunks(fmt, marks, [element.max * 2.0 ** k])
    near = [v for m in element.middles[::5] for v in around(m)[2:]]
    return groups + chunks(fmt, near, [element.max])


def ties_int(fmt):
    top = 127 if fmt.element == "MXI8" else SIGNED[fmt.element][1]
    step = 2.0 ** -6 if fmt.element == "MXI8" else 1.0
    marks = [v * step for j in range(top) for v in (j + 0.5, -j - 0.5)]
    near = [v for j in range(0, top, 9) for v in around((j + 0.5) * step)[2:]]
    return chunks(fmt, marks, [top * step]) + chunks(fmt, near, [-top * step])


def ties_affine(fmt):
    levels = 2 ** BITS[fmt.element] - 1
    groups = []
    for z in (0.0, 1.0, 0.5, levels / 2, levels // 2, levels // 3 + 0.5, levels - 0.5, levels):
        marks = [j + 0.5 - int(z) for j in range(0, levels, max(1, levels // 16))]
        groups += chunks(fmt, [m for m in marks if -z <= m <= levels - z], [-z, levels - z])
    return groups


def ties_nf4(fmt):
    values = [v for t in NF4_THRESHOLDS for v in (t, *around(abs(t)))]
    return chunks(fmt, values, [1.0]) + chunks(fmt, [v / 8 for v in values], [-0.125])


def ties_cast(fmt, rng):
    values = [65519.996, 65520.0, 65504.0, FLT_MAX, -65520.0, 2.0 ** -25, 3 * 2.0 ** -25,
              2.0 ** -134, 3 * 2.0 ** -134, next_up(2.0 ** -25), 2.0 ** -14 - 2.0 ** -25,
              ieee.from_bits32(0x7F7F7FFF), ieee.from_bits32(0x7F7F8000)]
    for _ in range(100):
        bits, emin, emax = ieee.FORMATS["BF16" if rng.random() < 0.5 else "F16"]
        e = rng.randint(max(emin - 4, -120), emax - 1)
        ulp = 2.0 ** (max(e, emin) - bits + 1)
        v = round_to("F32", (int(2.0 ** e / ulp * rng.uniform(1, 2)) + 0.5) * ulp)
        values += around(v)[rng.randrange(2)::2]
    return chunks(fmt, [round_to("F32", v) for v in values], [1.0])


# --- MX -------------------------------------------------------------------------------------------

def exponent_edges(fmt):
    """Amax where a rule steps to the next exponent, and its neighbours."""
    element = mx_element(fmt)
    steps = (element.max, 1.0, 1.5, 1.75, 2.0 - 2.0 ** -(element.mantissa_bits + 1))
    return [stack(fmt, "exponent-edges", "F32",
                  [[v, -v / 3, v / 7, 0.0] for m in steps for v in around(m * 2.0 ** k)])
            for k in (0, -20, -127)]


def crowd(fmt):
    """One element, and many so small that clipping the one pays: the search goes down."""
    smallest = (1 / 64 if fmt.element == "MXI8" else mx_element(fmt).magnitudes[1]) / 2
    top = 2.0 ** MX_EMAX[fmt.element]
    groups = [[top * f] + [s * smallest] * (fmt.group - 1)
              for f in (1.0, -1.0, 1.0 + 2.0 ** -7) for s in (1.0, -1.0, 3.0, 0.99)]
    return stack(fmt, "crowd", "F32", groups)


# --- NVFP4 ----------------------------------------------------------------------------------------

# amax of the tensor, of a block, an element of it (bf16 bits) -> scale byte and code of
# TransformerEngine; in each, one of eight other published operation orders gives other bytes.
TE_VECTORS = [
    (0x3E00, 0x3DD3, 0x3D80, 0x7C, 5), (0x3E01, 0x3E00, 0x3DD7, 0x7E, 6),
    (0x3E02, 0x3E00, 0x3C82, 0x7E, 2), (0x3E02, 0x3D9E, 0x3D43, 0x79, 6),
    (0x3E02, 0x3DC3, 0x3D80, 0x7B, 6), (0x3E03, 0x3E00, 0x3C83, 0x7E, 1),
    (0x3E04, 0x3D93, 0x3D30, 0x78, 6), (0x3E04, 0x3D89, 0x3D25, 0x77, 5),
    (0x3E05, 0x3DC8, 0x3C51, 0x7B, 1), (0x3E0A, 0x3DE3, 0x3D8A, 0x7C, 5),
    (0x3E0C, 0x3D91, 0x3D80, 0x77, 7), (0x3E0C, 0x3DAB, 0x3D96, 0x79, 7),
    (0x3E0C, 0x3DD2, 0x3D80, 0x7B, 5)]


def te_case():
    """Each vector: a matrix of a block with the tensor amax and a block with the other two."""
    groups = [[ieee.from_bits("BF16", b) for b in (t, *[0] * 15, a, x, *[0] * 14)]
              for t, a, x, _, _ in TE_VECTORS]
    return Case("te", "BF16", [len(groups), 1, 32], [v for g in groups for v in g])


def ties_nvfp4(fmt, rng):
    """Block scales that E4M3 holds, elements half way between codes; and scales half way."""
    groups = []
    for top, k in ((2688.0, 0), (1536.0, 0), (2688.0, -9), (1536.0, -20)):
        for _ in range(10):
            s = rng.choice([v for v in E4M3.magnitudes if 2.0 ** -5 <= v <= top / 6])
            block = [6 * s] + [m * s * rng.choice((1, -1)) for m in E2M1.middles] + \
                [v * s for v in (4, 3, -2, 1, 0.25, 0.75, 2.5, -5)]
            groups.append([v * 2.0 ** k for v in [top] + [0.0] * 15 + block])
        for _ in range(6):
            s = rng.choice([v for v in E4M3.middles if v <= top / 6])
            block = [6 * s] + [6 * s * rng.choice(landmarks(fmt)) for _ in range(15)]
            groups.append([v * 2.0 ** k for v in [top] + [0.0] * 15 + block])
    return stack(fmt, "ties", "F32", groups, apart=True)


def exact_nvfp4(fmt, rng):
    """Blocks that both 4 and 6 hold without error: the tie goes to 6."""
    groups = [[v * s for v in [1536.0] + [0.0] * 15]
              + [rng.choice((0.0, 1.5, -3.0, 6.0)) * s * 2 for _ in range(15)] + [12.0 * s]
              for s in (1.0, 2.0 ** -10, 2.0 ** 7)]
    return stack(fmt, "exact", "BF16", groups, apart=True)


# --- all ------------------------------------------------------------------------------------------

def exact_blocks(fmt, rng):
    """Powers of two: several exponents represent a block without error, the search ties."""
    groups = [[rng.choice((0.0, 1.0, -1.0, 2.0, -2.0, 0.5)) * 2.0 ** k
               for _ in range(group_length(fmt))] for k in range(-8, 8)]
    return stack(fmt, "exact", "BF16", groups)


def tie_cases(fmt, rng):
    if fmt.family == "NVFP4":
        return [ties_nvfp4(fmt, rng), exact_nvfp4(fmt, rng), te_case()]
    if fmt.family == "MX":
        integer = fmt.element == "MXI8"
        return [stack(fmt, "ties", "F32", (ties_int if integer else ties_float)(fmt)),
                exact_blocks(fmt, rng), *exponent_edges(fmt), crowd(fmt)]
    if fmt.family == "CAST":
        return [stack(fmt, "ties", "F32", ties_cast(fmt, rng))]
    make = {"FP8": ties_float, "INT": ties_int, "AFFINE": ties_affine, "NF4": ties_nf4}
    return [stack(fmt, "ties", "F32", make[fmt.family](fmt)), exact_blocks(fmt, rng)]
