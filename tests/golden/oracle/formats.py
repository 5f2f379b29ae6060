"""The rows of formats.def, and where the elements of a tensor lie in a format."""
import re
from dataclasses import dataclass, field

from .elements import BITS


# Other encoders are the rules of other projects, whose packages write their vectors: ../peers.
OWN = {"rne", "amax", "minmax", "search", "floor", "rceil", "even", "ceil", "sweep", "bnb-cpu", "4/6",
       "4/6-mae", "4/6-absmax", "4/6-448", "4/6-mae-448", "4/6-absmax-448"}


@dataclass(frozen=True)
class Format:
    name: str
    family: str
    element: str
    geometry: str
    group: int
    scale: str
    second: str
    zero: str
    encoders: tuple  # the default first

    @property
    def bits(self):
        return BITS[self.element]


def read_table(path):
    """All formats of formats.def, in its order."""
    text = open(path, encoding="utf-8").read()
    encoders = {}
    for family, name in re.findall(r'^KERF_ENCODER\((\w+),\s*\w+,\s*"([^"]+)"', text, re.M):
        encoders.setdefault(family, []).append(name)
    word, string = r"(\w+),\s*", r'"([^"]+)",\s*'
    row = re.compile(r"^KERF_FORMAT\(\w+,\s*\d+,\s*" + string + word * 3 + r"(\d+),\s*"
                     + word * 3 + string, re.M)
    out = []
    for name, family, element, geometry, group, scale, second, zero, default in row.findall(text):
        names = [e for e in encoders[family] if e != default and e in OWN]
        if geometry == "TENSOR":  # no search over a whole matrix
            names = [e for e in names if e != "search"]
        out.append(Format(name, family, element, geometry, int(group), scale, second, zero,
                          (default, *names)))
    return out


@dataclass
class Encoded:
    """Planes before packing: raw codes; scales as floats, or as bytes where they are codes."""
    codes: list
    scales: list = field(default_factory=list)
    second: list = field(default_factory=list)
    zeros: list = field(default_factory=list)


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


class Geometry:
    """A tensor as a stack of matrices, and its groups in stored order."""

    def __init__(self, fmt, shape):
        self.fmt = fmt
        self.elements = count(shape)
        if fmt.geometry == "FLAT" or len(shape) < 2:
            self.matrices, self.rows, self.cols = 1, 1, self.elements
        else:
            self.matrices, self.rows, self.cols = count(shape[:-2]), shape[-2], shape[-1]
        self.groups = list(self._groups())  # (matrix, indices of the elements)

    def _groups(self):
        g, rows, cols = self.fmt.group, self.rows, self.cols
        for m in range(self.matrices):
            base = m * rows * cols
            if self.fmt.geometry == "TENSOR":
                yield m, list(range(base, base + rows * cols))
            elif self.fmt.geometry == "ROW":
                for r in range(rows if cols else 0):  # an empty tensor has no bands
                    yield m, list(range(base + r * cols, base + (r + 1) * cols))
            elif self.fmt.geometry in ("BLOCK", "FLAT"):
                for r in range(rows):
                    for c in range(0, cols, g):
                        yield m, list(range(base + r * cols + c,
                                            base + r * cols + min(c + g, cols)))
            elif self.fmt.geometry == "TILE":
                for r in range(0, rows, g):
                    for c in range(0, cols, g):
                        yield m, [base + i * cols + j for i in range(r, min(r + g, rows))
                                  for j in range(c, min(c + g, cols))]

    def groups_per_row(self):
        g = self.fmt.group
        return -(-self.cols // g) if self.fmt.geometry == "BLOCK" else 1


def pack_row(codes, bits):
    """Little-endian bit stream, padded with zero bits to whole bytes."""
    stream = 0
    for i, c in enumerate(codes):
        stream |= c << (i * bits)
    return stream.to_bytes((len(codes) * bits + 7) // 8, "little")


def pack_rows(codes, width, bits):
    if width == 0:
        return b""
    return b"".join(pack_row(codes[i:i + width], bits) for i in range(0, len(codes), width))
