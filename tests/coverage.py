"""Adds up gcov's JSON files over all programs, prints coverage of codecs/scalar and codecs/block and
writes it to a file of bench/results. Called by coverage.sh.

A function in a header is compiled into every source that includes it, with the same branches in
the same order; line and branch numbers therefore name the same thing everywhere."""
import collections
import gzip
import json
import os
import sys

MIN_LINES, MIN_BRANCHES = 99.0, 95.0
KEYS = "lines_run", "lines", "branches_taken", "branches"


def read(paths, root):
    """file -> line -> [runs, [runs of each branch]]"""
    files = collections.defaultdict(dict)
    for path in paths:
        with gzip.open(path) as f:
            report = json.load(f)
        for entry in report["files"]:
            name = os.path.relpath(os.path.join(report["current_working_directory"], entry["file"]), root)
            if not name.startswith(("codecs/scalar/", "codecs/block/")):
                continue
            for line in entry["lines"]:
                key = line["line_number"]
                seen = files[name].setdefault(key, [0, []])
                seen[0] += line["count"]
                for i, branch in enumerate(line["branches"]):
                    if i == len(seen[1]):
                        seen[1].append(0)
                    seen[1][i] += branch["count"]
    return files


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def main():
    root, out, paths = sys.argv[1], sys.argv[2], sys.argv[3:]
    total = [0, 0, 0, 0]
    files = {}
    missed = []
    print(f"{'file':32} {'lines':>16} {'branches':>18}")
    for name, lines in sorted(read(paths, root).items()):
        source = open(os.path.join(root, name)).read().split("\n")
        run = sum(runs > 0 for runs, _ in lines.values())
        branches = [b for _, group in lines.values() for b in group]
        taken = sum(b > 0 for b in branches)
        row = [run, len(lines), taken, len(branches)]
        total = [a + b for a, b in zip(total, row)]
        files[name] = dict(zip(KEYS, row))
        print(f"{name:32} {run:5} of {len(lines):5} {taken:6} of {len(branches):6}")
        for number, (runs, group) in sorted(lines.items()):
            if runs == 0 or 0 in group:
                what = "line" if runs == 0 else f"{group.count(0)} of {len(group)} branches"
                missed.append(f"{name}:{number}: {what} never taken: {source[number - 1].strip()}")
    for text in missed:
        print(text)
    line_share, branch_share = percent(*total[:2]), percent(*total[2:])
    print(f"lines {line_share:.2f} % of {total[1]}, branches {branch_share:.2f} % of {total[3]}")
    with open(out, "w", encoding="ascii") as f:
        json.dump({"total": dict(zip(KEYS, total)), "files": files}, f, indent=1)
        f.write("\n")
    if line_share < MIN_LINES or branch_share < MIN_BRANCHES:
        sys.exit(f"at least {MIN_LINES} % of lines and {MIN_BRANCHES} % of branches are required")


main()
