"""Groups of values, and how they become a tensor in which each has a scale of its own."""
from dataclasses import dataclass

from .elements import BY_NAME, SIGNED
from .ieee import next_up, round_to
from .tables import NF4_THRESHOLDS


@dataclass
class Case:
    label: str
    dtype: str
    shape: list
    values: list


def bf16(x):
    return round_to("BF16", x)


def spread(rng):
    """A number in (-1, 1), denser around zero; no libm, so the same on every machine."""
    return (rng.random() + rng.random() + rng.random() - 1.5) / 1.5


def group_length(fmt):
    return {"NONE": 8, "TENSOR": 12, "TILE": 12, "ROW": 20, "FLAT": fmt.group,
            "BLOCK": min(fmt.group, 16)}[fmt.geometry]


def stack(fmt, label, dtype, groups, apart=False):
    """One scale per group; apart: one matrix per group, so that groups do not meet at all."""
    n, length = len(groups), len(groups[0])
    if fmt.geometry == "FLAT":
        groups = [g + [0.0] * (fmt.group - length) for g in groups]
        shape = [n, fmt.group]
    elif apart or fmt.geometry in ("TENSOR", "TILE"):
        shape = [n, 2, length // 2] if length % 2 == 0 and not apart else [n, 1, length]
    else:
        shape = [n, length]
    return Case(label, dtype, shape, [round_to(dtype, v) for g in groups for v in g])


def landmarks(fmt):
    """Magnitudes, relative to amax, at which a code changes."""
    if fmt.element in BY_NAME:
        element = BY_NAME[fmt.element]
        return [m / element.max for m in element.middles]
    if fmt.element == "NF4":
        return [abs(t) for t in NF4_THRESHOLDS]
    if fmt.family == "CAST":
        return [(j + 0.5) / 256 for j in range(256)]
    top = 127 if fmt.element == "MXI8" else SIGNED.get(fmt.element, (0, 2 ** fmt.bits - 1))[1]
    return [(j + 0.5) / top for j in range(top)]


def around(v):
    """A positive value and its neighbours, both signs."""
    return [v, -v, next_up(v), next_up(v, -1), -next_up(v), -next_up(v, -1)]


def chunks(fmt, values, amax):
    """Groups that hold amax and a part of the values."""
    room = group_length(fmt) - len(amax)
    values = values + [0.0] * (-len(values) % room)
    return [amax + values[i:i + room] for i in range(0, len(values), room)]
