#!/usr/bin/env python3
"""Writes advisor/tokens/unicode_tables.h: what Unicode says of canonical composition.

  unicode_tables.py OUTPUT    uses the package unicodedata2 where it is installed (newer tables than
                              those of Python itself)"""
import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

HANGUL = range(0xAC00, 0xAC00 + 11172)
everything = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def rows(values, width, form):
    per_line = 92 // (width + 2)
    for i in range(0, len(values), per_line):
        yield "    " + ", ".join(form % v for v in values[i : i + per_line]) + ",\n"


def array(out, kind, name, values, width, form, what):
    out.write(f"\n/* {what} */\nstatic const {kind} {name}[] = {{\n")
    out.writelines(rows(values, width, form))
    out.write("};\n")


decomposed, offsets, pool = [], [], []
for c in everything:
    d = unicodedata.normalize("NFD", chr(c))
    if d == chr(c) or c in HANGUL:
        continue
    decomposed.append(c | len(d) << 24)
    offsets.append(len(pool))
    pool.extend(map(ord, d))

classes, before = [], 0
for c in range(0x110000):
    k = 0 if 0xD800 <= c < 0xE000 else unicodedata.combining(chr(c))
    if k != before:
        classes.append(c | k << 24)
        before = k

pairs = []
for c in everything:
    d = unicodedata.decomposition(chr(c)).split()
    if len(d) == 2 and not d[0].startswith("<") and unicodedata.normalize("NFC", chr(c)) == chr(c):
        pairs.append((int(d[0], 16), int(d[1], 16), c))
pairs.sort()

with open(sys.argv[1], "w") as out:
    out.write(
        f"""/* unicode_tables.h - canonical composition of Unicode {unicodedata.unidata_version}. Written by
 * tests/interop/unicode_tables.py; Hangul syllables are computed. */
#ifndef KERF_TOKENS_UNICODE_TABLES_H
#define KERF_TOKENS_UNICODE_TABLES_H

#include <stdint.h>
"""
    )
    array(out, "uint32_t", "decomposed", decomposed, 9, "0x%07x", "code point, length << 24")
    array(out, "uint16_t", "decomposed_at", offsets, 4, "%d", "where it begins in `parts`")
    array(out, "uint32_t", "parts", pool, 7, "0x%05x", "full decompositions, one behind the other")
    array(out, "uint32_t", "classes", classes, 10, "0x%08x",
          "where another combining class begins: code point, class << 24")
    array(out, "uint32_t", "pair_first", [p[0] for p in pairs], 7, "0x%05x",
          "pairs that are composed, in order")
    array(out, "uint32_t", "pair_second", [p[1] for p in pairs], 7, "0x%05x", "their second parts")
    joining = sorted({p[1] for p in pairs if not unicodedata.combining(chr(p[1]))})
    array(out, "uint32_t", "joining", joining, 7, "0x%05x", "second parts of class 0")
    array(out, "uint32_t", "pair_whole", [p[2] for p in pairs], 7, "0x%05x", "and what they become")
    out.write("\n#endif\n")
