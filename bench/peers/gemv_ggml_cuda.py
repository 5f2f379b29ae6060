#!/usr/bin/env python3
"""Products by ggml's CUDA backend beside kerf's: results of one run as tables, or as one file.

  gemv_ggml_cuda.py RESULT.json... [--formats LIST] [--counts NCU.csv...] [--command TEXT] [-o FILE.json]

The results are of gemv_ggml_cuda and of bench_gemv_cuda, or a file that -o wrote of both. A cell is
ggml's time, kerf's in plain graphs and in a chain of dependent launches (us), and how many times as
long ggml takes as the chain. The last table has the middle of these ratios over all shapes and the
largest errors over rms(y). --counts: what `gemv_ggml_cuda.sh run` had ncu count.
"""
import argparse
import csv
import json
import os
import statistics

KEYS = "format", "rows", "cols", "columns"


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def counts_of(path):
    """The kernels of one file of ncu, with a short name and a number for each metric."""
    with open(path, encoding="utf-8") as f:
        rows = list(csv.DictReader(line for line in f if line.startswith('"')))
    kernels = {}
    for r in rows:
        name = r["Kernel Name"].split("(")[0] if "unnamed" not in r["Kernel Name"] else \
            r["Kernel Name"].split("::")[1].split("(")[0]
        k = kernels.setdefault(r["ID"], {"kernel": name.replace("void ", "")})
        k[r["Metric Name"]] = float(r["Metric Value"].replace(",", ""))
    what = os.path.basename(path).removeprefix("ncu-").removesuffix(".csv")
    by, rest = what.split("-", 1)
    form, columns = rest.rsplit("-", 1)
    return {"by": by, "format": form, "columns": int(columns), "rows": 8192, "cols": 8192,
            "kernels": list(kernels.values())}


def join(documents, counts, command):
    """One document of several: each one's head under who it is of."""
    whole = {"schema": "kerf-bench-gemv-ggml-cuda-2", "device": documents[0]["device"]}
    if command:
        whole["command"] = command
    for d in documents:
        head = {k: v for k, v in d.items() if k not in ("results", "decoder", "device")}
        whole[d["results"][0]["by"]] = head
    whole["results"] = [r for d in documents for r in d["results"] if r["by"] in ("ggml", "kerf")]
    whole["counts"] = [counts_of(path) for path in counts]
    return whole


def write(whole, path):
    lines = {k: v for k, v in whole.items() if k not in ("results", "counts")}
    with open(path, "w", encoding="utf-8") as f:
        f.write(json.dumps(lines, indent=2)[:-2])
        for name in ("results", "counts"):
            rows = ",\n    ".join(json.dumps(r) for r in whole[name])
            f.write(f',\n  "{name}": [\n    {rows}\n  ]')
        f.write("\n}\n")


def print_columns(theirs, ours, formats, shapes, columns):
    print(f"\n| us, {columns} column{'s' * (columns > 1)}: ggml / kerf, in a chain (times as fast) | "
          + " | ".join(f"{r} x {k}" for r, k in shapes) + " |")
    print("|---" * (len(shapes) + 1) + "|")
    for f in formats:
        cells = []
        for r, k in shapes:
            t, o = (side.get((f, r, k, columns)) for side in (theirs, ours))
            cells.append(f"{t['us']:.1f} / {o['us']:.1f}, {o['us_chain']:.1f} "
                         f"({t['us'] / o['us_chain']:.2f})" if t and o else "")
        print(f"| `{f}` | " + " | ".join(cells) + " |")


def print_middles(theirs, ours, formats, columns):
    print("\n| times as fast, middle of shapes: in a chain (plain) | "
          + " | ".join(map(str, columns)) + " | error of ggml, of kerf |")
    print("|---" * (len(columns) + 2) + "|")
    for f in formats:
        cells = []
        for c in columns:
            keys = [k for k in theirs if k in ours and (k[0], k[3]) == (f, c)]
            cells.append(" ".join(form.format(statistics.median(
                theirs[k]["us"] / ours[k][us] for k in keys))
                for us, form in (("us_chain", "{:.2f}"), ("us", "({:.2f})")) if keys))
        worst = [max((r["rms"] for k, r in side.items() if k[0] == f), default=0)
                 for side in (theirs, ours)]
        print(f"| `{f}` | " + " | ".join(cells) + f" | {worst[0]:.1e}, {worst[1]:.1e} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--formats", default="")
    parser.add_argument("--counts", nargs="*", default=[])
    parser.add_argument("--command", default="")
    parser.add_argument("-o", dest="out")
    o = parser.parse_args()
    documents = [load(path) for path in o.results]
    if o.out:
        write(join(documents, o.counts, o.command), o.out)
        return
    rows = [r for d in documents for r in d["results"]]
    theirs, ours = ({tuple(r[k] for k in KEYS): r for r in rows if r["by"] == by}
                    for by in ("ggml", "kerf"))
    formats = [f for f in o.formats.split(",") if f] or list(dict.fromkeys(k[0] for k in theirs))
    columns = sorted({k[3] for k in theirs})
    for c in columns:
        print_columns(theirs, ours, formats, list(dict.fromkeys(k[1:3] for k in theirs)), c)
    print_middles(theirs, ours, formats, columns)


if __name__ == "__main__":
    main()
