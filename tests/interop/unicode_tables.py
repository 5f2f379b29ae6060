#!/usr/bin/env python3
"""Writes advisor/tokens/unicode_tables.h: what the tokenizers package takes for canonical
composition. Its tables are older than those of Python: a mark that is newer has class 0 there, and the
models that are read were trained so.

  unicode_tables.py OUTPUT    needs the package tokenizers"""
import sys
import unicodedata

from tokenizers import normalizers

NFC, NFD = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
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



def combining(c):
    """Its class, where it changes places with a mark of a class above or below."""
    k = unicodedata.combining(chr(c))
    other = "\u0334" if k > 1 else "\u0315"
    pair = chr(c) + other if k > 1 else other + chr(c)
    return k if k and NFD(pair) != NFD(pair[0]) + NFD(pair[1]) else 0


decomposed, offsets, pool = [], [], []
for c in everything:
    d = NFD(chr(c))
    if d == chr(c) or c in HANGUL:
        continue
    decomposed.append(c | len(d) << 24)
    offsets.append(len(pool))
    pool.extend(map(ord, d))

classes, before = [], 0
for c in range(0x110000):
    k = 0 if 0xD800 <= c < 0xE000 else combining(c)
    if k != before:
        classes.append(c | k << 24)
        before = k

pairs = []
for c in everything:
    d = unicodedata.decomposition(chr(c)).split()
    if len(d) == 2 and not d[0].startswith("<") and NFC(chr(c)) == chr(c):
        pairs.append((int(d[0], 16), int(d[1], 16), c))
pairs.sort()

with open(sys.argv[1], "w") as out:
    out.write(
        """/* unicode_tables.h - canonical composition of Unicode, as the tokenizers package has it. Written
 * by tests/interop/unicode_tables.py; Hangul syllables are computed. */
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
    joining = sorted({p[1] for p in pairs if not combining(p[1])})
    array(out, "uint32_t", "joining", joining, 7, "0x%05x", "second parts of class 0")
    array(out, "uint32_t", "pair_whole", [p[2] for p in pairs], 7, "0x%05x", "and what they become")
    out.write("\n#endif\n")
