#!/usr/bin/env python3
"""Writes tests/golden/<format>.txt for every row of formats.def that the oracle knows.

    make_vectors.py [FORMAT ...]     Python 3.9 or newer, no packages; half a minute for all

The files must not change unless a format or an encoder does.
"""
import pathlib
import re
import sys
from concurrent.futures import ProcessPoolExecutor

from oracle import check, codec, ieee
from oracle.cases import cases_of
from oracle.decode_cases import decode_case
from oracle.formats import count, read_table

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE.parent.parent / "codecs" / "include" / "kerf" / "formats.def"
DECODE_ALWAYS = 32  # elements: above, only the default encoder's planes are decoded
DECODE_HALF = 300    # elements: above, the default encoder's planes are decoded to F32 only


def compact(data):
    """Hex; five and more equal bytes are written once with their number, as 00*24; ."""
    return re.sub(rb"(.)\1{4,}|.+?(?=(.)\2{4}|$)", run_or_hex, data, flags=re.S).decode()


def run_or_hex(match):
    text = match[0].hex()
    return (f"{text[:2]}*{len(match[0])};" if match[1] else text).encode()


def line(key, data):
    return f"{key} {compact(data)}\n" if data else ""


def decoded(fmt, shape, encoded, dtypes):
    values = codec.decode(fmt, shape, encoded)
    return "".join(line(t, ieee.to_bytes(t, [ieee.round_to(t, v) for v in values])) for t in dtypes)


def write_planes(fmt, shape, encoded, dtypes):
    out = [line(name, data) for name, data in codec.planes(fmt, shape, encoded).items()]
    return "".join(out) + decoded(fmt, shape, encoded, dtypes)


def write_case(fmt, case):
    shape = "[" + ",".join(map(str, case.shape)) + "]"
    out = [f"\ncase {case.label} {case.dtype} {shape}\n",
           line("src", ieee.to_bytes(case.dtype, case.values))]
    n = count(case.shape)
    for encoder in fmt.encoders:
        first = encoder == fmt.encoders[0]
        dtypes = ["F32"] if first or n <= DECODE_ALWAYS else []
        dtypes += ["BF16", "F16"] if first and n <= DECODE_HALF else []
        encoded = codec.encode(fmt, encoder, case.shape, case.values)
        out += [f"enc {encoder}\n", write_planes(fmt, case.shape, encoded, dtypes)]
    return "".join(out)


def write_format(fmt):
    shape, encoded = decode_case(fmt)
    text = f"# golden vectors of {fmt.name}; README.md tells how to read them\n"
    text += "".join(write_case(fmt, c) for c in cases_of(fmt))
    text += f"\ndecode every-code {str(shape).replace(' ', '')}\n"
    dtypes = ["F32", "BF16", "F16"] if count(shape) <= DECODE_HALF else ["F32"]
    text += write_planes(fmt, shape, encoded, dtypes)
    (HERE / f"{fmt.name}.txt").write_text(text, encoding="ascii")
    return fmt.name, len(text)


def main(names):
    check.run()
    table = [f for f in read_table(TABLE) if not names or f.name in names]
    known = [f for f in table if f.family in codec.FAMILIES]
    for f in table:
        if f not in known:
            print(f"{f.name}: family {f.family} is not in the oracle", file=sys.stderr)
    with ProcessPoolExecutor() as pool:
        total = 0
        for name, size in pool.map(write_format, known):
            total += size
            print(f"{name:20} {size:8}")
    print(f"{'total':20} {total:8}")


if __name__ == "__main__":
    main(sys.argv[1:])
