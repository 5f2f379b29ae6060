#!/usr/bin/env python3
"""Products by ggml's CUDA backend beside kerf's: two results of one run as tables.

  gemv_ggml_cuda.py GGML.json KERF.json [FORMAT...]

GGML.json is of gemv_ggml_cuda, KERF.json of bench_gemv_cuda. A cell is ggml's time, kerf's in plain
graphs and in a chain of dependent launches (us), and how many times as long ggml takes as the chain.
With formats named, only those; the last table is the middle of the ratios over all shapes.
"""
import json
import statistics
import sys


def load(path):
    with open(path, encoding="utf-8") as f:
        found = json.load(f)
    return {(r["format"], r["rows"], r["cols"], r["columns"]): r for r in found["results"]
            if r["by"] in ("ggml", "kerf") and "us" in r}


def middle(ratios):
    return f"{statistics.median(ratios):.2f}" if ratios else ""


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    theirs, ours = load(sys.argv[1]), load(sys.argv[2])
    both = [k for k in theirs if k in ours and "us_chain" in ours[k]]
    formats = sys.argv[3:] or list(dict.fromkeys(k[0] for k in both))
    shapes = list(dict.fromkeys(k[1:3] for k in both))
    columns = sorted({k[3] for k in both})
    for c in columns:
        print(f"\n| us, {c} column{'s' * (c > 1)}: ggml / kerf, kerf in a chain (times as fast) | "
              + " | ".join(f"{r} x {k}" for r, k in shapes) + " |")
        print("|---" * (len(shapes) + 1) + "|")
        for f in formats:
            cells = []
            for r, k in shapes:
                key = f, r, k, c
                t, o = theirs.get(key), ours.get(key)
                cells.append(f"{t['us']:.1f} / {o['us']:.1f}, {o['us_chain']:.1f} "
                             f"({t['us'] / o['us_chain']:.2f})" if t and o and "us_chain" in o else "")
            print(f"| `{f}` | " + " | ".join(cells) + " |")
    print("\n| times as fast, middle of shapes: in a chain (plain) | "
          + " | ".join(str(c) for c in columns) + " | error of ggml, of kerf |")
    print("|---" * (len(columns) + 2) + "|")
    for f in formats:
        cells = []
        for c in columns:
            keys = [k for k in both if k[0] == f and k[3] == c]
            cells.append(middle([theirs[k]["us"] / ours[k]["us_chain"] for k in keys]) + " ("
                         + middle([theirs[k]["us"] / ours[k]["us"] for k in keys]) + ")")
        keys = [k for k in both if k[0] == f]
        worst = [max((side[k]["rms"] for k in keys), default=0) for side in (theirs, ours)]
        print(f"| `{f}` | " + " | ".join(cells) + f" | {worst[0]:.1e}, {worst[1]:.1e} |")


if __name__ == "__main__":
    main()
